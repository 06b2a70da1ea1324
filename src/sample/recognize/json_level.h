/* Levels of the JSON recognizer: containers with the alternatives that are alive in them. */
#ifndef RECOGNIZE_JSON_LEVEL_H
#define RECOGNIZE_JSON_LEVEL_H

#include "sample/recognize/json_seen.h"
#include "sample/recognize/json_state.h"

/* How many words a thread has. */
uint32_t thread_words(const struct json_recognizer *j, unsigned kind, uint32_t shape);

/* Loops over the threads of a level: for (THREADS(j, l, th)). */
#define THREADS(j, l, th)                                                          \
    const struct thread *th = (const struct thread *)(const void *)level_words(l), \
                        *th##_end = (const void *)(level_words(l) + (l)->n_words); \
    th < th##_end;                                                                 \
    th = (const void *)((const uint32_t *)th + thread_words((j), (l)->kind, th->shape))

/* ---- drafts: json.head and json.words are the next level ---- */
void draft_start(struct json_recognizer *j,
                 const struct level *from); /* its head, without threads */
/* A thread without want, counts 0. The pointer holds until the next one; NULL: no memory. */
struct thread *draft_thread(struct json_recognizer *j, uint32_t shape, uint32_t owner);
struct thread *draft_copy(struct json_recognizer *j, const struct thread *from);
void draft_undo(struct json_recognizer *j,
                const struct thread *th); /* takes the newest thread back */
/* Appends the draft as the innermost level; p goes to the phase. STEP_DEAD: it has no threads. */
enum step draft_push(struct json_recognizer *j, struct track *t, struct place *p, enum phase phase);

/* ---- values ---- */
enum value_kind { VALUE_LITERAL, VALUE_STRING, VALUE_NUMBER, VALUE_CONTAINER };
/* What was read: json.done holds the languages (of nodes) that it is in, or the nodes that it has. */
struct value {
    enum value_kind kind;
    unsigned literal;    /* SHAPE_NULL ... */
    struct seen_key key; /* in arrays of unique items */
};
/* The value is over for which the level `at` waits. */
enum step value_end(struct json_recognizer *j, struct track *t, struct place *p, uint32_t at,
                    const struct value *v);

/* { or [, as a value for which the innermost level waits. */
enum step container_begin(struct json_recognizer *j, struct track *t, struct place *p,
                          unsigned kind);
bool container_may_end(const struct json_recognizer *j, const struct level *l);
enum step container_end(struct json_recognizer *j, struct track *t, struct place *p);
/* An item of the innermost level begins, which is an array. */
enum step item_begin(struct json_recognizer *j, struct track *t, struct place *p, enum phase phase);

/* The innermost level, with `flags` too. */
enum step level_flag(struct json_recognizer *j, struct track *t, struct place *p, unsigned flags,
                     enum phase phase);
/* Begins to record a word of the innermost level; false: no room. */
bool record_word(struct track *t, struct place *p);
bool record_bytes(struct track *t, struct place *p, const void *bytes, size_t n);

/* The set of a script's texts behind its states in `states`. */
uint32_t script_set(struct json_recognizer *j, const uint32_t *states, uint32_t n);

#endif
