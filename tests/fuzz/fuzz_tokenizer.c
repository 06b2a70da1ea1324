/* ldflags: -Wl,@tests/support/allocs.ld */
/* Fuzz target: tokenizers. The first byte chooses: even: the rest is a section, which is opened and
 * used on a fixed text; odd: it is a text for one of the test vocabularies (byte / 2 modulo their
 * number), encoded in both modes. Asserted: ids in range; the decoder gives whole UTF-8; where a
 * vocabulary loses nothing, decoding plain ids gives the text back; the memory for a section stays
 * within what allocs_judge allows, also while it is used. */
#include "allocs.h"
#include "text/decoder.h"
#include "text/unicode.h"
#include "vocabulary.h"

#include <assert.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const struct {
    const char *name;
    bool lossless; /* plain ids decode to the repaired text */
} vocabularies[] = {
    {"gpt2", true},          {"llama3", true},    {"qwen2", false},        {"smollm2", true},
    {"added", false},        {"splits", false},   {"hf-llama", false},     {"hf-partial", false},
    {"hf-metaspace", false}, {"spm-trim", false}, {"spm-plain", false},    {"spm-unused", false},
    {"o200k", true},         {"deepseek2", true}, {"deepseek3", true},     {"falcon", true},
    {"uni-map", false},      {"hf-uni", false},   {"hf-uni-bytes", false}, {"llamacpp", true},
    {"hf-words", false},     {"hf-bert", false},  {"hf-scripts", false},
};
enum { N = sizeof vocabularies / sizeof *vocabularies };

/* Encodes and decodes; appends the text to `out`. */
static void go_round(const struct tokenizer *t, const char *text, size_t n, unsigned flags,
                     struct buffer *out)
{
    size_t got, len, one;
    struct decoder *d;
    if (tokenizer_encode(t, text, n, flags, NULL, 0, &got, NULL))
        return;
    int32_t *ids = malloc((got + 1) * sizeof *ids);
    if (!ids || tokenizer_encode(t, text, n, flags, ids, got, &got, NULL) ||
        decoder_open(&d, t, true, NULL)) {
        free(ids);
        return;
    }
    for (size_t i = 0; i <= got; i++) {
        assert(i == got || (ids[i] >= 0 && (uint64_t)ids[i] < tokenizer_n_tokens(t)));
        const char *p = i < got ? decoder_push(d, ids[i], &len) : decoder_finish(d, &len);
        assert(unicode_valid(p, len));
        for (size_t k = 0; k < len; k += one)
            unicode_decode(p + k, len - k, &one);
        if (!buffer_add(out, p, len))
            break;
    }
    decoder_close(d);
    free(ids);
}

static void fuzz_section(const uint8_t *data, size_t size)
{
    static const char text[] = "<s> a<b>  e\xCC\x81\xF0\x9F\x91\xA8\xFF\xE2\x96\x81 it's 12345\r\n";
    void *section = malloc(size + 1); /* aligned, and exact but for one */
    struct tokenizer *t;
    struct buffer out = {0};
    assert(section);
    memcpy(section, data, size);
    allocs_start(0, 0);
    enum tern_status s = tokenizer_open_bytes(&t, section, size, 1 << 20, NULL);
    allocs_judge(size, !s);
    if (!s) {
        go_round(t, text, sizeof text, TERN_ADD_SPECIAL, &out);
        go_round(t, text, sizeof text, TERN_ADD_SPECIAL | TERN_PARSE_SPECIAL, &out);
        allocs_judge(size, 1);
        tokenizer_close(t);
    }
    buffer_close(&out);
    assert(!allocs_live());
    free(section);
}

static void fuzz_text(const uint8_t *data, size_t size, unsigned which)
{
    static struct vocabulary opened[N]; /* kept for the whole run */
    struct vocabulary *v = &opened[which];
    struct buffer plain = {0}, parse = {0}, clean = {0};
    if (!v->t)
        vocabulary_open(v, vocabularies[which].name);
    go_round(v->t, (const char *)data, size, 0, &plain);
    go_round(v->t, (const char *)data, size, TERN_PARSE_SPECIAL, &parse);
    if (vocabularies[which].lossless && unicode_repair(&clean, (const char *)data, size))
        assert(plain.n == clean.n && (!plain.n || memcmp(plain.p, clean.p, plain.n) == 0));
    buffer_close(&plain);
    buffer_close(&parse);
    buffer_close(&clean);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0)
        return 0;
    if (data[0] % 2)
        fuzz_text(data + 1, size - 1, data[0] / 2 % N);
    else
        fuzz_section(data + 1, size - 1);
    return 0;
}
