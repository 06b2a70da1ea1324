/* The timeline: see timeline_view.h. The trace-event format is that of "Trace Event Format" (Google):
 * times in microseconds, a complete event ("X") for each span. */
#include "app/look/timeline_view.h"

#include "app/look/page.h"

#include <stdlib.h>
#include <string.h>

enum { MOST_SPANS = 400000 };

struct timeline_view {
    const struct subject *s;
    struct tern_span *spans; /* [n], owned */
    size_t n;
    uint64_t lost;
};

static enum tern_status take_spans(struct timeline_view *t, struct tern_error *e)
{
    t->n = tern_timeline(t->s->ctx, NULL, 0, &t->lost);
    t->spans = malloc((t->n + 1) * sizeof *t->spans);
    if (!t->spans)
        return parser_no_memory_for(e, "the timeline");
    (void)tern_timeline(t->s->ctx, t->spans, t->n, NULL);
    return TERN_OK;
}

/* ---- the trace ------------------------------------------------------------------------------- */

static void put_event(FILE *f, const char *name, const struct tern_span *x, double begin,
                      double end)
{
    fprintf(f, ",\n{\"name\":\"%s\",\"ph\":\"X\",\"pid\":1,\"tid\":%d,\"ts\":%.3f,\"dur\":%.3f",
            name, x->thread, begin * 1e6, (end - begin) * 1e6);
}

static void put_span(FILE *f, const struct tern_span *x, uint64_t n_layers)
{
    put_event(f, x->operation, x, x->begin, x->end);
    fprintf(f, ",\"cat\":\"work\",\"args\":{\"bytes\":%llu", (unsigned long long)x->bytes);
    if (x->layer < n_layers)
        fprintf(f, ",\"layer\":%llu", (unsigned long long)x->layer);
    if (x->n_rows)
        fprintf(f,
                ",\"kv_head\":%u,\"kv_heads\":%u,\"row\":%u,\"rows\":%u,\"block\":%u,\"blocks\":%u",
                x->kv_head, x->n_kv_heads, x->row, x->n_rows, x->block, x->n_blocks);
    fputs("}}", f);
    if (x->wait > 0) {
        put_event(f, "wait", x, x->end, x->end + x->wait);
        fprintf(f, ",\"cat\":\"wait\",\"args\":{\"after\":\"%s\"}}", x->operation);
    }
}

static void put_trace(FILE *f, const struct timeline_view *t)
{
    fputs("{\"displayTimeUnit\":\"ns\",\"traceEvents\":[\n"
          "{\"name\":\"process_name\",\"ph\":\"M\",\"pid\":1,\"args\":{\"name\":",
          f);
    page_string(f, t->s->o->model, strlen(t->s->o->model));
    fputs("}}", f);
    for (int i = 0; i < t->s->info.n_threads; i++)
        fprintf(f,
                ",\n{\"name\":\"thread_name\",\"ph\":\"M\",\"pid\":1,\"tid\":%d,\"args\":{\"name\":"
                "\"thread %d\"}}",
                i, i);
    for (size_t i = 0; i < t->n; i++)
        put_span(f, &t->spans[i], t->s->info.n_layers);
    fprintf(f, "\n],\"otherData\":{\"spans\":%zu,\"lost\":%llu}}\n", t->n,
            (unsigned long long)t->lost);
}

/* ---- the page -------------------------------------------------------------------------------- */

/* Times in tenths of a microsecond, as differences: a page stays small. */
static void put_spans(FILE *f, const struct timeline_view *t)
{
    for (size_t i = 0; i < t->n; i++) {
        const struct tern_span *x = &t->spans[i];
        fprintf(f, "%s[\"%s\",%llu,%d,%.1f,%.1f,%.1f,%llu", i ? ",\n" : "\n", x->operation,
                (unsigned long long)x->layer, x->thread, x->begin * 1e6, (x->end - x->begin) * 1e6,
                x->wait * 1e6, (unsigned long long)x->bytes);
        if (x->n_rows)
            fprintf(f, ",%u,%u,%u,%u,%u,%u", x->kv_head, x->n_kv_heads, x->row, x->n_rows, x->block,
                    x->n_blocks);
        putc(']', f);
    }
}

static enum tern_status write_page(const struct timeline_view *t, const char *path,
                                   struct tern_error *e)
{
    struct page page;
    enum tern_status status = page_open(&page, "timeline", "Timeline", t->s, path, e);
    if (status)
        return status;
    fprintf(page.f, ",\"n_layers\":%llu,\"n_threads\":%d,\"lost\":%llu,\"tokens\":%zu,\"spans\":[",
            (unsigned long long)t->s->info.n_layers, t->s->info.n_threads,
            (unsigned long long)t->lost, t->s->n);
    put_spans(page.f, t);
    putc(']', page.f);
    return page_close(&page, page_timeline_js, TERN_OK, e);
}

/* ---- the job --------------------------------------------------------------------------------- */

static enum tern_status write_trace(const struct timeline_view *t, const char *path,
                                    struct tern_error *e)
{
    struct output_file out;
    enum tern_status status = output_file_open(&out, path, e);
    if (status)
        return status;
    put_trace(out.stream, t);
    return output_file_close(&out, TERN_OK, e);
}

enum tern_status timeline_view_show(struct subject *s, struct tern_error *e)
{
    struct timeline_view t = {.s = s};
    const char *path = s->o->value[LOOK_TIMELINE].text;
    enum tern_status status = subject_begin(s, e);
    if (!status)
        status = tern_timeline_start(s->ctx, MOST_SPANS, e);
    if (!status)
        status = subject_run(s, NULL, NULL, e);
    if (!status)
        status = take_spans(&t, e);
    if (!status)
        status = (page_is_named(path) ? write_page : write_trace)(&t, path, e);
    if (!status && t.lost && !s->o->value[LOOK_QUIET].given)
        fprintf(stderr, "timeline: %llu later spans had no room; look at a shorter text\n",
                (unsigned long long)t.lost);
    free(t.spans);
    return status;
}
