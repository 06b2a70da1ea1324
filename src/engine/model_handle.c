/* tern_model: opens the parts in order, answers questions about them. */
#include "engine/model_handle.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fpenv.h"
#include "base/thread_count.h"
#include "engine/api_chat.h"
#include "engine/lead.h"
#include "model/slices.h"
#include "model/split.h"
#include "sample/sampler.h"
#include "weights/checksums.h"
#include "weights/finite.h"
#include "weights/load.h"

/* Bytes that a token reads between two barriers: below this, meeting costs what threads gain. Two
 * threads at 143 KiB: 0.77 times the speed of one, at 226 KiB 0.97 to 1.4 times. */
enum { LEAST_SHARE = 160 << 10 };

enum tern_status model_handle_section(const struct tern_model *m, const char *tag,
                                      struct keys *keys, bool *found, struct tern_error *e)
{
    size_t n;
    const void *body = weights_section(m->model->weights, tag, &n);
    *keys = (struct keys){0};
    *found = body != NULL;
    return body ? keys_parse(keys, tag, body, n, e) : TERN_OK;
}

/* *out = a NUL-terminated copy of a text key; NULL when it is absent. */
static enum tern_status take_text(struct keys *keys, const char *name, char **out,
                                  struct tern_error *e)
{
    const char *text = NULL;
    uint64_t n = 0;
    enum tern_status s = keys_text(keys, name, &text, &n, e);
    if (s || !text)
        return s;
    *out = malloc((size_t)n + 1);
    if (!*out)
        return error_memory(e, name, (size_t)n + 1);
    memcpy(*out, text, (size_t)n);
    (*out)[n] = 0;
    return TERN_OK;
}

static enum tern_status read_provenance(struct tern_model *m, struct tern_error *e)
{
    struct keys keys;
    bool found;
    enum tern_status s = model_handle_section(m, "provenance", &keys, &found, e);
    if (s || !found)
        return s;
    (void)((s = take_text(&keys, "name", &m->name, e)) ||
           (s = take_text(&keys, "source", &m->source, e)) ||
           (s = take_text(&keys, "licence", &m->licence, e)) ||
           (s = take_text(&keys, "converter", &m->converter, e)));
    keys_close(&keys);
    return s;
}

static enum tern_status read_end_tokens(struct tern_model *m, struct keys *keys,
                                        struct tern_error *e)
{
    const uint64_t *ids = NULL;
    uint64_t n = 0;
    enum tern_status s = keys_u64s(keys, "end_tokens", &ids, &n, e);
    if (s)
        return s;
    if (n > MAX_END_TOKENS)
        return error_set(e, TERN_BAD_FILE, "section 'generation': %llu end tokens, want at most %d",
                         (unsigned long long)n, MAX_END_TOKENS);
    for (uint64_t i = 0; i < n; i++) {
        uint64_t id = load_u64(&ids[i]);
        if (id >= m->model->vocab)
            return error_set(e, TERN_BAD_FILE,
                             "section 'generation': end token %llu of a vocabulary of %zu",
                             (unsigned long long)id, m->model->vocab);
        m->end_tokens[m->n_end_tokens++] = (tern_token)id;
    }
    return TERN_OK;
}

static enum tern_status read_generation(struct tern_model *m, struct tern_error *e)
{
    struct keys keys;
    bool found;
    struct tern_sampler_params *p = &m->sampler;
    uint64_t top_k = p->top_k;
    enum tern_status s = model_handle_section(m, "generation", &keys, &found, e);
    if (s || !found)
        return s;
    if (!(s = keys_f32(&keys, "temperature", &p->temperature, e)) &&
        !(s = keys_u64(&keys, "top_k", &top_k, e)) &&
        !(s = keys_f32(&keys, "top_p", &p->top_p, e)) &&
        !(s = keys_f32(&keys, "min_p", &p->min_p, e)) &&
        !(s = keys_f32(&keys, "repeat_penalty", &p->repeat_penalty, e)) &&
        !(s = keys_f32(&keys, "presence_penalty", &p->presence_penalty, e)) &&
        !(s = keys_f32(&keys, "frequency_penalty", &p->frequency_penalty, e)))
        s = read_end_tokens(m, &keys, e);
    p->top_k = top_k < m->model->vocab ? (uint32_t)top_k : 0;
    if (!s && sampler_check(p, m->model->vocab, e))
        s = error_set(e, TERN_BAD_FILE, "section 'generation' holds a value out of range");
    keys_close(&keys);
    return s;
}

static enum tern_status open_tokenizer(struct tern_model *m, struct tern_error *e)
{
    size_t n;
    const void *body = weights_section(m->model->weights, "tokenizer", &n);
    m->spelling = calloc(1, sizeof *m->spelling);
    if (!m->spelling)
        return error_memory(e, "the model", sizeof *m->spelling);
    enum tern_status s = lock_open(&m->spelling->lock, e);
    if (s || !body)
        return s;
    s = tokenizer_open_bytes(&m->tokenizer, body, n, m->model->vocab, e);
    if (!s && m->n_end_tokens == 0 && tokenizer_eos(m->tokenizer) >= 0)
        m->end_tokens[m->n_end_tokens++] = tokenizer_eos(m->tokenizer);
    return s;
}

static enum tern_status open_pool(struct tern_model *m, int n_threads, struct tern_error *e)
{
    char *why = m->threads_why;
    size_t size = sizeof m->threads_why;
    if (n_threads < 0 || n_threads > MAX_THREADS)
        return error_set(e, TERN_USAGE, "%d threads were asked for, want 1 to %d", n_threads,
                         MAX_THREADS);
    if (n_threads) {
        snprintf(why, size, "%d thread%s: as asked", n_threads, n_threads == 1 ? "" : "s");
    } else if (model_token_bytes(m->model) < LEAST_SHARE * (5 * (uint64_t)m->model->n_layers + 2)) {
        n_threads = 1;
        snprintf(why, size, "1 thread: the model is too small to gain from more");
    } else {
        n_threads = thread_count_best(why, size);
    }
    return pool_open(&m->pool, n_threads, e);
}

static enum tern_status open_parts(struct tern_model *m, const char *path,
                                   const struct tern_model_params *p, struct tern_error *e)
{
    enum tern_status s;
    if (!path)
        return error_no_path(e);
    m->sampler = sampler_defaults();
    if ((s = kernels_init(&m->kernels, p->cpu, e)) || (s = model_open(&m->model, path, e)))
        return s;
    if (p->load & TERN_LOAD_MTP && !m->model->has_mtp)
        return error_set(e, TERN_USAGE, "%s has no layer that guesses (MTP)", path);
    if (!(p->load & TERN_LOAD_MTP))
        m->model->n_mtp = 0;
    if ((s = read_provenance(m, e)) || (s = read_generation(m, e)) || (s = open_tokenizer(m, e)) ||
        (s = api_chat_open(m, NULL, e)))
        return error_in(e, s, path);
    if ((s = open_pool(m, p->n_threads, e)))
        return s;
    m->stop = p->stop, m->stop_arg = p->arg;
    m->spelling->quota.limit = p->constraint_bytes ? p->constraint_bytes : SIZE_MAX;
    m->spelling->quota.make_room = p->make_room;
    m->spelling->quota.arg = p->arg;
    if (m->tokenizer)
        tokenizer_stop_when(m->tokenizer, p->stop, p->arg);
    return TERN_OK;
}

/* Copies and locks, when it is known what of the file this machine needs. */
static enum tern_status load(struct tern_model *m, const struct tern_model_params *p,
                             struct tern_error *e)
{
    enum tern_status s = TERN_OK;
    bool copies = p->load & TERN_LOAD_COPY;
#ifdef TERN_MPI
    if (split_of(m->model))
        s = slices_find(m->model, e);
#endif
    s = meet_copies(m, s, copies ? weights_own_bytes(m->model->weights) : 0, e);
    if (s)
        return s;
    pool_stop_when(m->pool, p->stop, p->arg);
    if (copies)
        s = load_copy(m->model->weights, m->pool, e);
    if (!s && p->load & TERN_LOAD_LOCK)
        s = load_lock(m->model->weights, m->pool, e);
    pool_stop_when(m->pool, NULL, NULL);
    return s;
}

enum tern_status tern_model_open(tern_model **out, const char *path,
                                 const struct tern_model_params *params, struct tern_error *e)
{
    static const struct tern_model_params defaults = {0};
    struct fpenv saved = fpenv_enter();
    struct tern_model *m = calloc(1, sizeof *m);
    *out = NULL;
    params = params ? params : &defaults;
    enum tern_status s =
        m ? open_parts(m, path, params, e) : error_memory(e, "the model", sizeof *m);
    s = meet_open(m, s, params->share, e);
    if (!s)
        s = load(m, params, e);
    s = meet_loaded(m, s, e);
    if (s)
        tern_model_close(m);
    else
        *out = m;
    fpenv_leave(saved);
    return s;
}

void tern_model_close(tern_model *m)
{
    if (!m)
        return;
    meet_end(m);
    pool_close(m->pool);
    chat_close(m->chat);
    if (m->spelling) {
        spelling_close(m->spelling->spelling);
        lock_close(m->spelling->lock);
    }
    free(m->spelling);
    tokenizer_close(m->tokenizer);
    model_close(m->model);
    free(m->name);
    free(m->source);
    free(m->licence);
    free(m->converter);
    free(m);
}

static const char *or_empty(const char *text)
{
    return text ? text : "";
}

static size_t narrowest_window(const struct model *m)
{
    size_t window = 0;
    for (size_t l = 0; l < m->n_layers; l++)
        if (m->layers[l].window && (!window || m->layers[l].window < window))
            window = m->layers[l].window;
    return window;
}

static enum tern_type largest_type(const struct model *m)
{
    const struct tensor *largest = weights_at(m->weights, 0);
    for (size_t i = 1; i < weights_count(m->weights); i++)
        if (weights_at(m->weights, i)->bytes > largest->bytes)
            largest = weights_at(m->weights, i);
    return largest->type;
}

static bool is_sealed(const struct tern_model *m)
{
    struct keys keys;
    bool found;
    uint64_t arith = 0;
    if (!model_handle_section(m, "seal", &keys, &found, NULL) && found)
        (void)keys_u64(&keys, "arith", &arith, NULL);
    keys_close(&keys);
    return arith != 0;
}

/* The first layer with attention; the first of all when none has it */
static const struct layer *first_attention(const struct model *m)
{
    size_t l = 0;
    while (l < m->n_layers && !m->layers[l].n_heads)
        l++;
    return &m->layers[l < m->n_layers ? l : 0];
}

/* Of the first layer that has a feed-forward step */
static size_t first_hidden(const struct model *m)
{
    size_t l = 0;
    while (l + 1 < m->n_layers && !m->layers[l].hidden)
        l++;
    return m->layers[l].hidden;
}

void tern_model_info(const tern_model *m, struct tern_model_info *info)
{
    const struct model *w = m->model;
    const struct layer *first = first_attention(w);
    size_t unused;
    *info = (struct tern_model_info){
        .n_layers = w->n_layers,
        .dim = w->dim,
        .vocab = w->vocab,
        .n_heads = first->n_heads,
        .n_kv_heads = first->n_kv_heads,
        .head_dim = first->head_dim,
        .hidden = first_hidden(w),
        .max_seq = w->max_seq,
        .window = narrowest_window(w),
        .n_params = model_params(w),
        .file_bytes = weights_file_bytes(w->weights),
        .token_bytes = model_token_bytes(w),
        .content_id = weights_content_id(w->weights),
        .type = largest_type(w),
        .type_name = tern_type_name(largest_type(w)),
        .name = or_empty(m->name),
        .source = or_empty(m->source),
        .licence = or_empty(m->licence),
        .converter = or_empty(m->converter),
        .cpu = m->kernels.name,
        .n_threads = pool_threads(m->pool),
        .threads_why = m->threads_why,
        .bos = m->tokenizer ? tokenizer_bos(m->tokenizer) : -1,
        .has_chat = weights_section(w->weights, "chat", &unused) != NULL,
        .is_sealed = is_sealed(m),
        .has_mtp = w->has_mtp,
    };
}

static int asked_to_stop(void *arg, uint64_t done, uint64_t total)
{
    const struct tern_model *m = arg;
    (void)done, (void)total;
    return m->stop && m->stop(m->stop_arg);
}

enum tern_status tern_model_check(tern_model *m, struct tern_error *e)
{
    const struct weights *w = m->model->weights;
    lead_check(m);
    enum tern_status s = checksums_verify(w, asked_to_stop, m, e);
#ifdef TERN_MPI
    if (weights_part(w)) /* which has not all values */
        return meet_agree(m, s, e);
#endif
    for (size_t i = 0; i < weights_count(w) && !s; i++)
        s = finite_check(w, weights_at(w, i), e);
    return meet_agree(m, s, e);
}
