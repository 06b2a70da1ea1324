/* See trials_rows.h. */
#include "trials_rows.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

void try_quantize(struct trial *t)
{
    size_t n = trial_length(t), up = (n + 31) / 32 * 32;
    float *x = trial_floats(t, n, trial_in(t, 0, N_KINDS - 1));
    if (trial_in(t, 0, 7) == 0) /* values that meet a half */
        for (size_t i = 0; i < n; i++)
            x[i] = i % 32 ? (float)trial_in(t, 0, 253) - 126.5f : 127;
    if (trial_in(t, 0, 7) ==
        0) /* groups whose largest value is, or just misses, the limit of zero */
        for (size_t i = 0; i < n; i++)
            x[i] = i % 32 ? trial_float(t, PLAIN) * 0x1p-102f
                          : f32_of_bits(f32_bits(0x1p-100f) - (i / 32 + t->seed) % 2);
    if (trial_in(t, 0, 7) == 0) /* not finite */
        x[trial_in(t, 0, n - 1)] = trial_in(t, 0, 1) ? f32_of_bits(0x7f800000) : f32_of_bits(~0u);
    int8_t *q = trial_take(t, up), *q_ref = trial_take(t, up);
    float *s = trial_take(t, up / 8), *s_ref = trial_take(t, up / 8);
    int32_t *sum = trial_take(t, up / 8), *sum_ref = trial_take(t, up / 8);
    bool finite = true;
    for (size_t i = 0; i < n; i++)
        finite &= fabsf(x[i]) <= FLT_MAX;
    if (t->k.quantize(q, s, sum, x, n) != finite ||
        t->ref.quantize(q_ref, s_ref, sum_ref, x, n) != finite)
        trial_mismatch(t, "finite", 0, !finite, finite);
    trial_same_bytes(t, "q", q, q_ref, up);
    trial_same_floats(t, "scale", s, s_ref, up / 32);
    trial_same_bytes(t, "sum", sum, sum_ref, up / 8);
    size_t bytes = up / 32 * sizeof(struct octet), row = trial_in(t, 0, 7);
    struct octet *o = trial_take(t, bytes), *o_ref = trial_take(t, bytes);
    if (t->k.quantize_octets(o, row, x, n) != finite ||
        t->ref.quantize_octets(o_ref, row, x, n) != finite)
        trial_mismatch(t, "finite octets", 0, !finite, finite);
    trial_same_bytes(t, "octets", o, o_ref, bytes);
    for (size_t i = 0; i < up; i++)
        if (q_ref[i] != o_ref[i / 32].q[i % 32 / 8][row][i % 8])
            trial_mismatch(t, "octet", i, o_ref[i / 32].q[i % 32 / 8][row][i % 8], q_ref[i]);
}

void try_rmsnorm(struct trial *t)
{
    size_t n = trial_length(t), kind = trial_in(t, 0, N_KINDS - 1);
    float *x = trial_floats(t, n, kind), *w = trial_floats(t, n, PLAIN);
    float *got = trial_take(t, n * 4), *want = trial_take(t, n * 4);
    t->k.rmsnorm(got, x, w, n, 1e-5f);
    t->ref.rmsnorm(want, x, w, n, 1e-5f);
    trial_same_floats(t, "y", got, want, n);
}

void try_add(struct trial *t)
{
    size_t n = trial_length(t);
    float *x = trial_floats(t, n, trial_in(t, 0, N_KINDS - 1));
    float *got = trial_floats(t, n, trial_in(t, 0, N_KINDS - 1)), *want = trial_take(t, n * 4);
    memcpy(want, got, n * 4);
    t->k.add(got, x, n);
    t->ref.add(want, x, n);
    trial_same_floats(t, "y", got, want, n);
}

void try_layernorm(struct trial *t)
{
    size_t n = trial_in(t, 1, 300), kind = trial_in(t, 0, 1) ? PLAIN : TINY;
    const float *x = trial_floats(t, n, kind), *w = trial_floats(t, n, PLAIN);
    const float *b = trial_rnd(t) % 2 ? trial_floats(t, n, PLAIN) : NULL;
    float *want = trial_take(t, n * 4), *got = trial_take(t, n * 4);
    snprintf(t->shape, sizeof t->shape, "n %zu", n);
    t->ref.layernorm(want, x, w, b, n, 1e-5f);
    t->k.layernorm(got, x, w, b, n, 1e-5f);
    trial_same_floats(t, "y", got, want, n);
}

void try_activate(struct trial *t)
{
    size_t n = trial_in(t, 1, 100), kind = trial_in(t, 0, N_ACTIVATIONS - 1);
    const float *gate = trial_floats(t, n, trial_in(t, PLAIN, ZEROS));
    const float *up = trial_rnd(t) % 4 || kind == ACT_SWIGLU_OAI ? trial_floats(t, n, PLAIN) : NULL;
    float *want = trial_take(t, n * 4), *got = trial_take(t, n * 4);
    snprintf(t->shape, sizeof t->shape, "n %zu, kind %zu", n, kind);
    t->ref.activate(want, gate, up, n, (enum activation)kind, 0.5f);
    t->k.activate(got, gate, up, n, (enum activation)kind, 0.5f);
    trial_same_floats(t, "y", got, want, n);
}

/* scale, softcap and clamp, one after another */
void try_in_place(struct trial *t)
{
    size_t n = trial_in(t, 1, 100);
    float *want = trial_floats(t, n, trial_in(t, PLAIN, ZEROS)), *got = trial_take(t, n * 4);
    const float *other = trial_floats(t, n, PLAIN);
    memcpy(got, want, n * 4);
    snprintf(t->shape, sizeof t->shape, "n %zu", n);
    t->ref.add_scaled(want, other, 1.3f, n), t->k.add_scaled(got, other, 1.3f, n);
    t->ref.scale(want, 3.7f, n), t->ref.softcap(want, 5, n), t->ref.clamp(want, 4, n);
    t->k.scale(got, 3.7f, n), t->k.softcap(got, 5, n), t->k.clamp(got, 4, n);
    trial_same_floats(t, "x", got, want, n);
}

void try_swiglu(struct trial *t)
{
    size_t n = trial_length(t), in_place = trial_in(t, 0, 2);
    float *gate = trial_floats(t, n, trial_in(t, 0, N_KINDS - 1)), *up = trial_floats(t, n, PLAIN);
    float *got = trial_take(t, n * 4), *want = trial_take(t, n * 4);
    for (size_t i = 0; i < n; i++)
        gate[i] *= trial_in(t, 0, 1) ? 60.0f : 1.0f;
    t->ref.swiglu(want, gate, up, n);
    if (in_place)
        got = in_place == 1 ? gate : up;
    t->k.swiglu(got, gate, up, n);
    trial_same_floats(t, "y", got, want, n);
}

void try_rope_angles(struct trial *t)
{
    size_t n = trial_length(t);
    float *freq = trial_take(t, n * 4), *c = trial_take(t, n * 4), *s = trial_take(t, n * 4);
    float *c_ref = trial_take(t, n * 4), *s_ref = trial_take(t, n * 4);
    uint64_t shift = trial_in(t, 32, 63);
    uint32_t position = (uint32_t)(trial_rnd(t) >> shift);
    for (size_t i = 0; i < n; i++)
        freq[i] = (float)(trial_rnd(t) >> 40) * 0x1p-24f;
    t->k.rope_angles(c, s, freq, n, position, 1.25f);
    t->ref.rope_angles(c_ref, s_ref, freq, n, position, 1.25f);
    trial_same_floats(t, "cos", c, c_ref, n);
    trial_same_floats(t, "sin", s, s_ref, n);
}

void try_rope(struct trial *t)
{
    size_t half = trial_length(t), kind = trial_in(t, 0, N_KINDS - 1);
    float *c = trial_floats(t, half, PLAIN), *s = trial_floats(t, half, PLAIN);
    float *got = trial_floats(t, 2 * half, kind), *want = trial_take(t, 8 * half);
    memcpy(want, got, 8 * half);
    t->k.rope(got, c, s, half);
    t->ref.rope(want, c, s, half);
    trial_same_floats(t, "x", got, want, 2 * half);
}

void try_to_f16(struct trial *t)
{
    size_t n = trial_length(t), kind = trial_in(t, 0, N_KINDS - 1);
    float *x = trial_floats(t, n, kind);
    for (size_t i = 0; i < n; i++)
        x[i] *= kind == HUGE_ONES ? 0x1p-45f : kind == TINY ? 0x1p106f : 1;
    uint16_t *got = trial_take(t, n * 2), *want = trial_take(t, n * 2);
    t->k.to_f16(got, x, n);
    t->ref.to_f16(want, x, n);
    trial_same_bytes(t, "y", got, want, n * 2);
}

void try_in_range(struct trial *t)
{
    size_t n = trial_length(t), at = trial_in(t, 0, n - 1);
    float *x = trial_floats(t, n, PLAIN), limits[] = {2, 1, 0.01f, 0, -1};
    for (size_t i = 0; i < 5; i++) {
        float got = t->k.in_range(x, n, limits[i]), want = t->ref.in_range(x, n, limits[i]);
        trial_same_floats(t, "all", &got, &want, 1);
    }
    x[at] = trial_in(t, 0, 1) ? f32_of_bits(~0u) : trial_in(t, 0, 1) ? 65504 : 65505;
    float got = t->k.in_range(x, n, 65504), want = x[at] == 65504;
    trial_same_floats(t, "one", &got, &want, 1);
}

void try_divide(struct trial *t)
{
    size_t n = trial_length(t);
    float *x = trial_floats(t, n, trial_in(t, 0, N_KINDS - 1)), d = trial_float(t, PLAIN);
    float *got = trial_take(t, n * 4), *want = trial_take(t, n * 4);
    t->k.divide(got, x, d, n);
    t->ref.divide(want, x, d, n);
    trial_same_floats(t, "y", got, want, n);
}

void try_log_sum_exp(struct trial *t)
{
    size_t n = trial_length(t);
    float *x = trial_floats(t, n, trial_in(t, 0, ZEROS)), scale = trial_in(t, 0, 1) ? 30.0f : 1.0f;
    for (size_t i = 0; i < n; i++)
        x[i] = x[i] > 1e30f || x[i] < -1e30f ? 0 : x[i] * scale;
    float got = t->k.log_sum_exp(x, n), want = t->ref.log_sum_exp(x, n);
    trial_same_floats(t, "y", &got, &want, 1);
}
