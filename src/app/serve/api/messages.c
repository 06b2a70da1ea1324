/* POST /v1/messages and /v1/messages/count_tokens: Anthropic's Messages API. */
#include "app/serve/http/exchange.h"
#include "app/serve/handlers.h"
#include "app/serve/api/messages_answer.h"
#include "app/serve/api/messages_request.h"

void handle_messages(struct server *s, struct exchange *x)
{
    struct fault f = {0};
    struct messages_request r;
    struct messages_answer *a = NULL;
    bool ok = messages_request_read(&r, s, x, false, &f) && turn_prepare(&r.turn, s, &f);
    if (ok && !(a = messages_answer_open(&r)))
        fault_no_memory(&f, "the request");
    ok = ok && a && turn_begin(&r.turn, s, x, &messages_answer_writer, a, &f);
    if (ok)
        messages_answer_begin(a, x);
    else
        exchange_fault(x, &f);
    if (!ok)
        messages_answer_close(a);
    messages_request_close(&r);
}

/* What usage will say: input_tokens and cache_read_input_tokens together. */
void handle_count_tokens(struct server *s, struct exchange *x)
{
    struct fault f = {0};
    struct messages_request r;
    if (messages_request_read(&r, s, x, true, &f) && turn_check_text(&r.turn, s, &f) &&
        turn_prepare(&r.turn, s, &f)) {
        answers_ignored(x, r.turn.ignored);
        exchange_reply_json(x, 200,
                            json_pack("{s:I}", "input_tokens", (json_int_t)r.turn.prompt.n));
    } else {
        exchange_fault(x, &f);
    }
    messages_request_close(&r);
}
