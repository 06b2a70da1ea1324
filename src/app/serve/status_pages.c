/* /health, /metrics and /slots. */
#include "app/serve/handlers.h"

#include "app/serve/http/frame.h"
#include "app/serve/model/scheduler.h"

#include <stdio.h>
#include <string.h>

/* As llama-server: 200 {"status":"ok"}; 503 with an error while the model is being loaded. */
void handle_health(struct server *s, struct exchange *x)
{
    static const char ok[] = "{\"status\":\"ok\"}";
    struct fault f = {.retry_after = 1};
    if (s->loaded) {
        exchange_reply(x, 200, "application/json", ok, sizeof ok - 1);
        return;
    }
    fault_set(&f, 503, NULL, "loading", NULL, "the model is being loaded");
    exchange_fault(x, &f);
}

static void add_number(struct growing_text *t, const char *name, const char *type, const char *help,
                       double value)
{
    char line[512];
    int n = snprintf(line, sizeof line, "# HELP tern_%s %s\n# TYPE tern_%s %s\ntern_%s %.17g\n",
                     name, help, name, type, name, value);
    growing_text_add(t, line, (size_t)n);
}

void handle_metrics(struct server *s, struct exchange *x)
{
    const struct frame *f = x->frame;
    struct growing_text t = {0};
    char line[96];
    add_number(&t, "http_connections", "gauge", "Open connections.", (double)f->n_connections);
    add_number(&t, "http_exchanges", "gauge", "Requests being read or answered.",
               (double)f->n_exchanges);
    add_number(&t, "http_accepted_total", "counter", "Connections that were accepted.",
               (double)f->n_accepted);
    add_number(&t, "http_refused_total", "counter", "Connections beyond a limit.",
               (double)f->n_refused);
    add_number(&t, "http_timeouts_total", "counter", "Requests that came too slowly.",
               (double)f->n_timeouts);
    add_number(&t, "http_lost_total", "counter", "Clients that left before their answer.",
               (double)f->n_lost);
    add_number(&t, "log_lost_total", "counter", "Lines of the log that could not be written.",
               (double)f->log.lost);
    static const char head[] =
        "# HELP tern_http_responses_total Answers, by the first digit of their status.\n"
        "# TYPE tern_http_responses_total counter\n";
    growing_text_add(&t, head, sizeof head - 1);
    for (int i = 2; i < 6; i++) {
        int n = snprintf(line, sizeof line, "tern_http_responses_total{status=\"%dxx\"} %llu\n", i,
                         (unsigned long long)f->n_status[i]);
        growing_text_add(&t, line, (size_t)n);
    }
    scheduler_metrics(s->scheduler, &t);
    exchange_reply(x, 200, "text/plain; version=0.0.4", t.p ? t.p : "", t.n);
    growing_text_close(&t);
}

void handle_slots(struct server *s, struct exchange *x)
{
    exchange_reply_json(x, 200, scheduler_slots(s->scheduler));
}
