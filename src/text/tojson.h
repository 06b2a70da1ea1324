/* Prints JSON values as Python does it in a chat template: json.dumps, str and repr. A style is a number
 * of the weights file (FORMAT.md, "Tools"). */
#ifndef TEXT_TOJSON_H
#define TEXT_TOJSON_H

#include "text/buffer.h"
#include "text/json_read.h"

enum tojson_notation {
    TOJSON_JSON,
    TOJSON_STR,         /* Python's str(): a string as it is */
    TOJSON_REPR,        /* Python's repr() */
    TOJSON_TYPES,       /* of a function: tool_types.h */
    TOJSON_SIGNATURE,   /* of a function */
    TOJSON_DECLARATION, /* of a function: tool_gemma.h */
    TOJSON_GEMMA,       /* tool_gemma.h */
    TOJSON_TAGS,        /* of a function */
    TOJSON_TAGS_APART,  /* the same; `enum` first and `required` last */
    TOJSON_NOTATIONS,
    TOJSON_NOTATION = 0xFF
};
enum {
    TOJSON_ASCII = 1 << 8, /* every other character as \u1234 */
    TOJSON_HTML = 1 << 9,  /* < > & ' as well */
    TOJSON_SORT = 1 << 10, /* keys by code points */
    TOJSON_TIGHT = 1 << 11,
    TOJSON_INDENT = 16, /* bits 16 to 23: spaces a level, 0: all in one line */
    TOJSON_INDENT_MAX = 16
};

/* Is it a style that FORMAT.md defines? */
bool tojson_check(uint32_t style);

/* A value in notations JSON to REPR. False: no memory. */
bool tojson_put(const struct json *j, uint32_t node, uint32_t style, struct buffer *out);
/* A string that is no node. */
bool tojson_put_string(const char *p, size_t n, uint32_t style, struct buffer *out);

/* A finite double as Python's repr; and the double that the number p[0..n) of a JSON text stands for, the
 * nearest one, infinity above all. False: no memory. */
bool tojson_put_real(double x, struct buffer *out);
bool tojson_real(const char *p, size_t n, double *x);

/* The members of an object in the order of Jinja's dictsort: by key, without regard to the case of ASCII
 * letters. Or, `exact`, by code points. The caller frees them; NULL: no memory. */
uint32_t *tojson_sorted(const struct json *j, uint32_t object, bool exact);

#endif
