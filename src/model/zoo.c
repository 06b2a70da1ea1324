/* cflags: -O2 */
/* The attention zoo: see zoo.h. Every function computes the same thing in another order, or a
 * relative of it. Letters, of one sequence:
 *
 *   T rows, S keys; row i stands at position S - T + i   d head_dim, e v_dim
 *   H query heads, G KV heads; head h reads KV head g = h / (H / G)
 *   q [T, H, d]   k [S, G, d]   v [S, G, e]   out [T, H, e]   weights [H, T, S]
 *
 * G = H is multi-head attention (MHA, Vaswani et al. 2017), G = 1 multi-query (MQA, Shazeer 2019),
 * what lies between grouped-query (GQA, Ainslie et al. 2023). A row sees the keys up to its own
 * position (causal), or all (bidirectional: an encoder, Devlin et al. 2018). Read `naive` first. */
#include "model/zoo.h"

#include <math.h>
#include <string.h>

#include "base/sizes.h"
#include "kernels/kernels.h"
#include "kernels/math.h"

/* ---- what all share ----------------------------------------------------------------------- */

bool zoo_sees(const struct tern_zoo *z, size_t i, size_t j)
{
    size_t at = z->n_keys - z->n_rows + i, distance = j > at ? j - at : at - j;
    if (z->mask && z->mask[i * z->n_keys + j])
        return false;
    return (z->bidirectional || j <= at) && (!z->window || distance < z->window);
}

static const float *query(const struct tern_zoo *z, size_t i, size_t h)
{
    return z->q + (i * z->n_heads + h) * z->head_dim;
}

static size_t kv_row(const struct tern_zoo *z, size_t j, size_t h)
{
    return j * z->n_kv_heads + h / (z->n_heads / z->n_kv_heads);
}

static const float *key(const struct tern_zoo *z, size_t j, size_t h)
{
    return z->k + kv_row(z, j, h) * z->head_dim;
}

static const float *value(const struct tern_zoo *z, size_t j, size_t h)
{
    return z->v + kv_row(z, j, h) * z->v_dim;
}

static float *out(const struct tern_zoo *z, size_t i, size_t h)
{
    return z->out + (i * z->n_heads + h) * z->v_dim;
}

static float *weights(const struct tern_zoo *z, size_t i, size_t h)
{
    return z->weights + (h * z->n_rows + i) * z->n_keys;
}

static float dot(const float *a, const float *b, size_t n)
{
    float sum = 0;
    for (size_t c = 0; c < n; c++)
        sum = fmaf(a[c], b[c], sum);
    return sum;
}

/* y += a x   [n] */
static void add_times(float *y, float a, const float *x, size_t n)
{
    for (size_t c = 0; c < n; c++)
        y[c] = fmaf(a, x[c], y[c]);
}

static void multiply(float *y, float a, size_t n)
{
    for (size_t c = 0; c < n; c++)
        y[c] *= a;
}

static void divide(float *y, float by, size_t n)
{
    for (size_t c = 0; c < n; c++)
        y[c] /= by;
}

/* A score: s = q . k, biased by distance (ALiBi, Press et al. 2021; rounded as kernels.h has it),
 * scaled and capped */
static float scaled(const struct tern_zoo *z, size_t i, size_t j, size_t h, float s)
{
    if (z->alibi) {
        float at = (float)(z->first + z->n_keys - z->n_rows + i);
        s -= fabsf(alibi_bias(z->alibi[h], (float)(z->first + j)) - alibi_bias(z->alibi[h], at));
    }
    s *= z->scale;
    return z->cap > 0 ? z->cap * math_tanh(s / z->cap) : s;
}

static float score(const struct tern_zoo *z, size_t i, size_t j, size_t h)
{
    return scaled(z, i, j, h, dot(query(z, i, h), key(z, j, h), z->head_dim));
}

/* x[j] = exp(x[j] - m) / l   [n], l = sum of exp(x - m) and of exp(sink - m); zeros where all
 * scores are -inf: the row sees nothing */
static void softmax(float *x, size_t n, const float *sink)
{
    float m = sink ? *sink : -INFINITY, l = 0;
    for (size_t j = 0; j < n; j++)
        m = x[j] > m ? x[j] : m;
    if (m == -INFINITY)
        m = 0;
    for (size_t j = 0; j < n; j++)
        l += x[j] = math_exp(x[j] - m);
    l += sink ? math_exp(*sink - m) : 0;
    if (l > 0)
        divide(x, l, n);
}

static const float *sink_of(const struct tern_zoo *z, size_t h)
{
    return z->sinks ? &z->sinks[h] : NULL;
}

/* The weights of a row whose largest score m and sum l are known, if somebody wants them */
static void show_weights(const struct tern_zoo *z, size_t i, size_t h, float m, float l)
{
    for (size_t j = 0; z->weights && j < z->n_keys; j++)
        weights(z, i, h)[j] = zoo_sees(z, i, j) ? math_exp(score(z, i, j, h) - m) / l : 0;
}

static size_t no_scratch(const struct tern_zoo *z)
{
    (void)z;
    return 0;
}

/* ---- naive: the whole matrix -------------------------------------------------------------- */

/* out = softmax(q k^T * scale + M) v, M = 0 where a row sees a key, else -inf
 *   scores P [T, S] of a head, then softmax of each row, then P v: memory T x S
 * "Attention Is All You Need", Vaswani et al. 2017 */
static void naive(const struct tern_zoo *z, float *scratch)
{
    size_t S = z->n_keys;
    for (size_t h = 0; h < z->n_heads; h++) {
        float *P = z->weights ? weights(z, 0, h) : scratch;
        for (size_t i = 0; i < z->n_rows; i++)
            for (size_t j = 0; j < S; j++)
                P[i * S + j] = zoo_sees(z, i, j) ? score(z, i, j, h) : -INFINITY;
        for (size_t i = 0; i < z->n_rows; i++)
            softmax(P + i * S, S, sink_of(z, h));
        for (size_t i = 0; i < z->n_rows; i++) {
            memset(out(z, i, h), 0, z->v_dim * sizeof(float));
            for (size_t j = 0; j < S; j++)
                if (P[i * S + j] > 0)
                    add_times(out(z, i, h), P[i * S + j], value(z, j, h), z->v_dim);
        }
    }
}

static size_t matrix(const struct tern_zoo *z)
{
    return z->weights ? 0 : z->n_rows * z->n_keys;
}

/* Naive, where every row sees every key: an encoder. "BERT", Devlin et al. 2018 */
static void bidirectional(const struct tern_zoo *z, float *scratch)
{
    struct tern_zoo all = *z;
    all.bidirectional = 1;
    naive(&all, scratch);
}

/* Naive with sinks: one more score that takes part in the softmax and has no value, so that a head
 * can attend to nothing. Where none is given it is 0.
 * "Attention Is Off By One", Miller 2023; gpt-oss, OpenAI 2025 */
static void sinks(const struct tern_zoo *z, float *scratch)
{
    struct tern_zoo with = *z;
    memset(scratch, 0, z->n_heads * sizeof *scratch);
    if (!z->sinks)
        with.sinks = scratch;
    naive(&with, scratch + z->n_heads);
}

static size_t sinks_scratch(const struct tern_zoo *z)
{
    return z->n_heads + matrix(z);
}

/* ---- online: one pass over the keys -------------------------------------------------------- */

/* m' = max(m, s);  l' = l exp(m - m') + exp(s - m');  out' = out exp(m - m') + exp(s - m') v
 *   after the last key out / l: no score is kept
 * "Online normalizer calculation for softmax", Milakov and Gimelshein 2018 */
static void online(const struct tern_zoo *z, float *scratch)
{
    (void)scratch;
    for (size_t i = 0; i < z->n_rows; i++)
        for (size_t h = 0; h < z->n_heads; h++) {
            float m = z->sinks ? z->sinks[h] : -INFINITY, l = z->sinks ? 1 : 0, *a = out(z, i, h);
            memset(a, 0, z->v_dim * sizeof *a);
            for (size_t j = 0; j < z->n_keys; j++) {
                if (!zoo_sees(z, i, j))
                    continue;
                float s = score(z, i, j, h), top = s > m ? s : m;
                float old = math_exp(m - top), e = math_exp(s - top);
                l = fmaf(l, old, e);
                multiply(a, old, z->v_dim);
                add_times(a, e, value(z, j, h), z->v_dim);
                m = top;
            }
            if (l > 0)
                divide(a, l, z->v_dim);
            show_weights(z, i, h, m, l);
        }
}

/* ---- blocked and split: partial results, merged -------------------------------------------- */

/* Of some keys: m = max s, l = sum exp(s - m), a [e] = sum exp(s - m) v */
struct partial {
    float m, l, *a;
};

/* The partial result of keys begin .. end - 1; false when the row sees none of them. s [end -
 * begin]: scratch. l is the engine's lane sum (kernels.h), so that bits can be equal. */
static bool attend_part(const struct tern_zoo *z, size_t i, size_t h, size_t begin, size_t end,
                        float *s, struct partial *p)
{
    float lane[LANES] = {0};
    p->m = -INFINITY;
    for (size_t j = begin; j < end; j++) {
        s[j - begin] = zoo_sees(z, i, j) ? score(z, i, j, h) : -INFINITY;
        p->m = s[j - begin] > p->m ? s[j - begin] : p->m;
    }
    memset(p->a, 0, z->v_dim * sizeof *p->a);
    for (size_t j = begin; j < end; j++) {
        if (!zoo_sees(z, i, j))
            continue;
        float e = math_exp(s[j - begin] - p->m);
        lane[(j - begin) % LANES] += e;
        add_times(p->a, e, value(z, j, h), z->v_dim);
    }
    p->l = sum_lanes(lane);
    return p->m > -INFINITY;
}

/* all += p, both brought to the larger m */
static void merge(struct partial *all, const struct partial *p, size_t n)
{
    float old = math_exp(all->m - p->m), new = math_exp(p->m - all->m);
    if (p->m <= all->m) {
        all->l = fmaf(p->l, new, all->l);
        add_times(all->a, new, p->a, n);
    } else {
        all->l = fmaf(all->l, old, p->l);
        for (size_t c = 0; c < n; c++)
            all->a[c] = fmaf(all->a[c], old, p->a[c]);
        all->m = p->m;
    }
}

/* all = the sink of a head, or nothing yet. True when it is nothing. */
static bool begin_with_sink(const struct tern_zoo *z, size_t h, struct partial *all)
{
    all->m = z->sinks ? z->sinks[h] : -INFINITY, all->l = z->sinks ? 1 : 0;
    memset(all->a, 0, z->v_dim * sizeof *all->a);
    return !z->sinks;
}

/* The keys in blocks of z->block, each summed by itself, merged in order: what the fast memory holds
 * is one block of k and v, and no score leaves it. With blocks of 256 this is the engine's order.
 * "FlashAttention", Dao et al. 2022 */
static void blocked(const struct tern_zoo *z, float *scratch)
{
    struct partial p = {.a = scratch + z->block}, all;
    for (size_t i = 0; i < z->n_rows; i++)
        for (size_t h = 0; h < z->n_heads; h++) {
            all.a = out(z, i, h);
            bool is_first = begin_with_sink(z, h, &all);
            for (size_t j = 0; j < z->n_keys; j += z->block) {
                if (!attend_part(z, i, h, j, min_size(j + z->block, z->n_keys), scratch, &p))
                    continue;
                if (is_first)
                    all.m = p.m, all.l = p.l, memcpy(all.a, p.a, z->v_dim * sizeof *p.a);
                else
                    merge(&all, &p, z->v_dim);
                is_first = false;
            }
            if (all.l > 0)
                divide(all.a, all.l, z->v_dim);
            show_weights(z, i, h, all.m, all.l);
        }
}

static size_t blocked_scratch(const struct tern_zoo *z)
{
    return z->block + z->v_dim;
}

/* The keys in z->parts ranges, which as many workers could take: all partial results are kept, and
 * merged at the end. "Flash-Decoding", Dao, Haziza, Massa and Sizov 2023 */
static void split(const struct tern_zoo *z, float *scratch)
{
    size_t length = ceil_div(z->n_keys, z->parts), e = z->v_dim;
    float *m = scratch + length, *l = m + z->parts, *a = l + z->parts;
    for (size_t i = 0; i < z->n_rows; i++)
        for (size_t h = 0; h < z->n_heads; h++) {
            for (size_t n = 0; n < z->parts; n++) { /* each could run elsewhere */
                size_t begin = min_size(n * length, z->n_keys);
                struct partial p = {.a = a + n * e};
                attend_part(z, i, h, begin, min_size(begin + length, z->n_keys), scratch, &p);
                m[n] = p.m, l[n] = p.l;
            }
            struct partial all = {.a = out(z, i, h)};
            begin_with_sink(z, h, &all);
            for (size_t n = 0; n < z->parts; n++)
                if (m[n] > -INFINITY)
                    merge(&all, &(struct partial){m[n], l[n], a + n * e}, e);
            if (all.l > 0)
                divide(all.a, all.l, e);
            show_weights(z, i, h, all.m, all.l);
        }
}

static size_t split_scratch(const struct tern_zoo *z)
{
    return ceil_div(z->n_keys, z->parts) + z->parts * (2 + z->v_dim);
}

/* ---- window: a band of the matrix ---------------------------------------------------------- */

/* Keys that a row at position p can see: p - W + 1 .. p, or .. p + W - 1 where it sees later ones */
static size_t band(const struct tern_zoo *z)
{
    size_t w = min_size(z->window ? z->window : z->n_keys, z->n_keys);
    return z->bidirectional ? 2 * w - 1 : w;
}

/* Naive, but only the band of the matrix that a window leaves: scores P [T, W], P[i, b] of the key
 * at position p - W + 1 + b: memory and work T x W
 * "Longformer", Beltagy et al. 2020; "Mistral 7B", Jiang et al. 2023 */
static void window(const struct tern_zoo *z, float *scratch)
{
    size_t B = band(z), w = min_size(z->window ? z->window : z->n_keys, z->n_keys);
    for (size_t h = 0; h < z->n_heads; h++)
        for (size_t i = 0; i < z->n_rows; i++) {
            float *P = scratch + i * B;
            size_t first = z->n_keys - z->n_rows + i + 1; /* + b - w is the key of P[b] */
            for (size_t b = 0; b < B; b++) {
                bool is_key = first + b >= w && first + b - w < z->n_keys;
                bool seen = is_key && zoo_sees(z, i, first + b - w);
                P[b] = seen ? score(z, i, first + b - w, h) : -INFINITY;
            }
            softmax(P, B, sink_of(z, h));
            memset(out(z, i, h), 0, z->v_dim * sizeof(float));
            if (z->weights)
                memset(weights(z, i, h), 0, z->n_keys * sizeof(float));
            for (size_t b = 0; b < B; b++) {
                if (!(P[b] > 0))
                    continue;
                add_times(out(z, i, h), P[b], value(z, first + b - w, h), z->v_dim);
                if (z->weights)
                    weights(z, i, h)[first + b - w] = P[b];
            }
        }
}

static size_t window_scratch(const struct tern_zoo *z)
{
    return z->n_rows * band(z);
}

/* ---- latent: one vector for all heads ------------------------------------------------------ */

/* k_j = (U_h c_j, r_j) and v_j = V_h c_j are made from a latent c [S, c_dim] and a part r with RoPE
 * that all heads share; only (c, r) is kept. No key or value is made here either, because
 *   q . U_h c = (U_h^T q) . c   and   sum_j p_j V_h c_j = V_h sum_j p_j c_j
 *   U_h [d - rope, c_dim]   V_h [e, c_dim]
 * Multi-head latent attention (MLA): "DeepSeek-V2", DeepSeek-AI 2024 */
static void latent(const struct tern_zoo *z, float *scratch)
{
    size_t n = z->latent_dim, plain = z->head_dim - z->rope_dim, stride = n + z->rope_dim;
    float *u = scratch, *sum = u + n, *P = sum + n; /* U_h^T q; sum p c; scores of a row */
    for (size_t i = 0; i < z->n_rows; i++)
        for (size_t h = 0; h < z->n_heads; h++) {
            const float *q = query(z, i, h), *U = z->up_k + h * plain * n;
            const float *V = z->up_v + h * z->v_dim * n;
            memset(u, 0, 2 * n * sizeof *u);
            for (size_t c = 0; c < plain; c++)
                add_times(u, q[c], U + c * n, n);
            for (size_t j = 0; j < z->n_keys; j++) {
                const float *c = z->k + j * stride;
                float s = dot(u, c, n) + dot(q + plain, c + n, z->rope_dim);
                P[j] = zoo_sees(z, i, j) ? scaled(z, i, j, h, s) : -INFINITY;
            }
            softmax(P, z->n_keys, sink_of(z, h));
            if (z->weights)
                memcpy(weights(z, i, h), P, z->n_keys * sizeof *P);
            for (size_t j = 0; j < z->n_keys; j++)
                if (P[j] > 0)
                    add_times(sum, P[j], z->k + j * stride, n);
            for (size_t c = 0; c < z->v_dim; c++)
                out(z, i, h)[c] = dot(V + c * n, sum, n);
        }
}

static size_t latent_scratch(const struct tern_zoo *z)
{
    return 2 * z->latent_dim + z->n_keys;
}

/* ---- relatives with a state in the place of a cache ----------------------------------------- */

/* phi(x) = elu(x) + 1, above 0 */
static float phi(float x)
{
    return x > 0 ? x + 1 : math_exp(x);
}

/* Its weights, of which nobody keeps the matrix */
static void show_linear_weights(const struct tern_zoo *z, size_t i, size_t h, float sum)
{
    for (size_t j = 0; z->weights && j < z->n_keys; j++) {
        float p = 0;
        for (size_t c = 0; c < z->head_dim && zoo_sees(z, i, j); c++)
            p = fmaf(phi(query(z, i, h)[c]), phi(key(z, j, h)[c]), p);
        weights(z, i, h)[j] = p / sum;
    }
}

static size_t linear_scratch(const struct tern_zoo *z)
{
    return z->head_dim * z->v_dim + z->head_dim;
}

/* Without softmax the sum over the keys can be kept instead of the keys: a state X [d, e] and y [d]
 *   X += phi(k) v^T;  y += phi(k);  out = phi(q)^T X / (phi(q) . y)
 *   memory d x e, whatever the length; bidirectional rows read the state of all keys
 * "Transformers are RNNs", Katharopoulos et al. 2020 */
static void linear(const struct tern_zoo *z, float *scratch)
{
    size_t d = z->head_dim, e = z->v_dim, T = z->n_rows, S = z->n_keys;
    float *X = scratch, *y = X + d * e;
    for (size_t h = 0; h < z->n_heads; h++) {
        memset(scratch, 0, linear_scratch(z) * sizeof *scratch);
        for (size_t i = 0, j = 0; i < T; i++) {
            for (size_t end = z->bidirectional ? S : S - T + i + 1; j < end; j++)
                for (size_t c = 0; c < d; c++) {
                    float f = phi(key(z, j, h)[c]);
                    add_times(X + c * e, f, value(z, j, h), e);
                    y[c] += f;
                }
            float sum = 0, *to = out(z, i, h);
            memset(to, 0, e * sizeof *to);
            for (size_t c = 0; c < d; c++) {
                add_times(to, phi(query(z, i, h)[c]), X + c * e, e);
                sum = fmaf(phi(query(z, i, h)[c]), y[c], sum);
            }
            divide(to, sum, e);
            show_linear_weights(z, i, h, sum);
        }
    }
}

/* A state X [e, d] that maps keys to values. A new pair first takes away what X says of the key:
 *   k = key / |key|;  X += beta (v - X k) k^T;  out = X q * scale
 * "Linear Transformers Are Secretly Fast Weight Programmers", Schlag et al. 2021; in parallel form
 * Yang et al. 2024 */
static void delta(const struct tern_zoo *z, float *scratch)
{
    size_t d = z->head_dim, e = z->v_dim, S = z->n_keys, first = S - z->n_rows;
    float *X = scratch, *k = X + e * d;
    for (size_t h = 0; h < z->n_heads; h++) {
        memset(X, 0, e * d * sizeof *X);
        for (size_t j = 0; j < S; j++) {
            float size = sqrtf(dot(key(z, j, h), key(z, j, h), d));
            float beta = z->beta ? z->beta[kv_row(z, j, h)] : 1;
            memcpy(k, key(z, j, h), d * sizeof *k);
            if (size > 0)
                divide(k, size, d);
            for (size_t c = 0; c < e; c++)
                add_times(X + c * d, beta * (value(z, j, h)[c] - dot(X + c * d, k, d)), k, d);
            for (size_t c = 0; j >= first && c < e; c++)
                out(z, j - first, h)[c] = z->scale * dot(X + c * d, query(z, j - first, h), d);
        }
    }
}

static size_t delta_scratch(const struct tern_zoo *z)
{
    return z->v_dim * z->head_dim + z->head_dim;
}

/* ---- the kinds ----------------------------------------------------------------------------- */

static const struct zoo_kind kinds[] = {
    {"naive", "Vaswani et al. 2017", ZOO_PAIRS, naive, matrix},
    {"online", "Milakov and Gimelshein 2018", ZOO_PAIRS, online, no_scratch},
    {"blocked", "Dao et al. 2022", ZOO_PAIRS, blocked, blocked_scratch},
    {"split", "Dao, Haziza, Massa and Sizov 2023", ZOO_PAIRS, split, split_scratch},
    {"window", "Beltagy et al. 2020", ZOO_BAND, window, window_scratch},
    {"sinks", "Miller 2023", ZOO_PAIRS, sinks, sinks_scratch},
    {"bidirectional", "Devlin et al. 2018", ZOO_PAIRS, bidirectional, matrix},
    {"latent", "DeepSeek-AI 2024", ZOO_LATENT, latent, latent_scratch},
    {"linear", "Katharopoulos et al. 2020", ZOO_STATE, linear, linear_scratch},
    {"delta", "Schlag et al. 2021", ZOO_STATE, delta, delta_scratch},
};

const struct zoo_kind *zoo_at(size_t i)
{
    return i < sizeof kinds / sizeof *kinds ? &kinds[i] : NULL;
}

const struct zoo_kind *zoo_find(const char *name)
{
    size_t i = 0;
    while (zoo_at(i) && strcmp(zoo_at(i)->name, name))
        i++;
    return zoo_at(i);
}
