/* What is looked at: a model, a text as tokens, and the context in which they are evaluated while
 * somebody watches. Every job of `look` begins here. */
#ifndef LOOK_SUBJECT_H
#define LOOK_SUBJECT_H

#include "app/look/look_options.h"
#include "tern_lab.h"

struct subject {
    const struct look_options *o;
    tern_model *model;
    struct tern_model_info info;
    tern_context *ctx;
    tern_decoder *decoder; /* NULL: a model without a tokenizer */
    tern_token *tokens;    /* [n] the text, then what the model continued with; owned */
    size_t n, n_prompt;    /* n_prompt tokens are the text's */
    float *no_scores;      /* [most heads of a layer] zeros: the sinks of --attn sinks; owned */
    tern_edit_fn edit;     /* of every context that is opened; NULL: none */
    void *edit_arg;
};

/* Opens the model, and makes tokens of the text. */
enum tern_status subject_open(struct subject *s, const struct look_options *o,
                              struct tern_error *e);
/* Opens the model of o->model alone. */
enum tern_status subject_open_model(struct subject *s, const struct look_options *o,
                                    struct tern_error *e);
void subject_close(struct subject *s);

/* Tokens of the text, and the most that --n-predict adds */
size_t subject_length(const struct subject *s);

/* Opens a context for the text and what is generated after it. Signals act on it. */
enum tern_status subject_begin(struct subject *s, struct tern_error *e);

/* Opens a context of n_seqs sequences of n_ctx positions, for a job that evaluates texts of its
 * own. */
enum tern_status subject_context(struct subject *s, uint32_t n_ctx, uint32_t n_seqs,
                                 struct tern_error *e);

/* tern_model_layer, with what --attn changes; whether tokens see later ones; and the position after
 * the last one that token i sees, windows aside. */
void subject_layer(const struct subject *s, uint64_t layer, struct tern_layer_info *info);
bool subject_is_bidirectional(const struct subject *s);
size_t subject_sees_to(const struct subject *s, size_t i);
bool subject_has_weights(const struct subject *s); /* its attention has a matrix of weights */
void subject_mask(const struct subject *s, struct tern_attention_params *p);

/* Called after every batch with what has logits: rows first .. first + n - 1 of the text. Non-zero
 * stops. */
typedef int (*subject_logits_fn)(void *arg, size_t first, size_t n);

/* Evaluates the tokens of the text, then chooses and evaluates --n-predict more, which are appended
 * to s->tokens. `fn` (may be NULL) sees the logits of every position; without it only the last
 * position has any. A progress line goes to a terminal's standard error. */
enum tern_status subject_run(struct subject *s, subject_logits_fn fn, void *arg,
                             struct tern_error *e);

/* Another text's tokens, which the caller frees; made as those of the subject. */
enum tern_status subject_tokenize(const struct subject *s, const char *text, size_t n,
                                  tern_token **tokens, size_t *n_tokens, struct tern_error *e);

/* The bytes of a token, perhaps a part of a character; borrowed until the next call. Where there is
 * no tokenizer, its number, in id [16]. */
const char *subject_bytes(const struct subject *s, tern_token token, char *id, size_t *n);

/* The first character of text[0..n), n > 0, so that it can be seen: control characters and parts of
 * characters are \n, \t, \xNN; what only turns or breaks lines is \uNNNN. Returns its bytes in the
 * text. */
size_t subject_piece(const char *text, size_t n, char piece[16]);

/* The token as a label on one line, at most `columns` wide: pieces, and a space is a middle dot.
 * Returns label [room]. */
const char *subject_label(const struct subject *s, tern_token token, size_t columns, char *label,
                          size_t room);

/* Layers "3" or "3-5" at *text up to a comma, which it passes; false: the model has no such layers. */
bool subject_take_layers(const struct subject *s, const char **text, uint64_t *from, uint64_t *to);

/* --layers as [n_layers] of 0 and 1, which the caller frees; without the option all. */
enum tern_status subject_layers(const struct subject *s, unsigned char **layers,
                                struct tern_error *e);

/* --positions of a text of n positions; without the option all. */
enum tern_status subject_positions(const struct subject *s, size_t n, uint32_t *first,
                                   uint32_t *last, struct tern_error *e);

/* The model's name, or its path */
const char *subject_name(const struct subject *s);

/* "L.H" of --head, checked. */
enum tern_status subject_head(const struct subject *s, const char *text, uint64_t *layer,
                              uint64_t *head, struct tern_error *e);

#endif
