/* Statistics: see stats.h. */
#include "app/run/stats.h"

#include "app/cli/number.h"

#include <stdio.h>

static double rate(double n, double seconds)
{
    return seconds > 0 ? n / seconds : 0;
}

/* Every step of the text read the weights once. */
static double bandwidth(const struct run_stats *s, const struct tern_model_info *info)
{
    return rate((double)s->result.n_steps * (double)info->token_bytes, s->result.generate_seconds) /
           1e9;
}

static void print_line(const struct run_stats *s, const struct tern_model_info *info,
                       uint64_t bytes)
{
    char memory[32];
    const struct tern_generate_result *r = &s->result;
    fprintf(stderr, "prompt %zu tokens, %.1f/s", r->n_prompt,
            rate((double)r->n_prompt, r->prompt_seconds));
    if (s->n_held)
        fprintf(stderr, " (%zu more reused)", s->n_held);
    fprintf(stderr, "; text %zu tokens, %.1f/s, %.2f GB/s; memory %s", r->n_generated,
            rate((double)r->n_generated, r->generate_seconds), bandwidth(s, info),
            number_bytes(bytes, memory, sizeof memory));
    if (r->n_shifts)
        fprintf(stderr, "; context shifts %zu (%zu tokens evaluated again in %s)", r->n_shifts,
                r->n_shifted, number_seconds(r->shift_seconds, memory, sizeof memory));
    if (r->n_drafted)
        fprintf(stderr, "; guesses %zu of %zu right", r->n_accepted, r->n_drafted);
    if (r->n_forced)
        fprintf(stderr, "; forced %zu", r->n_forced);
    if (s->is_random)
        fprintf(stderr, "; seed %llu", (unsigned long long)s->seed);
    fputc('\n', stderr);
}

static void print_table(const struct run_stats *s, const struct tern_model_info *info,
                        uint64_t bytes)
{
    static const char *const reasons[] = {"end token", "number of tokens", "full context",
                                          "stop string", "cancelled", "complete",
                                          "dead end"};
    char a[32];
    const struct tern_generate_result *r = &s->result;
    size_t n = sizeof a;
    fprintf(stderr, "total duration:       %s\n", number_seconds(s->total_seconds, a, n));
    fprintf(stderr, "load duration:        %s\n", number_seconds(s->load_seconds, a, n));
    if (s->n_held)
        fprintf(stderr, "prompt reused:        %zu token(s)\n", s->n_held);
    fprintf(stderr, "prompt eval count:    %zu token(s)\n", r->n_prompt);
    fprintf(stderr, "prompt eval duration: %s\n", number_seconds(r->prompt_seconds, a, n));
    fprintf(stderr, "prompt eval rate:     %.2f tokens/s\n",
            rate((double)r->n_prompt, r->prompt_seconds));
    fprintf(stderr, "eval count:           %zu token(s)\n", r->n_generated);
    fprintf(stderr, "eval duration:        %s\n", number_seconds(r->generate_seconds, a, n));
    fprintf(stderr, "eval rate:            %.2f tokens/s\n",
            rate((double)r->n_generated, r->generate_seconds));
    if (r->n_shifts)
        fprintf(stderr, "context shifts:       %zu (%zu token(s) evaluated again in %s)\n",
                r->n_shifts, r->n_shifted, number_seconds(r->shift_seconds, a, n));
    if (r->n_forced)
        fprintf(stderr, "forced:               %zu token(s)\n", r->n_forced);
    if (s->guesses) {
        fprintf(stderr, "guesses tried:        %zu token(s), %zu right\n", r->n_drafted,
                r->n_accepted);
        fprintf(stderr, "steps:                %zu\n", r->n_steps);
    }
    fprintf(stderr, "weights read:         %.2f GB/s\n", bandwidth(s, info));
    fprintf(stderr, "memory:               %s\n", number_bytes(bytes, a, n));
    fprintf(stderr, "ended by:             %s\n", reasons[r->reason]);
    if (s->is_random)
        fprintf(stderr, "seed:                 %llu\n", (unsigned long long)s->seed);
}

void stats_print(const struct run_stats *s, const tern_context *ctx, int verbose)
{
    struct tern_model_info info;
    struct tern_memory plan;
    tern_model_info(tern_context_model(ctx), &info);
    tern_context_memory(ctx, &plan);
    (verbose ? print_table : print_line)(s, &info,
                                         plan.weights + plan.cache + plan.batch + s->draft_bytes);
}
