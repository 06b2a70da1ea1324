/* POST /v1/responses: OpenAI's Responses API. */
#include "app/serve/exchange.h"
#include "app/serve/handlers.h"
#include "app/serve/responses_answer.h"
#include "app/serve/responses_request.h"

void handle_responses(struct server *s, struct exchange *x)
{
    struct fault f = {0};
    struct responses_request r;
    struct responses_answer *a = NULL;
    bool ok = responses_request_read(&r, s, x, &f) && turn_prepare(&r.turn, s, &f);
    if (ok && !(a = responses_answer_open(s, &r)))
        fault_set(&f, 503, NULL, NULL, NULL, "the server is out of memory");
    ok = ok && a && turn_begin(&r.turn, s, x, &responses_answer_writer, a, &f);
    if (ok)
        responses_answer_begin(a, x);
    else
        exchange_fault(x, &f);
    if (!ok)
        responses_answer_close(a);
    responses_request_close(&r);
}
