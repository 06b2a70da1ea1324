/* ldflags: -Wl,@tests/support/allocs.ld */
/* Fuzzes session files: any bytes, with the checksums repaired so that they hide nothing, are
 * loaded in the place of a sequence, of a small model with each type of cache and of one with
 * recurrent layers. Asserted: after a refusal the sequence is as
 * it was; what is accepted has tokens of the vocabulary, goes on, and comes back byte for byte from
 * a save; the memory stays within what allocs_judge allows. An input is the beginning of a file:
 * what its header states beyond (up to 128 KiB) is zeros. */
#include "allocs.h"
#include "golden.h"
#include "image.h"

#include "base/bytes.h"
#include "base/xxh64.h"
#include "tern.h"
#include "weights/file_layout.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { LARGEST = 128 << 10, POSITIONS = 600, N_TYPES = 3, N_HELD = 3, FIELDS = 64, VOCAB = 40 };

static char given[256], saved[2][256];
static tern_model *model, *recurrent;
static tern_context *contexts[N_TYPES + 1]; /* the last: of the recurrent model */
static const tern_token held[N_HELD] = {1, 2, 3};

static void leave(void)
{
    for (int i = 0; i <= N_TYPES; i++)
        tern_context_close(contexts[i]);
    tern_model_close(model);
    tern_model_close(recurrent);
    unlink(given);
    unlink(saved[0]);
    unlink(saved[1]);
}

static void must(int good, const char *what)
{
    if (good)
        return;
    fprintf(stderr, "%s\n", what);
    abort();
}

/* The sequence that a load replaces. */
static void hold(tern_context *c)
{
    tern_seq_keep(c, 0, 0);
    for (int i = 0; i < N_HELD; i++)
        must(!tern_batch_add(c, 0, held[i], 0, NULL), "no batch");
    tern_forward(c);
}

/* Attention and short convolutions */
static void open_recurrent(void)
{
    static struct golden g;
    struct tern_context_params p = {.n_ctx = POSITIONS, .n_batch = 4};
    struct tern_error e;
    char path[256];
    golden_read(&g, "lfm2");
    golden_write(path, sizeof path, &g, TERN_F32);
    golden_close(&g);
    must(!tern_model_open(&recurrent, path, &(struct tern_model_params){.n_threads = 1}, &e),
         e.text);
    unlink(path);
    must(!tern_context_open(&contexts[N_TYPES], recurrent, &p, &e), e.text);
    hold(contexts[N_TYPES]);
}

/* Two layers, one of them with a window, so that their first blocks differ. */
static void open_all(void)
{
    struct toy toy = toy_default();
    struct tern_error e;
    char path[256];
    toy.dim = 32, toy.n_heads = 1, toy.n_kv_heads = 1, toy.head_dim = 2, toy.hidden = 16;
    toy.vocab = VOCAB, toy.max_seq = POSITIONS, toy.window[1] = 20;
    toy_path(path, sizeof path, "session-model.bin");
    toy_path(given, sizeof given, "fuzz.session");
    toy_path(saved[0], sizeof saved[0], "saved.session");
    toy_path(saved[1], sizeof saved[1], "again.session");
    must(!toy_write(path, &toy, &e), "no toy");
    must(!tern_model_open(&model, path, &(struct tern_model_params){.n_threads = 1}, &e), e.text);
    unlink(path);
    for (int i = 0; i < N_TYPES; i++) {
        struct tern_context_params p = {
            .n_ctx = POSITIONS, .n_batch = 4, .cache_type = (enum tern_cache_type)i};
        must(!tern_context_open(&contexts[i], model, &p, &e), e.text);
        hold(contexts[i]);
    }
    open_recurrent();
    atexit(leave);
}

/* The directory, with its one entry, ends the header of a session. */
static void repair(unsigned char *p, size_t n)
{
    uint64_t header = n < LAYOUT_START_BYTES ? 0 : load_u64(p + LAYOUT_HEADER_BYTES);
    if (header >= LAYOUT_START_BYTES + FIELDS && header <= n) {
        unsigned char *fields = p + header - FIELDS;
        uint64_t at = load_u64(fields + 40), bytes = load_u64(fields + 48);
        uint64_t sum = at <= n && bytes <= n - at ? xxh64(p + at, (size_t)bytes) : 0;
        memcpy(fields + 56, &sum, sizeof sum);
    }
    image_repair(p, n);
}

/* The file that the input stands for; its size. */
static size_t write_file(const uint8_t *data, size_t size)
{
    static unsigned char bytes[LARGEST];
    static int fd = -1;
    size_t n = size < LARGEST ? size : LARGEST, end = n;
    if (fd < 0)
        fd = open(given, O_RDWR | O_CREAT | O_TRUNC, 0600);
    memcpy(bytes, data, n);
    if (n >= LAYOUT_START_BYTES && load_u64(bytes + LAYOUT_FILE_BYTES) <= LARGEST &&
        load_u64(bytes + LAYOUT_FILE_BYTES) > n)
        end = (size_t)load_u64(bytes + LAYOUT_FILE_BYTES);
    memset(bytes + n, 0, end - n);
    repair(bytes, end);
    must(!ftruncate(fd, 0) && pwrite(fd, bytes, end, 0) == (ssize_t)end, "cannot write");
    return end;
}

static size_t read_file(const char *path, unsigned char *bytes)
{
    int fd = open(path, O_RDONLY);
    ssize_t n = read(fd, bytes, LARGEST);
    close(fd);
    must(fd >= 0 && n > 0, "cannot read");
    return (size_t)n;
}

static void must_come_back(tern_context *c)
{
    static unsigned char a[LARGEST], b[LARGEST];
    struct tern_error e;
    must(!tern_session_save(c, 0, saved[0], &e), e.text);
    must(!tern_session_load(c, 0, saved[0], &e), e.text);
    must(!tern_session_save(c, 0, saved[1], &e), e.text);
    size_t n = read_file(saved[0], a);
    must(read_file(saved[1], b) == n && !memcmp(a, b, n), "another session came back");
}

static void load(tern_context *c, tern_token vocab, size_t file_bytes)
{
    struct tern_error e = {TERN_OK, ""};
    allocs_start(0, 0);
    enum tern_status s = tern_session_load(c, 0, given, &e);
    const tern_token *tokens = tern_seq_tokens(c, 0);
    uint32_t n = tern_seq_length(c, 0);
    allocs_judge(file_bytes, !s);
    must(!allocs_live(), "memory is left behind");
    if (s) {
        must(e.code == s && e.text[0] && (s == TERN_BAD_FILE || s == TERN_LIMIT), "no sentence");
        must(n == N_HELD && !memcmp(tokens, held, sizeof held), "a refused file changed the text");
        return;
    }
    must(n && n <= POSITIONS, "too many tokens");
    for (uint32_t i = 0; i < n; i++)
        must(tokens[i] >= 0 && tokens[i] < vocab, "a token is outside the vocabulary");
    must_come_back(c);
    if (n < POSITIONS) {
        must(!tern_batch_add(c, 0, 1, TERN_ROW_LOGITS, &e), e.text);
        tern_forward(c);
    }
    hold(c);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (!model)
        open_all();
    size_t n = write_file(data, size);
    struct tern_model_info info;
    tern_model_info(recurrent, &info);
    for (int i = 0; i <= N_TYPES; i++)
        load(contexts[i], i < N_TYPES ? VOCAB : (tern_token)info.vocab, n);
    return 0;
}
