/* ldflags: -Wl,@tests/support/allocs.ld */
/* Fuzzes files of prefixes, of a small model with two types of cache and of one with recurrent layers.
 * The first byte of an input chooses the context. The second, with 1 as its lowest bit, says that the rest
 * is a file as it is; else the rest is the pages of one: their numbers, tokens and positions of states. The
 * target adds what would hide the rest: a header, the bytes of keys, values and states (zeros), and the
 * checksums. Asserted: after a refusal the store is empty; what is accepted has no more than it may hold,
 * is found again, goes on, and comes back byte for byte from a save; the memory stays within what
 * allocs_judge allows. */
#include "allocs.h"
#include "golden.h"
#include "toy.h"

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

enum { LARGEST = 1 << 20, POSITIONS = 600, N_CONTEXTS = 3, PAGE = 256, VOCAB = 40 };
/* Of the header (FORMAT.md) */
enum { N_PAGES = 72, STATE_BYTES = 88, N_CLASSES = 96, CLASSES = 104, HEADER_MOST = 512 };
enum { PARENT, TOKENS, ROWS_FROM, HELD, STATES, N_FIELDS };

struct subject {
    tern_model *model;
    tern_context *ctx;
    unsigned char header[HEADER_MOST];
    size_t n_header;
};

static struct subject subjects[N_CONTEXTS];
static int given = -1, saved[2] = {-1, -1};
static unsigned char file[LARGEST], again[LARGEST];

static void must(int good, const char *what)
{
    if (good)
        return;
    fprintf(stderr, "%s\n", what);
    abort();
}

static void leave(void)
{
    for (int i = 0; i < N_CONTEXTS; i++) {
        tern_context_close(subjects[i].ctx);
        tern_model_close(subjects[i].model);
    }
}

/* ---- what is fuzzed ------------------------------------------------------------------------- */

static int open_file(const char *name)
{
    char path[256];
    toy_path(path, sizeof path, name);
    int fd = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);
    must(fd >= 0 && !unlink(path), "no file");
    return fd;
}

static size_t save(tern_context *c, int fd, unsigned char *bytes)
{
    struct tern_error e;
    must(!ftruncate(fd, 0), "cannot truncate");
    must(!tern_prefix_save(c, fd, &e), e.text);
    ssize_t n = pread(fd, bytes, LARGEST, 0);
    must(n > 0 && n < LARGEST, "cannot read");
    return (size_t)n;
}

/* store: bytes, for some six pages */
static void open_one(struct subject *s, const char *path, enum tern_cache_type type, uint64_t store)
{
    struct tern_context_params p = {
        .n_ctx = POSITIONS, .n_batch = 4, .cache_type = type, .prefix_bytes = store};
    struct tern_error e;
    must(!tern_model_open(&s->model, path, &(struct tern_model_params){.n_threads = 1}, &e), e.text);
    must(!tern_context_open(&s->ctx, s->model, &p, &e), e.text);
    s->n_header = save(s->ctx, saved[0], file);
    must(s->n_header <= HEADER_MOST, "the header is too long");
    memcpy(s->header, file, s->n_header);
}

/* Two layers, one of them with a window, so that a page has two parts; attention and short
 * convolutions. */
static void open_all(void)
{
    static struct golden g;
    struct toy toy = toy_default();
    struct tern_error e;
    char path[256];
    given = open_file("fuzz.prefixes");
    saved[0] = open_file("saved.prefixes");
    saved[1] = open_file("again.prefixes");
    toy.dim = 32, toy.n_heads = 1, toy.n_kv_heads = 1, toy.head_dim = 2, toy.hidden = 16;
    toy.vocab = VOCAB, toy.max_seq = POSITIONS, toy.window[1] = 20;
    toy_path(path, sizeof path, "prefix-model.bin");
    must(!toy_write(path, &toy, &e), "no toy");
    open_one(&subjects[0], path, TERN_CACHE_F16, 32 << 10);
    open_one(&subjects[1], path, TERN_CACHE_Q8, 224 << 10);
    unlink(path);
    golden_read(&g, "lfm2");
    golden_write(path, sizeof path, &g, TERN_F32);
    golden_close(&g);
    open_one(&subjects[2], path, TERN_CACHE_F32, 512 << 10);
    unlink(path);
    atexit(leave);
}

/* ---- a file of an input --------------------------------------------------------------------- */

struct writer {
    const uint8_t *from; /* [left] of the input */
    size_t left, n;      /* n: bytes of the file */
};

/* The next n bytes of the input, zeros behind its end. False: the file is full. */
static bool copy(struct writer *w, void *to, size_t n)
{
    size_t here = n < w->left ? n : w->left;
    if (n > LARGEST - 1 - w->n)
        return false;
    memset(file + w->n, 0, n);
    memcpy(file + w->n, w->from, here);
    if (to)
        memcpy(to, file + w->n, n);
    w->from += here, w->left -= here, w->n += n;
    return true;
}

static bool add_zeros(struct writer *w, uint64_t n)
{
    if (n > LARGEST - 1 - w->n)
        return false;
    memset(file + w->n, 0, (size_t)n);
    w->n += (size_t)n;
    return true;
}

static bool add_page(const struct subject *s, struct writer *w)
{
    uint64_t f[N_FIELDS], n_classes = load_u64(s->header + N_CLASSES);
    size_t begin = w->n;
    if (!copy(w, f, sizeof f) || !copy(w, NULL, sizeof(tern_token) * (size_t)(f[TOKENS] % (PAGE + 2))) ||
        !copy(w, NULL, 16 * (size_t)(f[STATES] % (PAGE + 2))))
        return false;
    for (uint64_t i = 0; i < n_classes; i++)
        if (f[HELD] >> i & 1 && !add_zeros(w, load_u64(s->header + CLASSES + 16 * i + 8)))
            return false;
    if (!add_zeros(w, f[STATES] % (PAGE + 2) * load_u64(s->header + STATE_BYTES)) || !add_zeros(w, 8))
        return false;
    uint64_t sum = xxh64(file + begin, w->n - 8 - begin);
    memcpy(file + w->n - 8, &sum, sizeof sum);
    return true;
}

/* `more` pages than there are is what the header states. */
static size_t make_file(const struct subject *s, const uint8_t *data, size_t size, int more)
{
    struct writer w = {data, size, s->n_header};
    uint64_t n_pages = 0;
    memcpy(file, s->header, s->n_header);
    for (size_t end = w.n; w.left; end = w.n, n_pages++)
        if (!add_page(s, &w)) {
            w.n = end;
            break;
        }
    n_pages += (uint64_t)(int64_t)more;
    uint64_t bytes = w.n;
    memcpy(file + N_PAGES, &n_pages, sizeof n_pages);
    memcpy(file + LAYOUT_FILE_BYTES, &bytes, sizeof bytes);
    uint64_t sum = layout_header_checksum(file, s->n_header);
    memcpy(file + LAYOUT_CHECKSUM, &sum, sizeof sum);
    return w.n;
}

/* ---- what must hold ------------------------------------------------------------------------- */

/* The first text of the store, if it is the first page of one, with a token more */
static void must_go_on(const struct subject *s)
{
    tern_context *c = s->ctx;
    tern_token tokens[PAGE + 1] = {0};
    uint64_t f[N_FIELDS];
    struct tern_model_info info;
    struct tern_error e;
    size_t n = save(c, saved[0], file);
    if (n <= s->n_header)
        return;
    memcpy(f, file + s->n_header, sizeof f);
    must(f[TOKENS] && f[TOKENS] <= PAGE, "a page without tokens");
    memcpy(tokens, file + s->n_header + sizeof f, (size_t)f[TOKENS] * sizeof *tokens);
    tern_model_info(s->model, &info);
    for (uint64_t i = 0; i < f[TOKENS]; i++)
        must(tokens[i] >= 0 && (uint64_t)tokens[i] < info.vocab, "a token is outside the vocabulary");
    uint32_t reach = tern_prefix_reach(c, tokens, (size_t)f[TOKENS] + 1);
    must(reach <= f[TOKENS], "more is found than was asked for");
    must(tern_prefix_find(c, 0, tokens, (size_t)f[TOKENS] + 1) == reach, "find is not reach");
    must(tern_seq_length(c, 0) == reach, "a sequence has another length");
    must(!tern_batch_add(c, 0, 1, TERN_ROW_LOGITS, &e), e.text);
    tern_forward(c);
    tern_prefix_keep(c, 0);
    tern_seq_keep(c, 0, 0);
}

static void must_come_back(tern_context *c)
{
    struct tern_error e;
    size_t n = save(c, saved[0], file);
    must(!tern_prefix_load(c, saved[0], &e), "what was saved is refused");
    must(save(c, saved[1], again) == n && !memcmp(file, again, n), "another store came back");
}

static void load(const struct subject *s, size_t n)
{
    struct tern_prefix_info info;
    struct tern_error e = {TERN_OK, ""};
    must(!ftruncate(given, 0) && pwrite(given, file, n, 0) == (ssize_t)n, "cannot write");
    allocs_start(0, 0);
    enum tern_status status = tern_prefix_load(s->ctx, given, &e);
    allocs_judge(n, !status);
    must(!allocs_live(), "memory is left behind");
    tern_prefix_info(s->ctx, &info);
    must(info.bytes <= info.max_bytes, "the store holds more than it may");
    if (status) {
        must(e.code == status && e.text[0] && status == TERN_BAD_FILE, "no sentence");
        must(!info.n_pages && !info.n_tokens && !info.bytes, "a refused file left something");
        return;
    }
    must(info.n_tokens <= info.n_pages * PAGE && info.n_tokens >= info.n_pages, "wrong numbers");
    must_come_back(s->ctx);
    must_go_on(s);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (given < 0)
        open_all();
    if (size < 2)
        return 0;
    const struct subject *s = &subjects[data[0] % N_CONTEXTS];
    size_t n = size - 2 < LARGEST ? size - 2 : LARGEST;
    if (data[1] & 1)
        memcpy(file, data + 2, n);
    else
        n = make_file(s, data + 2, n, (int8_t)data[1] / 2);
    load(s, n);
    return 0;
}
