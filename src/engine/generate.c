/* tern_generate: one text from its prompt to its end. */
#include "engine/text_tokens.h"

struct tern_generate_params tern_generate_defaults(void)
{
    return (struct tern_generate_params){.tokenize_flags = TERN_ADD_SPECIAL, .n_predict = -1};
}

enum tern_status tern_generate(tern_context *ctx, const struct tern_generate_params *params,
                               struct tern_generate_result *result, struct tern_error *e)
{
    tern_text *t = NULL;
    if (result)
        *result = (struct tern_generate_result){.last = -1};
    tern_batch_clear(ctx);
    atomic_store(&ctx->forward.cancel, 0);
    enum tern_status s = tern_text_open(&t, ctx, params, e);
    if (s)
        return s;
    while (!s && !tern_text_is_over(t)) {
        tern_text_catch_up(t);
        if ((s = tern_step(&t, 1, 0, e)) == TERN_CANCELLED) {
            text_cancel(t);
            s = TERN_OK;
        }
    }
    if (!s)
        s = tern_text_result(t, result, e);
    atomic_store(&ctx->forward.cancel, 0);
    tern_text_close(t);
    return s;
}
