/* Results: see bench_print.h. */
#include "app/bench/bench_print.h"

#include "app/cli/number.h"
#include "app/cli/out.h"
#include "app/cli/visible.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void bench_test_name(const struct bench_plan *plan, char *text, size_t n)
{
    int at = 0;
    if (plan->n_prompt && plan->n_gen)
        at = snprintf(text, n, "pp%u+tg%u", plan->n_prompt, plan->n_gen);
    else
        at = snprintf(text, n, plan->n_prompt ? "pp%u" : "tg%u",
                      plan->n_prompt ? plan->n_prompt : plan->n_gen);
    if (plan->n_parallel > 1)
        at += snprintf(text + at, n - (size_t)at, " pl%u", plan->n_parallel);
    if (plan->mtp)
        at += snprintf(text + at, n - (size_t)at, " mtp%u", plan->mtp);
    if (plan->depth)
        snprintf(text + at, n - (size_t)at, " @ d%u", plan->depth);
}

/* ---- fields and JSON -------------------------------------------------------------------- */

/* llama-bench's, as far as they mean something here. */
static void fill_common(struct bench_fields *f, const struct bench_result *r)
{
    const struct tern_model_info *m = &r->info;
    bench_add(f, "build_commit", FIELD_STRING, "%s", tern_version());
    bench_add_u64(f, "build_number", 0);
    bench_add(f, "cpu_info", FIELD_STRING, "%s", r->cpu_info);
    bench_add(f, "gpu_info", FIELD_STRING, "%s", "");
    bench_add(f, "backends", FIELD_STRING, "%s", "CPU");
    bench_add(f, "model_filename", FIELD_STRING, "%s", r->model_file);
    bench_add(f, "model_type", FIELD_STRING, "%s", r->model_type);
    bench_add_u64(f, "model_size", m->file_bytes);
    bench_add_u64(f, "model_n_params", m->n_params);
    bench_add_u64(f, "n_batch", r->plan.n_batch);
    bench_add_u64(f, "n_ubatch", r->plan.n_batch);
    bench_add_u64(f, "n_threads", (uint64_t)m->n_threads);
    bench_add(f, "type_k", FIELD_STRING, "%s", tern_cache_type_name(r->plan.cache));
    bench_add(f, "type_v", FIELD_STRING, "%s", tern_cache_type_name(r->plan.cache));
    bench_add(f, "use_mmap", FIELD_BOOLEAN, "%s", r->plan.copy ? "false" : "true");
    bench_add_u64(f, "n_prompt", r->plan.n_prompt);
    bench_add_u64(f, "n_gen", r->plan.n_gen);
    bench_add_u64(f, "n_depth", r->plan.depth);
    bench_add(f, "test_time", FIELD_STRING, "%s", r->time);
    bench_add(f, "avg_ns", FIELD_NUMBER, "%.0f", r->avg_ns);
    bench_add(f, "stddev_ns", FIELD_NUMBER, "%.0f", r->stddev_ns);
    bench_add_real(f, "avg_ts", r->avg_ts);
    bench_add_real(f, "stddev_ts", r->stddev_ts);
}

static void fill_own(struct bench_fields *f, const struct bench_result *r)
{
    bench_add(f, "median_ns", FIELD_NUMBER, "%.0f", r->median_ns);
    bench_add_real(f, "median_ts", r->median_ts);
    bench_add(f, "weight_type", FIELD_STRING, "%s", r->info.type_name);
    bench_add(f, "cpu_target", FIELD_STRING, "%s", r->info.cpu);
    bench_add_u64(f, "arith", TERN_ARITH);
    bench_add_u64(f, "n_heads", r->info.n_heads);
    bench_add_u64(f, "n_kv_heads", r->info.n_kv_heads);
    bench_add_u64(f, "head_dim", r->info.head_dim);
    bench_add_u64(f, "window", r->info.window);
    bench_add(f, "content_id", FIELD_STRING, "%016llx", (unsigned long long)r->info.content_id);
    bench_add(f, "fingerprint", FIELD_STRING, "%016llx", (unsigned long long)r->fingerprint);
    bench_add_u64(f, "fingerprint_rows", r->rows);
    bench_add_u64(f, "weight_bytes", r->cost.weight_bytes);
    bench_add_u64(f, "cache_bytes", r->cost.cache_bytes);
    bench_add_u64(f, "matmul_macs", r->cost.matmul_macs);
    bench_add_u64(f, "attention_macs", r->cost.attention_macs);
    bench_add_real(f, "gbs", bench_gbs(r));
    bench_add_real(f, "read_bandwidth_gbs", r->read_gbs);
    bench_add_real(f, "pct_bandwidth", bench_percent(bench_gbs(r), r->read_gbs));
    bench_add_real(f, "gmacs", bench_gmacs(r));
    bench_add(f, "peak_instruction", FIELD_STRING, "%s", r->peak_name ? r->peak_name : "");
    bench_add_real(f, "peak_gmacs", r->peak_gmacs);
    bench_add_real(f, "pct_peak", bench_percent(bench_gmacs(r), r->peak_gmacs));
    bench_add_u64(f, "n_parallel", r->plan.n_parallel);
    bench_add_u64(f, "mtp", r->plan.mtp);
    bench_add_u64(f, "guesses", r->guesses.n_tried);
    bench_add_u64(f, "guesses_right", r->guesses.n_right);
    bench_add_real(f, "tokens_per_step", bench_tokens_per_step(r));
    bench_add_real(f, "plain_median_ts", bench_plain_ts(r));
    bench_add_real(f, "pct_gain", bench_gain(r));
}

#ifdef TERN_MPI
static void fill_network(struct bench_fields *f, const struct bench_result *r)
{
    const struct tern_network *n = &r->network;
    bench_add_u64(f, "n_machines", r->machines);
    bench_add_real(f, "pct_network", bench_waits(r));
    bench_add_real(f, "network_bytes_token", bench_a_token(r, n->sent + n->received));
    bench_add_real(f, "gathers_token_layer", bench_a_layer(r, n->gathers));
    bench_add_real(f, "gathered_bytes_token_layer", bench_a_layer(r, n->gathered));
}
#endif

static void fill_fields(struct bench_fields *f, const struct bench_result *r)
{
    f->n = 0;
    fill_common(f, r);
    fill_own(f, r);
#ifdef TERN_MPI
    fill_network(f, r);
#endif
}

static void print_samples(const struct bench_printer *p, const char *gap, const char *name,
                          const double *v, size_t n, int digits)
{
    bench_say(p, ",%s\"%s\": [", gap, name);
    for (size_t i = 0; i < n; i++)
        bench_say(p, "%s%.*f", i ? ", " : "", digits, v[i]);
    bench_say(p, "]");
}

static void print_json_ops(const struct bench_printer *p, const char *gap,
                           const struct bench_result *r)
{
    bench_say(p, ",%s\"ops_seconds\": %.9f,%s\"ops\": [", gap, r->ops_seconds, gap);
    for (size_t i = 0; i < r->n_ops; i++) {
        const struct tern_op *o = &r->ops[i];
        bench_say(
            p,
            "%s{\"name\": \"%s\", \"calls\": %llu, \"seconds\": %.9f, \"wait_seconds\": %.9f, "
            "\"bytes\": %llu, \"macs\": %llu}",
            i ? ", " : "", o->name, (unsigned long long)o->calls, o->seconds, o->wait_seconds,
            (unsigned long long)o->bytes, (unsigned long long)o->macs);
    }
    bench_say(p, "]");
}

static void print_more(const struct bench_printer *p, const char *gap, const void *arg)
{
    const struct bench_result *r = arg;
    print_samples(p, gap, "samples_ns", r->ns, r->plan.repetitions, 0);
    print_samples(p, gap, "samples_ts", r->ts, r->plan.repetitions, 6);
    if (r->n_ops)
        print_json_ops(p, gap, r);
}

/* ---- Markdown ----------------------------------------------------------------------------- */

static void print_row(const struct bench_printer *p, const struct bench_result *r)
{
    char size[32], params[32], heads[32], test[64], speed[64], limit[64];
    double bytes = bench_percent(bench_gbs(r), r->read_gbs);
    double macs = bench_percent(bench_gmacs(r), r->peak_gmacs);
    bench_test_name(&r->plan, test, sizeof test);
    number_bytes(r->info.file_bytes, size, sizeof size);
    snprintf(params, sizeof params, "%.2f %c",
             (double)r->info.n_params / (r->info.n_params < 1000000000 ? 1e6 : 1e9),
             r->info.n_params < 1000000000 ? 'M' : 'B');
    snprintf(heads, sizeof heads, "%llu/%llu", (unsigned long long)r->info.n_heads,
             (unsigned long long)r->info.n_kv_heads);
    /* never wider than its column, however fast the model is */
    int decimals = r->avg_ts + r->stddev_ts < 10000 ? 2 : 0;
    snprintf(speed, sizeof speed, "%.*f ± %.*f", decimals, r->avg_ts, decimals, r->stddev_ts);
    bool reads = !r->plan.n_prompt && r->plan.n_parallel == 1;
    reads = reads || (r->plan.n_gen && bytes > macs);
    if ((reads ? r->read_gbs : r->peak_gmacs) <= 0) /* nobody measured, or plain C */
        snprintf(limit, sizeof limit, "-");
    else if (reads)
        snprintf(limit, sizeof limit, "%.0f %% of %.1f GB/s", bytes, r->read_gbs);
    else
        snprintf(limit, sizeof limit, "%.0f %% of %.0f GMAC/s", macs, r->peak_gmacs);
    if (!p->n) {
        bench_say(
            p,
            "| %-24s | %10s | %8s | %7s | %-10s | %7s | %5s | %5s | %20s | %20s | %20s | %-16s |\n",
            "model", "size", "params", "heads", "backend", "threads", "batch", "cache", "test",
            "t/s", "of the limit", "fingerprint");
        bench_say(p, "| %s | %s | %s | %s | %s | %s | %s | %s | %s | %s | %s | %s |\n",
                  "------------------------", "---------:", "-------:", "------:", "----------",
                  "------:", "----:", "----:", "-------------------:", "-------------------:",
                  "-------------------:", "----------------");
    }
    /* the sign ± has two bytes and one column */
    bench_say(
        p,
        "| %-24s | %10s | %8s | %7s | %-10s | %7d | %5u | %5s | %20s | %21s | %20s | %016llx |\n",
        r->model_type, size, params, heads, r->info.cpu, r->info.n_threads, r->plan.n_batch,
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

/* One line, for it explains a row */
static void append_guesses(struct bench_printer *p, const struct bench_result *r)
{
    char test[64];
    const struct bench_guesses *g = &r->guesses;
    bench_test_name(&r->plan, test, sizeof test);
    append(p,
           "\n%s, %d threads, %s: %zu of %zu guesses right (%.0f %%), %.2f tokens a step; medians: "
           "%.2f t/s with guesses, %.2f without: %+.1f %%\n",
           r->model_type, r->info.n_threads, test, g->n_right, g->n_tried,
           bench_percent((double)g->n_right, (double)g->n_tried), bench_tokens_per_step(r),
           r->median_ts, bench_plain_ts(r), bench_gain(r));
}

#ifdef TERN_MPI
static void append_network(struct bench_printer *p, const struct bench_result *r)
{
    const struct tern_network *n = &r->network;
    char test[64];
    bench_test_name(&r->plan, test, sizeof test);
    append(
        p,
        "\n%s, %u machines of %d threads, %s: %.1f %% of the time waits for the network; a token "
        "takes %.2f gathers and %.0f bytes a layer, and %.0f bytes in all\n",
        r->model_type, r->machines, r->info.n_threads, test, bench_waits(r),
        bench_a_layer(r, n->gathers), bench_a_layer(r, n->gathered),
        bench_a_token(r, n->sent + n->received));
}
#endif

/* ---- all ---------------------------------------------------------------------------------- */

void bench_print_begin(struct bench_printer *p)
{
    bench_fields_begin(p);
}

void bench_print(struct bench_printer *p, const struct bench_result *r)
{
    struct bench_fields f;
    if (!p->form)
        return;
    fill_fields(&f, r);
    if (strcmp(p->form, "md"))
        bench_fields_print(p, &f, print_more, r);
    else
        print_row(p, r);
    if (!strcmp(p->form, "md") && r->plan.mtp)
        append_guesses(p, r);
    if (!strcmp(p->form, "md") && r->n_ops)
        append_ops(p, r);
#ifdef TERN_MPI
    if (!strcmp(p->form, "md") && r->machines > 1)
        append_network(p, r);
#endif
    out_write("", 0); /* now, for the next result may take minutes */
    p->n++;
}

void bench_print_end(struct bench_printer *p)
{
    bench_fields_end(p);
    if (p->ops && p->to_stderr)
        visible_error(p->ops, p->ops_bytes);
    else if (p->ops)
        out_text(p->ops, p->ops_bytes);
    out_write("", 0);
    free(p->ops);
    p->ops = NULL, p->ops_bytes = 0;
}
