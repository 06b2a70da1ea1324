/* Tokens: see tokens.h. */
#include "app/cli/tokens.h"

#include "app/cli/number.h"
#include "app/cli/parser.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Room for a token a byte is nearly always enough; tern_tokenize says when it is not. */
enum tern_status tokens_take(const tern_model *model, const char *text, size_t n, unsigned flags,
                             size_t most, tern_token **tokens, size_t *n_tokens,
                             struct tern_error *e)
{
    bool must_fit = flags & TERN_MUST_FIT && most < n; /* else it does, but for what steps add */
    size_t room = must_fit ? most : n + 16;
    flags = must_fit ? flags : flags & ~(unsigned)TERN_MUST_FIT;
    *tokens = NULL;
    for (;;) {
        tern_token *more = room <= SIZE_MAX / sizeof *more ? malloc(room * sizeof *more) : NULL;
        if (!more)
            return parser_no_memory_for(e, "%zu tokens", room);
        enum tern_status s = tern_tokenize(model, text, n, flags, more, room, n_tokens, e);
        if (!s && (*n_tokens <= room || must_fit)) {
            *tokens = more;
            return TERN_OK;
        }
        free(more);
        if (s)
            return s;
        room = *n_tokens;
    }
}

enum tern_status tokens_take_ids(const tern_model *model, const char *text, tern_token **tokens,
                                 size_t *n_tokens, struct tern_error *e)
{
    static const char gaps[] = " ,\n";
    struct tern_model_info info;
    size_t room = strlen(text) / 2 + 2;
    tern_model_info(model, &info);
    *n_tokens = 0;
    *tokens = malloc(room * sizeof **tokens);
    if (!*tokens)
        return parser_no_memory_for(e, "%zu tokens", room);
    for (text += strspn(text, gaps); *text; text += strspn(text, gaps)) {
        uint64_t id;
        size_t n = strcspn(text, gaps);
        if (!number_u64(text, n, &id) || id >= info.vocab)
            return parser_usage(e, "--prompt-ids: '%.*s' is not a token id from 0 to %llu",
                                n < 100 ? (int)n : 100, text, (unsigned long long)info.vocab - 1);
        (*tokens)[(*n_tokens)++] = (tern_token)id;
        text += n;
    }
    return *n_tokens ? TERN_OK : parser_usage(e, "--prompt-ids: there is no token id");
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
