/* Opens the tokenizer section and encodes: see tokenizer.h; TOKENIZER.md lists the keys. Text goes
 * added tokens (raw) -> normalizer -> added tokens (normalized) -> pre-tokenizer -> model. */
#include "text/bpe.h"
#include "text/decoder.h"
#include "text/normalize.h"
#include "text/tokenizer_parts.h"
#include "text/pretokenize.h"
#include "text/spm.h"
#include "text/unicode.h"
#include "text/unigram.h"
#include "text/word_level.h"

#include <stdlib.h>

enum { TEXT_MAX = 1 << 30 };                /* bytes; symbols are numbered with 31 bits */
static const char BLOCK[] = "\xE2\x96\x81"; /* U+2581, SentencePiece's visible space */

static enum tern_status read_flag(struct keys *keys, const char *name, bool *out,
                                  struct tern_error *e)
{
    uint64_t value = 0;
    enum tern_status s = keys_u64(keys, name, &value, e);
    *out = value == 1;
    if (!s && value > 1)
        return error_set(e, TERN_BAD_FILE, "tokenizer: %s is %llu, want 0 or 1", name,
                         (unsigned long long)value);
    return s;
}

static enum tern_status read_id(const struct tokenizer *t, struct keys *keys, const char *name,
                                int32_t *out, struct tern_error *e)
{
    uint64_t id = UINT64_MAX;
    enum tern_status s = keys_u64(keys, name, &id, e);
    *out = -1;
    if (s || !keys_find(keys, name))
        return s;
    if (id >= t->vocab.n)
        return error_set(e, TERN_BAD_FILE, "tokenizer: %s is %llu, but there are %u tokens", name,
                         (unsigned long long)id, t->vocab.n);
    *out = (int32_t)id;
    return TERN_OK;
}

static enum tern_status read_ids(const struct tokenizer *t, struct keys *keys, const char *name,
                                 const uint32_t **out, size_t *n, struct tern_error *e)
{
    uint64_t count = 0;
    enum tern_status s = keys_u32s(keys, name, out, &count, e);
    if (s)
        return s;
    for (uint64_t i = 0; i < count; i++)
        if ((*out)[i] >= t->vocab.n)
            return error_set(e, TERN_BAD_FILE, "tokenizer: %s has id %u, but there are %u tokens",
                             name, (*out)[i], t->vocab.n);
    *n = (size_t)count;
    return TERN_OK;
}

/* ---- added tokens ------------------------------------------------------------------------- */

static enum tern_status check_added(const char *p, uint32_t n, uint32_t i, uint32_t flags,
                                    struct tern_error *e)
{
    if (n == 0 || n > ADDED_MAX || !unicode_valid(p, n))
        return error_set(e, TERN_BAD_FILE,
                         "tokenizer: added token %u is empty, longer than %d bytes or not UTF-8", i,
                         ADDED_MAX);
    if (flags & ~(uint32_t)ADDED_FLAGS)
        return error_set(e, TERN_BAD_FILE, "tokenizer: added token %u has unknown flags %u", i,
                         flags);
    return TERN_OK;
}

/* Checks every added token and puts it into its set. */
static enum tern_status place_added(struct tokenizer *t, uint64_t n_bytes, struct tern_error *e)
{
    uint64_t at = 0;
    for (size_t i = 0; i < t->n_added; at += t->added_lengths[i++]) {
        const char *p = t->added_bytes + at;
        uint32_t n = t->added_lengths[i], id = t->added_ids[i];
        if (n > n_bytes - at)
            return error_set(e, TERN_BAD_FILE, "tokenizer: added token %zu ends past its text", i);
        enum tern_status s = check_added(p, n, (uint32_t)i, t->added_flags[i], e);
        if (s)
            return s;
        struct added_set *set = t->added_flags[i] & ADDED_NORMALIZED ? &t->normalized : &t->raw;
        set->list[set->n++] =
            (struct added_token){p, n, t->added_flags[i], (uint32_t)i, (int32_t)id};
        t->special[id] |= t->added_flags[i] & ADDED_SPECIAL;
    }
    if (at != n_bytes)
        return error_set(e, TERN_BAD_FILE, "tokenizer: text follows the last added token");
    return TERN_OK;
}

/* Gives the tokens of the normalized set their normalized form; one that vanishes is dropped. These
 * forms are kept, so all of them together have at most 4 times the `stored` bytes of the tokens:
 * U+2581 for each of a run of spaces is 3 times. */
static enum tern_status normalize_added(struct tokenizer *t, struct buffer scratch[2],
                                        size_t stored, struct tern_error *e)
{
    struct added_set *set = &t->normalized;
    struct growth growth = {.limit = 4 * stored + GROWTH_MORE};
    uint32_t kept = 0;
    size_t at = 0;
    for (uint32_t i = 0; i < set->n; i++) {
        struct added_token a = set->list[i];
        const char *p;
        size_t n;
        bool ok = normalize_run(&t->normalizer, scratch, &growth, a.p, a.n, false, &p, &n);
        if (growth.over || (ok && n > ADDED_MAX))
            return error_set(e, TERN_BAD_FILE,
                             "tokenizer: the normalizer makes the added tokens too long");
        if (!ok || !buffer_add(&t->added_text, p, n))
            return error_memory(e, "the added tokens", t->added_text.n + growth.limit);
        a.n = (uint32_t)n;
        if (n)
            set->list[kept++] = a;
    }
    set->n = kept;
    for (uint32_t i = 0; i < kept; at += set->list[i++].n)
        set->list[i].p = t->added_text.p + at;
    return TERN_OK;
}

static enum tern_status read_added(struct tokenizer *t, struct keys *keys, struct tern_error *e)
{
    uint64_t n_bytes = 0, n_lengths = 0, n_flags = 0;
    enum tern_status s;
    t->added_bytes = ""; /* of an absent key */
    if ((s = read_ids(t, keys, "added.ids", &t->added_ids, &t->n_added, e)) ||
        (s = keys_text(keys, "added.bytes", &t->added_bytes, &n_bytes, e)) ||
        (s = keys_u32s(keys, "added.lengths", &t->added_lengths, &n_lengths, e)) ||
        (s = keys_u32s(keys, "added.flags", &t->added_flags, &n_flags, e)))
        return s;
    size_t n = t->n_added;
    if (n_lengths != n || n_flags != n)
        return error_set(e, TERN_BAD_FILE,
                         "tokenizer: added.ids, added.lengths and added.flags differ in number");
    t->raw.list = calloc(n + 1, sizeof *t->raw.list);
    t->normalized.list = calloc(n + 1, sizeof *t->normalized.list);
    if (!t->raw.list || !t->normalized.list)
        return error_memory(e, "the added tokens", 2 * (n + 1) * sizeof *t->raw.list);
    struct buffer scratch[2] = {{0}};
    if (!(s = place_added(t, n_bytes, e)))
        s = normalize_added(t, scratch, n_bytes + n * 3 * sizeof *t->added_ids, e);
    buffer_close(&scratch[0]);
    buffer_close(&scratch[1]);
    if (s)
        return s;
    added_sort(&t->raw);
    added_sort(&t->normalized);
    return TERN_OK;
}

/* ---- open --------------------------------------------------------------------------------- */

static const struct {
    char name[16];
    enum tern_status (*open)(struct tokenizer *t, struct keys *keys, struct tern_error *e);
    bool (*word)(struct encoding *c, const char *p, size_t n);
} kinds[] = {
    [MODEL_SPM] = {"spm", spm_open, spm_word},
    [MODEL_BPE] = {"bpe", bpe_open, bpe_word},
    [MODEL_UNIGRAM] = {"unigram", unigram_open, unigram_word},
    [MODEL_WORD] = {"word_level", word_level_open, word_level_word},
};

static enum tern_status read_kind(struct tokenizer *t, struct keys *keys, struct tern_error *e)
{
    const char *p = "";
    uint64_t n = 0;
    enum tern_status s = keys_text(keys, "kind", &p, &n, e);
    if (s)
        return s;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (text_is(p, n, kinds[i].name)) {
            t->kind = (enum model_kind)i;
            return kinds[i].open(t, keys, e);
        }
    return error_set(e, TERN_BAD_FILE, "tokenizer: kind '%.*s' is not known to this version",
                     (int)(n > 100 ? 100 : n), p);
}

static enum tern_status read_special(struct tokenizer *t, struct tern_error *e)
{
    t->special = calloc(t->vocab.n, 1);
    if (!t->special)
        return error_memory(e, "the special tokens", t->vocab.n);
    for (uint32_t id = 0; id < t->vocab.n; id++)
        t->special[id] = t->vocab.types[id] == TOKEN_UNKNOWN || t->vocab.types[id] == TOKEN_CONTROL;
    return TERN_OK;
}

/* Where in p[1..n) the next run of U+2581 begins, or n. */
static size_t next_space(const char *p, size_t n)
{
    for (size_t i = 1; i + 3 <= n; i++) {
        const char *q = memchr(p + i, BLOCK[0], n - 2 - i);
        if (!q)
            break;
        i = (size_t)(q - p);
        if (memcmp(q, BLOCK, 3) == 0 && (i < 3 || memcmp(q - 3, BLOCK, 3) != 0))
            return i;
    }
    return n;
}

/* Whether words may be cut before every run of U+2581 without changing an id: joining then never
 * reaches over the cut, and a known token ends a run of unknown characters. */
static bool may_cut(const struct tokenizer *t)
{
    const struct vocab *v = &t->vocab;
    size_t n;
    if (t->kind == MODEL_WORD || t->byte_level || t->ignore_merges || t->has_unused ||
        vocab_find(v, BLOCK, 3) < 0)
        return false;
    for (uint32_t id = 0; id < v->n; id++) {
        const char *p = vocab_text(v, (int32_t)id, &n);
        if (v->types[id] != TOKEN_ABSENT && next_space(p, n) < n)
            return false;
    }
    return true;
}

/* Bytes of the longest part of a word that can be one id; 0: any number, where a run of unknown
 * characters becomes one id, or none. */
static size_t most_bytes(const struct tokenizer *t)
{
    bool whole = t->byte_fallback || t->byte_level;
    const int32_t *bytes = t->byte_level ? t->byte_unit : t->vocab.byte_id;
    for (size_t i = 0; i < 256 && whole; i++)
        whole = bytes[i] >= 0;
    bool alone = t->unk >= 0 && !t->fuse_unk && (t->kind == MODEL_SPM || t->kind == MODEL_BPE);
    if (t->kind == MODEL_WORD || !(whole || alone))
        return 0;
    return (whole ? 1u : 4u) * t->vocab.longest_text; /* an unknown character, of up to 4 bytes,
                                                       * joins as one of them */
}

static enum tern_status read_all(struct tokenizer *t, struct keys *keys, uint64_t rows,
                                 struct tern_error *e)
{
    enum tern_status s;
    if ((s = vocab_open(&t->vocab, keys, rows, e)) ||
        (s = read_flag(keys, "byte_level", &t->byte_level, e)) ||
        (s = read_flag(keys, "byte_fallback", &t->byte_fallback, e)) ||
        (s = read_flag(keys, "fuse_unk", &t->fuse_unk, e)) ||
        (s = read_flag(keys, "ignore_merges", &t->ignore_merges, e)) ||
        (s = read_flag(keys, "f32_sums", &t->f32_sums, e)) ||
        (s = read_id(t, keys, "unk", &t->unk, e)) || (s = read_id(t, keys, "bos", &t->bos, e)) ||
        (s = read_id(t, keys, "eos", &t->eos, e)) ||
        (s = read_ids(t, keys, "add.before", &t->before, &t->n_before, e)) ||
        (s = read_ids(t, keys, "add.after", &t->after, &t->n_after, e)) ||
        (s = read_kind(t, keys, e)) || (s = read_special(t, e)) ||
        (s = steps_read(&t->normalizer, keys, "normalizer", e)) ||
        (s = steps_read(&t->pre, keys, "pre", e)) ||
        (s = steps_read(&t->decoder, keys, "decoder", e)) || (s = decoder_check(&t->decoder, e)) ||
        (s = read_added(t, keys, e)))
        return s;
    t->cuts_at_space = may_cut(t);
    t->most_bytes = most_bytes(t);
    return keys_unknown(keys, e);
}

enum tern_status tokenizer_open(struct tokenizer **out, struct keys *keys, uint64_t vocab,
                                struct tern_error *e)
{
    *out = NULL;
    struct tokenizer *t = calloc(1, sizeof *t);
    if (!t)
        return error_memory(e, "the tokenizer", sizeof *t);
    enum tern_status s = read_all(t, keys, vocab, e);
    if (s)
        tokenizer_close(t);
    else
        *out = t;
    return s;
}

enum tern_status tokenizer_open_bytes(struct tokenizer **out, const void *section, size_t n,
                                      uint64_t vocab, struct tern_error *e)
{
    struct keys keys;
    *out = NULL;
    enum tern_status s = keys_parse(&keys, "tokenizer", section, n, e);
    if (s)
        return s;
    s = tokenizer_open(out, &keys, vocab, e);
    keys_close(&keys);
    return s;
}

void tokenizer_close(struct tokenizer *t)
{
    if (!t)
        return;
    vocab_close(&t->vocab);
    spm_close(t);
    bpe_close(t);
    unigram_close(t);
    steps_close(&t->normalizer);
    steps_close(&t->pre);
    steps_close(&t->decoder);
    free(t->raw.list);
    free(t->normalized.list);
    buffer_close(&t->added_text);
    free(t->special);
    free(t);
}

void tokenizer_stop_when(struct tokenizer *t, int (*stop)(void *arg), void *arg)
{
    t->stop = (struct stop){.ask = stop, .arg = arg};
}

struct stop tokenizer_stop(const struct tokenizer *t)
{
    return t->stop;
}

/* ---- encode ------------------------------------------------------------------------------- */

struct run {
    struct encoding ids;
    struct buffer scratch[2];
    struct growth growth; /* of the normalizer */
    struct pretokenize pre;
    bool plain, must_fit, first;
    size_t least; /* ids that a word has at least, where that ended it */
};

static bool on_token(void *arg, int32_t id)
{
    struct run *r = arg;
    return encoding_put(&r->ids, id);
}

static bool on_word(void *arg, const char *p, size_t n)
{
    struct run *r = arg;
    const struct tokenizer *t = r->ids.t;
    r->ids.total = 0;
    if (stop_asked(&r->ids.stop, n) || (r->first && r->ids.n >= r->ids.max))
        return false;
    if (r->must_fit && t->most_bytes && n / t->most_bytes > r->ids.max) {
        r->least = n / t->most_bytes;
        return false;
    }
    for (size_t len; n; p += len, n -= len) {
        len = t->cuts_at_space ? next_space(p, n) : n;
        if (!kinds[t->kind].word(&r->ids, p, len))
            return false;
    }
    return true;
}

static bool on_normalized(void *arg, const char *p, size_t n, bool first)
{
    struct run *r = arg;
    return pretokenize_run(&r->pre, p, n, first);
}

static bool on_raw(void *arg, const char *p, size_t n, bool first)
{
    struct run *r = arg;
    const struct tokenizer *t = r->ids.t;
    if (!normalize_run(&t->normalizer, r->scratch, &r->growth, p, n, first, &p, &n))
        return false;
    return added_split(&t->normalized, p, n, r->plain, first,
                       (struct added_sink){on_normalized, on_token, r});
}

static bool encode(struct run *r, const char *text, size_t n, unsigned flags)
{
    const struct tokenizer *t = r->ids.t;
    for (size_t i = 0; i < t->n_before && flags & TERN_ADD_SPECIAL; i++)
        encoding_put(&r->ids, (int32_t)t->before[i]);
    r->plain = !(flags & TERN_PARSE_SPECIAL);
    r->must_fit = flags & TERN_MUST_FIT;
    r->first = flags & TOKENIZER_FIRST;
    if (!added_split(&t->raw, text, n, r->plain, !(flags & TOKENIZER_CONTINUES),
                     (struct added_sink){on_raw, on_token, r}))
        return false;
    for (size_t i = 0; i < t->n_after && flags & TERN_ADD_SPECIAL; i++)
        encoding_put(&r->ids, (int32_t)t->after[i]);
    return true;
}

enum tern_status tokenizer_encode(const struct tokenizer *t, const char *text, size_t n,
                                  unsigned flags, int32_t *out, size_t max, size_t *n_out,
                                  struct tern_error *e)
{
    struct run r = {.ids = {.t = t, .out = out, .max = max, .stop = t->stop}};
    struct buffer clean = {0};
    bool ok = true;
    *n_out = 0;
    if (n > TEXT_MAX)
        return error_set(e, TERN_LIMIT, "a text of %zu bytes is more than a tokenizer takes (%d)",
                         n, TEXT_MAX);
    r.pre = (struct pretokenize){.steps = &t->pre, .word = on_word, .arg = &r};
    if (!unicode_valid(text, n)) {
        ok = unicode_repair(&clean, text, n);
        text = clean.p;
        n = clean.n;
    }
    r.growth = r.pre.growth = growth_of(n);
    r.growth.stop = r.pre.growth.stop = r.ids.merge.stop = &r.ids.stop;
    ok = ok && (encode(&r, text, n, flags) || (r.first && r.ids.n >= max));
    *n_out = r.ids.n;
    buffer_close(&clean);
    buffer_close(&r.scratch[0]);
    buffer_close(&r.scratch[1]);
    for (size_t i = 0; i < STEPS_MAX; i++)
        buffer_close(&r.pre.scratch[i]);
    merge_close(&r.ids.merge);
    free(r.ids.cuts);
    buffer_close(&r.ids.best);
    if (r.ids.stop.stopped)
        return error_set(e, TERN_CANCELLED, "tokenizing a text was stopped");
    if (r.growth.over || r.pre.growth.over)
        return error_set(e, TERN_LIMIT,
                         "the tokenizer makes more than %zu bytes of a text of %zu bytes",
                         r.growth.limit, n);
    if (r.least)
        return error_set(e, TERN_LIMIT,
                         "a text of %zu bytes has at least %zu tokens, and there is room for %zu",
                         n, r.least, max);
    return ok ? TERN_OK : error_memory(e, "tokenizing a text", n);
}

/* ---- one token ---------------------------------------------------------------------------- */

const char *tokenizer_text(const struct tokenizer *t, int32_t id, size_t *n)
{
    *n = 0;
    if (id < 0 || (uint32_t)id >= t->vocab.n)
        return "";
    return vocab_text(&t->vocab, id, n);
}

bool tokenizer_is_special(const struct tokenizer *t, int32_t id)
{
    return id >= 0 && (uint32_t)id < t->vocab.n && t->special[id];
}

int32_t tokenizer_find(const struct tokenizer *t, const char *content, size_t n, uint32_t *flags)
{
    const char *p = t->added_bytes;
    for (size_t i = 0; i < t->n_added; p += t->added_lengths[i++])
        if (t->added_lengths[i] == n && memcmp(p, content, n) == 0) {
            *flags = t->added_flags[i];
            return (int32_t)t->added_ids[i];
        }
    return -1;
}

uint64_t tokenizer_n_tokens(const struct tokenizer *t)
{
    return t->vocab.n;
}

int32_t tokenizer_bos(const struct tokenizer *t)
{
    return t->bos;
}

int32_t tokenizer_eos(const struct tokenizer *t)
{
    return t->eos;
}
