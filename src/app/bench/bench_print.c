/* Results: see bench_print.h. */
#include "app/bench/bench_print.h"

#include "app/cli/json.h"
#include "app/cli/number.h"
#include "app/cli/out.h"
#include "app/cli/visible.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#if defined(__GNUC__)
__attribute__((format(printf, 2, 3)))
#endif
static void
say(const struct bench_printer *p, const char *format, ...)
{
    char text[2048];
    va_list ap;
    va_start(ap, format);
    size_t n = visible_format(text, sizeof text, format, ap);
    va_end(ap);
    if (p->to_stderr)
        visible_error(text, n);
    else
        out_text(text, n);
}

void bench_test_name(const struct bench_plan *plan, char *text, size_t n)
{
    int at = 0;
    if (plan->n_prompt && plan->n_gen)
        at = snprintf(text, n, "pp%u+tg%u", plan->n_prompt, plan->n_gen);
    else
        at = snprintf(text, n, plan->n_prompt ? "pp%u" : "tg%u",
                      plan->n_prompt ? plan->n_prompt : plan->n_gen);
    if (plan->depth)
        snprintf(text + at, n - (size_t)at, " @ d%u", plan->depth);
}

/* ---- fields ------------------------------------------------------------------------------- */

enum field_kind { STRING, NUMBER, BOOLEAN };

struct field {
    const char *name;
    enum field_kind kind;
    char text[256];
};

struct fields {
    struct field list[48];
    size_t n;
};

#if defined(__GNUC__)
__attribute__((format(printf, 4, 5)))
#endif
static void
add(struct fields *f, const char *name, enum field_kind kind, const char *format, ...)
{
    struct field *to = &f->list[f->n++];
    va_list ap;
    va_start(ap, format);
    to->name = name, to->kind = kind;
    vsnprintf(to->text, sizeof to->text, format, ap);
    va_end(ap);
}

static void add_u64(struct fields *f, const char *name, uint64_t value)
{
    add(f, name, NUMBER, "%llu", (unsigned long long)value);
}

static void add_real(struct fields *f, const char *name, double value)
{
    add(f, name, NUMBER, "%.6f", value);
}

/* llama-bench's, as far as they mean something here. */
static void fill_common(struct fields *f, const struct bench_result *r)
{
    const struct tern_model_info *m = &r->info;
    add(f, "build_commit", STRING, "%s", tern_version());
    add_u64(f, "build_number", 0);
    add(f, "cpu_info", STRING, "%s", r->cpu_info);
    add(f, "gpu_info", STRING, "%s", "");
    add(f, "backends", STRING, "%s", "CPU");
    add(f, "model_filename", STRING, "%s", r->model_file);
    add(f, "model_type", STRING, "%s", r->model_type);
    add_u64(f, "model_size", m->file_bytes);
    add_u64(f, "model_n_params", m->n_params);
    add_u64(f, "n_batch", r->plan.n_batch);
    add_u64(f, "n_ubatch", r->plan.n_batch);
    add_u64(f, "n_threads", (uint64_t)m->n_threads);
    add(f, "type_k", STRING, "%s", tern_cache_type_name(r->plan.cache));
    add(f, "type_v", STRING, "%s", tern_cache_type_name(r->plan.cache));
    add(f, "use_mmap", BOOLEAN, "%s", r->plan.copy ? "false" : "true");
    add_u64(f, "n_prompt", r->plan.n_prompt);
    add_u64(f, "n_gen", r->plan.n_gen);
    add_u64(f, "n_depth", r->plan.depth);
    add(f, "test_time", STRING, "%s", r->time);
    add(f, "avg_ns", NUMBER, "%.0f", r->avg_ns);
    add(f, "stddev_ns", NUMBER, "%.0f", r->stddev_ns);
    add_real(f, "avg_ts", r->avg_ts);
    add_real(f, "stddev_ts", r->stddev_ts);
}

static void fill_own(struct fields *f, const struct bench_result *r)
{
    add(f, "median_ns", NUMBER, "%.0f", r->median_ns);
    add_real(f, "median_ts", r->median_ts);
    add(f, "weight_type", STRING, "%s", r->info.type_name);
    add(f, "cpu_target", STRING, "%s", r->info.cpu);
    add_u64(f, "arith", TERN_ARITH);
    add(f, "content_id", STRING, "%016llx", (unsigned long long)r->info.content_id);
    add(f, "fingerprint", STRING, "%016llx", (unsigned long long)r->fingerprint);
    add_u64(f, "fingerprint_rows", r->rows);
    add_u64(f, "weight_bytes", r->cost.weight_bytes);
    add_u64(f, "cache_bytes", r->cost.cache_bytes);
    add_u64(f, "matmul_macs", r->cost.matmul_macs);
    add_u64(f, "attention_macs", r->cost.attention_macs);
    add_real(f, "gbs", bench_gbs(r));
    add_real(f, "read_bandwidth_gbs", r->read_gbs);
    add_real(f, "pct_bandwidth", bench_percent(bench_gbs(r), r->read_gbs));
    add_real(f, "gmacs", bench_gmacs(r));
    add(f, "peak_instruction", STRING, "%s", r->peak_name ? r->peak_name : "");
    add_real(f, "peak_gmacs", r->peak_gmacs);
    add_real(f, "pct_peak", bench_percent(bench_gmacs(r), r->peak_gmacs));
}

static void fill_fields(struct fields *f, const struct bench_result *r)
{
    f->n = 0;
    fill_common(f, r);
    fill_own(f, r);
}

/* ---- CSV, JSON ---------------------------------------------------------------------------- */

static void print_csv(const struct bench_printer *p, const struct fields *f)
{
    for (size_t i = 0; !p->n && i < f->n; i++)
        say(p, "%s%s", f->list[i].name, i + 1 < f->n ? "," : "\n");
    for (size_t i = 0; i < f->n; i++) {
        char text[2 * sizeof f->list[i].text];
        size_t n = 0;
        for (const char *c = f->list[i].text; *c; c++) {
            if (*c == '"')
                text[n++] = '"';
            text[n++] = *c;
        }
        say(p, "\"%.*s\"%s", (int)n, text, i + 1 < f->n ? "," : "\n");
    }
}

static void put(void *arg, const char *text, size_t n)
{
    say(arg, "%.*s", (int)n, text);
}

static void print_string(struct bench_printer *p, const char *value)
{
    say(p, "\"");
    json_text(put, p, value, strlen(value));
    say(p, "\"");
}

static void print_samples(const struct bench_printer *p, const char *gap, const char *name,
                          const double *v, size_t n, int digits)
{
    say(p, ",%s\"%s\": [", gap, name);
    for (size_t i = 0; i < n; i++)
        say(p, "%s%.*f", i ? ", " : "", digits, v[i]);
    say(p, "]");
}

static void print_json_ops(const struct bench_printer *p, const char *gap,
                           const struct bench_result *r)
{
    say(p, ",%s\"ops_seconds\": %.9f,%s\"ops\": [", gap, r->ops_seconds, gap);
    for (size_t i = 0; i < r->n_ops; i++) {
        const struct tern_op *o = &r->ops[i];
        say(p,
            "%s{\"name\": \"%s\", \"calls\": %llu, \"seconds\": %.9f, \"wait_seconds\": %.9f, "
            "\"bytes\": %llu, \"macs\": %llu}",
            i ? ", " : "", o->name, (unsigned long long)o->calls, o->seconds, o->wait_seconds,
            (unsigned long long)o->bytes, (unsigned long long)o->macs);
    }
    say(p, "]");
}

/* One object; `gap` between its fields. */
static void print_object(struct bench_printer *p, const char *gap, const struct fields *f,
                         const struct bench_result *r)
{
    for (size_t i = 0; i < f->n; i++) {
        say(p, "%s%s\"%s\": ", i ? "," : "{", i || *gap == '\n' ? gap : "", f->list[i].name);
        if (f->list[i].kind == STRING)
            print_string(p, f->list[i].text);
        else
            say(p, "%s", f->list[i].text);
    }
    print_samples(p, gap, "samples_ns", r->ns, r->plan.repetitions, 0);
    print_samples(p, gap, "samples_ts", r->ts, r->plan.repetitions, 6);
    if (r->n_ops)
        print_json_ops(p, gap, r);
}

static void print_json(struct bench_printer *p, const struct fields *f,
                       const struct bench_result *r)
{
    say(p, p->n ? ",\n  " : "\n  ");
    print_object(p, "\n    ", f, r);
    say(p, "\n  }");
}

static void print_json_line(struct bench_printer *p, const struct fields *f,
                            const struct bench_result *r)
{
    print_object(p, " ", f, r);
    say(p, "}\n");
}

/* ---- Markdown ----------------------------------------------------------------------------- */

static void print_row(const struct bench_printer *p, const struct bench_result *r)
{
    char size[32], params[32], test[64], speed[64], limit[64];
    double bytes = bench_percent(bench_gbs(r), r->read_gbs);
    double macs = bench_percent(bench_gmacs(r), r->peak_gmacs);
    bench_test_name(&r->plan, test, sizeof test);
    number_bytes(r->info.file_bytes, size, sizeof size);
    snprintf(params, sizeof params, "%.2f %c",
             (double)r->info.n_params / (r->info.n_params < 1000000000 ? 1e6 : 1e9),
             r->info.n_params < 1000000000 ? 'M' : 'B');
    /* never wider than its column, however fast the model is */
    int decimals = r->avg_ts + r->stddev_ts < 10000 ? 2 : 0;
    snprintf(speed, sizeof speed, "%.*f ± %.*f", decimals, r->avg_ts, decimals, r->stddev_ts);
    bool reads = r->plan.n_prompt ? r->plan.n_gen && bytes > macs : true;
    if ((reads ? r->read_gbs : r->peak_gmacs) <= 0) /* nobody measured, or plain C */
        snprintf(limit, sizeof limit, "-");
    else if (reads)
        snprintf(limit, sizeof limit, "%.0f %% of %.1f GB/s", bytes, r->read_gbs);
    else
        snprintf(limit, sizeof limit, "%.0f %% of %.0f GMAC/s", macs, r->peak_gmacs);
    if (!p->n) {
        say(p, "| %-24s | %10s | %8s | %-7s | %7s | %5s | %5s | %20s | %20s | %20s | %-16s |\n",
            "model", "size", "params", "backend", "threads", "batch", "cache", "test", "t/s",
            "of the limit", "fingerprint");
        say(p, "| %s | %s | %s | %s | %s | %s | %s | %s | %s | %s | %s |\n",
            "------------------------", "---------:", "-------:", "-------",
            "------:", "----:", "----:", "-------------------:", "-------------------:",
            "-------------------:", "----------------");
    }
    /* the sign ± has two bytes and one column */
    say(p, "| %-24s | %10s | %8s | %-7s | %7d | %5u | %5s | %20s | %21s | %20s | %016llx |\n",
        r->model_type, size, params, r->info.cpu, r->info.n_threads, r->plan.n_batch,
        tern_cache_type_name(r->plan.cache), test, speed, limit,
        (unsigned long long)r->fingerprint);
}

/* Appends to the tables that follow the results. */
#if defined(__GNUC__)
__attribute__((format(printf, 2, 3)))
#endif
static void
append(struct bench_printer *p, const char *format, ...)
{
    char text[512];
    va_list ap;
    va_start(ap, format);
    int n = vsnprintf(text, sizeof text, format, ap);
    va_end(ap);
    char *grown = n < 0 ? NULL : realloc(p->ops, p->ops_bytes + sizeof text);
    if (!grown)
        return;
    p->ops = grown;
    memcpy(p->ops + p->ops_bytes, text, strlen(text) + 1);
    p->ops_bytes += strlen(text);
}

static double rate(uint64_t n, double seconds)
{
    return seconds > 0 ? (double)n / seconds * 1e-9 : 0;
}

static void append_ops(struct bench_printer *p, const struct bench_result *r)
{
    char test[64];
    double sum = 0;
    bench_test_name(&r->plan, test, sizeof test);
    append(p, "\n%s, %d threads, %s: one repetition, %.3f ms\n\n", r->model_type, r->info.n_threads,
           test, 1e3 * r->ops_seconds);
    append(
        p,
        "| operation     |   calls |   time ms | share | wait ms |        MB |   GB/s |  GMAC/s |\n"
        "| ------------- | ------: | --------: | ----: | ------: | --------: | -----: | ------: "
        "|\n");
    for (size_t i = 0; i < r->n_ops; i++) {
        const struct tern_op *o = &r->ops[i];
        sum += o->seconds;
        append(p, "| %-13s | %7llu | %9.3f | %3.0f %% | %7.3f | %9.2f | %6.1f | %7.1f |\n", o->name,
               (unsigned long long)o->calls, 1e3 * o->seconds,
               bench_percent(o->seconds, r->ops_seconds), 1e3 * o->wait_seconds,
               (double)o->bytes * 1e-6, rate(o->bytes, o->seconds), rate(o->macs, o->seconds));
    }
    append(
        p,
        "| between       |         | %9.3f | %3.0f %% |         |           |        |         |\n",
        1e3 * (r->ops_seconds - sum), bench_percent(r->ops_seconds - sum, r->ops_seconds));
}

/* ---- all ---------------------------------------------------------------------------------- */

void bench_print_begin(struct bench_printer *p)
{
    if (p->form && !strcmp(p->form, "json"))
        say(p, "[");
}

void bench_print(struct bench_printer *p, const struct bench_result *r)
{
    struct fields f;
    if (!p->form)
        return;
    fill_fields(&f, r);
    if (!strcmp(p->form, "csv"))
        print_csv(p, &f);
    else if (!strcmp(p->form, "json"))
        print_json(p, &f, r);
    else if (!strcmp(p->form, "jsonl"))
        print_json_line(p, &f, r);
    else
        print_row(p, r);
    if (!strcmp(p->form, "md") && r->n_ops)
        append_ops(p, r);
    out_write("", 0); /* now, for the next result may take minutes */
    p->n++;
}

void bench_print_end(struct bench_printer *p)
{
    if (p->form && !strcmp(p->form, "json"))
        say(p, "\n]\n");
    if (p->ops && p->to_stderr)
        visible_error(p->ops, p->ops_bytes);
    else if (p->ops)
        out_text(p->ops, p->ops_bytes);
    out_write("", 0);
    free(p->ops);
    p->ops = NULL, p->ops_bytes = 0;
}
