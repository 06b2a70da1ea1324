/* Tokens of an answer, which wait until all of their text is certain, that is, not perhaps the beginning of a stop
 * string; then they go to the parser of answers. So nothing of a stop string is told, wherever it begins. */
#ifndef CLI_CERTAIN_H
#define CLI_CERTAIN_H

#include "app/cli/growing_text.h"
#include "tern.h"

struct certain {
    const tern_model *model;
    tern_decoder *decoder; /* makes the text of each token, as the engine does; owned */
    bool ignore_end;       /* end tokens have text, too */
    bool over;
    struct growing_text raw;      /* what was not passed on, behind the text of the last piece [n_given] */
    size_t made, certain, passed; /* bytes from the beginning: of all tokens; certain; passed on */
    size_t n_given;
    struct growing_text waiting; /* struct certain_token: those that were not passed on */
};

struct certain_piece {
    enum {
        CERTAIN_NONE,
        CERTAIN_TOKEN, /* a token, and its text */
        CERTAIN_CUT,   /* the text of a token as far as a stop string; the rest is not told */
        CERTAIN_REST,  /* text behind the last token, which the decoder held back */
    } kind;
    tern_token token;
    const char *text; /* [n], until the next call */
    size_t n;
};

/* An answer to prompt[0..n). Close it also if this fails. */
enum tern_status certain_open(struct certain *c, const tern_model *model, bool ignore_end,
                              const tern_token *prompt, size_t n, struct tern_error *e);
void certain_close(struct certain *c);

/* Another token, the next n bytes of text that are certain, the end. False: no memory. */
bool certain_add(struct certain *c, tern_token token);
void certain_grow(struct certain *c, size_t n);
bool certain_end(struct certain *c, enum tern_stop_reason reason);
/* What can be told next. A CERTAIN_NONE at the end is the last. */
void certain_next(struct certain *c, struct certain_piece *piece);

#endif
