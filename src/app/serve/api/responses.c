/* POST /v1/responses and /v1/responses/input_tokens: OpenAI's Responses API. */
#include "app/serve/http/exchange.h"
#include "app/serve/handlers.h"
#include "app/serve/api/responses_answer.h"
#include "app/serve/api/responses_request.h"

void handle_responses(struct server *s, struct exchange *x)
{
    struct fault f = {0};
    struct responses_request r;
    struct responses_answer *a = NULL;
    bool ok = responses_request_read(&r, s, x, false, &f) && turn_prepare(&r.turn, s, &f);
    if (ok && !(a = responses_answer_open(s, &r)))
        fault_no_memory(&f, "the request");
    ok = ok && a && turn_begin(&r.turn, s, x, &responses_answer_writer, a, &f);
    if (ok)
        responses_answer_begin(a, x);
    else
        exchange_fault(x, &f);
    if (!ok)
        responses_answer_close(a);
    responses_request_close(&r);
}

/* What usage.input_tokens will say. */
void handle_input_tokens(struct server *s, struct exchange *x)
{
    struct fault f = {0};
    struct responses_request r;
    if (responses_request_read(&r, s, x, true, &f) && turn_check_text(&r.turn, s, &f) &&
        turn_prepare(&r.turn, s, &f)) {
        answers_ignored(x, r.turn.ignored);
        exchange_reply_json(x, 200,
                            json_pack("{s:s, s:I}", "object", "response.input_tokens",
                                      "input_tokens", (json_int_t)r.turn.prompt.n));
    } else {
        exchange_fault(x, &f);
    }
    responses_request_close(&r);
}
