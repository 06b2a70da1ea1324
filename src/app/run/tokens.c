/* Tokens: see tokens.h. */
#include "app/run/tokens.h"

#include <stdio.h>
#include <stdlib.h>

/* Room for a token a byte is nearly always enough; tern_tokenize says when it is not. */
enum tern_status tokens_take(const tern_model *model, const char *text, size_t n, unsigned flags,
                             tern_token **tokens, size_t *n_tokens, struct tern_error *e)
{
    size_t room = n + 16;
    *tokens = NULL;
    for (;;) {
        tern_token *more = room <= SIZE_MAX / sizeof *more ? malloc(room * sizeof *more) : NULL;
        if (!more) {
            snprintf(e->text, sizeof e->text, "not enough memory for %zu tokens", room);
            return e->code = TERN_NO_MEMORY;
        }
        enum tern_status s = tern_tokenize(model, text, n, flags, more, room, n_tokens, e);
        if (!s && *n_tokens <= room) {
            *tokens = more;
            return TERN_OK;
        }
        free(more);
        if (s)
            return s;
        room = *n_tokens;
    }
}

bool tokens_have_text(const tern_model *model)
{
    size_t n = 0;
    return tern_tokenize(model, "", 0, 0, NULL, 0, &n, NULL) != TERN_USAGE;
}

tern_token tokens_prefix(const tern_model *model)
{
    struct tern_model_info info;
    tern_token first = -1;
    size_t n = 0;
    tern_model_info(model, &info);
    if (tern_tokenize(model, "", 0, TERN_ADD_SPECIAL, &first, 1, &n, NULL) || !n)
        return -1;
    return first == info.bos ? first : -1;
}
