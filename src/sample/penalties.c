/* Penalties: see penalties.h. */
#include "sample/penalties.h"

#include <stdbool.h>
#include <string.h>

#include "text/decoder.h"

static bool known(const struct sampler *s, tern_token id)
{
    return id >= 0 && (size_t)id < s->vocab;
}

/* The last `most` of the history, whose counts are set to 0. */
static size_t look_back(const struct sampler *s, uint32_t *count, const tern_token **history,
                        size_t n, uint32_t most)
{
    if (n > most)
        *history += n - most, n = most;
    for (size_t i = 0; i < n; i++)
        if (known(s, (*history)[i]))
            count[(*history)[i]] = 0;
    return n;
}

void penalties_repeat(const struct sampler *s, const struct tern_sampler_params *p, float *x,
                      uint32_t *count, const tern_token *history, size_t n)
{
    float repeat = p->repeat_penalty == 0 ? 1 : p->repeat_penalty;
    n = look_back(s, count, &history, n, p->repeat_last_n);
    for (size_t i = 0; i < n; i++)
        if (known(s, history[i]))
            count[history[i]]++;
    for (size_t i = 0; i < n; i++) {
        tern_token id = history[i];
        if (!known(s, id) || !count[id])
            continue;
        x[id] = x[id] > 0.0f ? x[id] / repeat : x[id] * repeat;
        x[id] -= (float)count[id] * p->frequency_penalty + p->presence_penalty;
        count[id] = 0;
    }
}

/* ---- DRY ---------------------------------------------------------------------------------- */

struct text {
    char bytes[DRY_BREAKER_MAX];
    size_t n;
};

/* Where the breaker ends that begins in text[0 .. n), which `after` follows: the last such place,
 * or 0. */
static size_t breaker_end(const struct tern_sampler_params *p, const char *text, size_t n,
                          const struct text *after)
{
    static const char *const usual[] = {"\n", ":", "\"", "*"};
    const char *const *breaker = p->dry_breakers ? p->dry_breakers : usual;
    size_t end = 0, n_breakers = p->dry_breakers ? p->n_dry_breakers : 4;
    for (size_t b = 0; b < n_breakers; b++) {
        size_t m = strlen(breaker[b]);
        for (size_t at = 0; at < n; at++) {
            size_t here = m < n - at ? m : n - at;
            if (m && m - here <= after->n && !memcmp(text + at, breaker[b], here) &&
                !memcmp(after->bytes, breaker[b] + here, m - here) && at + m > end)
                end = at + m;
        }
    }
    return end;
}

/* Puts text[0 .. n) before `t`, as far as there is room. */
static void prepend(struct text *t, const char *text, size_t n)
{
    n = n < sizeof t->bytes ? n : sizeof t->bytes;
    size_t rest = t->n < sizeof t->bytes - n ? t->n : sizeof t->bytes - n;
    memmove(t->bytes + n, t->bytes, rest);
    memcpy(t->bytes, text, n);
    t->n = n + rest;
}

/* How many of the n last tokens stand after the last breaker. */
static size_t since_breaker(const struct sampler *s, const struct tern_sampler_params *p,
                            const tern_token *history, size_t n)
{
    struct text after = {.n = 0};
    size_t bytes, i = n;
    while (s->decoder && i-- > 0) {
        const char *text = decoder_bytes(s->decoder, history[i], &bytes);
        size_t end = breaker_end(p, text, bytes, &after);
        if (end) {
            while (++i < n && end > bytes) {
                end -= bytes;
                (void)decoder_bytes(s->decoder, history[i], &bytes);
            }
            return n - i;
        }
        prepend(&after, text, bytes);
    }
    return n;
}

void penalties_dry(const struct sampler *s, const struct tern_sampler_params *p, float *x,
                   uint32_t *count, const tern_token *history, size_t n)
{
    n = look_back(s, count, &history, n, p->dry_last_n);
    size_t limit = since_breaker(s, p, history, n);
    limit = limit < DRY_MOST ? limit : DRY_MOST;
    for (size_t i = 0; i < n && limit >= p->dry_allowed_length; i++) {
        uint32_t length = 0; /* count: the longest, and 1 */
        while (length < limit && length < i && history[i - 1 - length] == history[n - 1 - length])
            length++;
        if (length >= p->dry_allowed_length && known(s, history[i]) && count[history[i]] <= length)
            count[history[i]] = length + 1;
    }
    for (size_t i = 0; i < n; i++) {
        tern_token id = history[i];
        if (!known(s, id) || !count[id])
            continue;
        float penalty = p->dry_multiplier;
        for (uint32_t k = p->dry_allowed_length + 1; k < count[id]; k++)
            penalty *= p->dry_base;
        x[id] -= penalty;
        count[id] = 0;
    }
}
