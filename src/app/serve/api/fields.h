/* Typed reading of a JSON object that a client sent. A wrong type or value sets the fault, 400 with the
 * field's path ("messages[3].role") in `param`. A field that is null counts as absent. What nobody read
 * is listed in the end: fields_unknown.
 *
 *     struct fields f;
 *     double temperature = 1;
 *     if (!fields_open(&f, body, "", &fault) || !fields_real(&f, "temperature", 0, 2, &temperature))
 *         return false; // the fault says why
 */
#ifndef SERVE_FIELDS_H
#define SERVE_FIELDS_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "app/serve/http/fault.h"

enum {
    FIELDS_NAMES_MAX = 160,
    FIELDS_TEXT_MAX = 512 /* of fields_unknown, with its NUL */
};

struct fields {
    json_t *object;                      /* borrowed */
    char place[96];                      /* of the object: "" or "messages[3]" */
    struct fault *fault;                 /* borrowed */
    const char *names[FIELDS_NAMES_MAX]; /* [n_names] what was read: words with spaces between */
    size_t n_names;
};

/* `value` must be an object. Nothing is to be closed. Names that are passed later must live as long as
 * the fields: literals. */
bool fields_open(struct fields *f, json_t *value, const char *place, struct fault *fault);
/* The object in field `name`, its place behind that of f. Absent: `inside` is an empty object. */
bool fields_inside(struct fields *f, const char *name, struct fields *inside, bool *present);

bool fields_has(struct fields *f, const char *name);  /* it is there and not null */
bool fields_need(struct fields *f, const char *name); /* false: absent, and the fault says so */

/* Each returns false only after setting the fault. An absent field leaves *v alone. Limits are
 * inclusive. A whole number may be written as 3.0 or 3e0, below 2^53: a double keeps those alone. */
bool fields_real(struct fields *f, const char *name, double min, double max, double *v);
bool fields_integer(struct fields *f, const char *name, int64_t min, int64_t max, int64_t *v);
bool fields_whole(const json_t *x, int64_t *v); /* the same of any value, without a fault */
bool fields_bool(struct fields *f, const char *name, bool *v);
/* Borrowed from the object; [n] bytes with a NUL behind them. n may be NULL: then a NUL within is a
 * fault, too. */
bool fields_text(struct fields *f, const char *name, const char **v, size_t *n);
/* The field "model", any text, for the owner to keep; absent: that of `name`. NULL: the fault says why. */
json_t *fields_model(struct fields *f, const char *name);
/* One of the words of `words`, which | separates: its place among them. */
bool fields_choice(struct fields *f, const char *name, const char *words, size_t *v);
bool fields_object(struct fields *f, const char *name, json_t **v);
bool fields_array(struct fields *f, const char *name, size_t max,
                  json_t **v);                          /* of at most max items */
json_t *fields_any(struct fields *f, const char *name); /* NULL: absent */

/* What is said: a text, or an array of parts.
 *
 *     struct fields_parts p;
 *     bool ok = fields_parts(f, "content", "parts", &p);
 *     while (ok && fields_next_part(&p))
 *         ok = read_part(p.part, p.place);
 */
struct fields_parts {
    json_t *part;    /* with `whole`, the text; borrowed */
    char place[128]; /* "messages[3].content[1]" */
    bool whole;      /* the field is a text */
    json_t *field;
    size_t n; /* parts so far */
    char path[96];
};

/* Absent: no parts. `what` is what parts are called in the fault. */
bool fields_parts(struct fields *f, const char *name, const char *what, struct fields_parts *p);
bool fields_next_part(struct fields_parts *p);

/* Known fields without effect here, with spaces between. */
void fields_ignore(struct fields *f, const char *names);
/* From here on, what was read before counts as not read: where nothing is answered, the options of an answer have
 * no effect, but their types are checked. */
void fields_forget(struct fields *f);
/* A known field that asks for nothing where it is false or empty; else it counts as not read. */
void fields_unasked(struct fields *f, const char *name);
/* Appends the fields that were not read to text[FIELDS_TEXT_MAX], a C string: "a, messages[3].b". Only
 * letters, digits and _ . - [ ] are kept of a name; what does not fit is left out. */
void fields_unknown(const struct fields *f, char *text);

/* "messages[3].role"; a path that does not fit is cut. */
void fields_path(const struct fields *f, const char *name, char path[FAULT_PARAM]);
/* The fault of a field: 400, code, param the field's path, message "PATH " and the format. false. */
#if defined(__GNUC__)
__attribute__((format(printf, 4, 5)))
#endif
bool fields_fault(const struct fields *f, const char *name, const char *code, const char *format, ...);

#endif
