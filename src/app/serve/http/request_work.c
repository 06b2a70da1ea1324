/* Handlers in the lanes: all that takes long of a request, such as JSON, templates, tokens and constraints, is
 * no work of the HTTP thread. See frame.h.
 *
 * The connection is suspended meanwhile, so MHD leaves it and the exchange alone, and this file's thread has
 * the exchange for itself. A client that leaves sets `lost`: the work is given up as soon as it asks, and its
 * exchange ends then. */
#include "app/serve/http/frame.h"

enum {
    SHORT_BYTES = 64 << 10, /* of a body, at most, in the short lane */
    HARD_BYTES = 1 << 20,   /* as how many a constraint counts that moves to the long lane */
};

static void work(void *arg)
{
    struct exchange *x = arg;
    struct frame *f = x->frame;
    if (!x->lost && !x->json)
        request_body_parse(x);
    if (x->fault.status)
        exchange_fault(x, &x->fault);
    else if (!x->lost)
        x->route->handle(f->server, x);
    if (x->again) {
        x->again = false;
        x->task.bytes = HARD_BYTES;
        lanes_add(f->lanes, LANE_LONG, &x->task);
        return;
    }
    request_body_close(x); /* here, because much JSON is much to free */
    exchange_worked(x);
}

void request_work_begin(struct exchange *x)
{
    x->at_work = true;
    x->task = (struct lane_task){.bytes = x->n_body, .lost = &x->lost, .run = work, .arg = x};
    lanes_add(x->frame->lanes, x->n_body > SHORT_BYTES ? LANE_LONG : LANE_SHORT, &x->task);
}
