/* ldflags: -Wl,@tests/support/allocs.ld */
/* Fuzzes whole weights files: any bytes, with the checksums repaired so that they hide nothing, are
 * opened as a model; what opens is checked and evaluated. The memory for it stays within
 * what allocs_judge allows, and none is left behind. An input is the beginning of a file: what its
 * header states beyond (up to 256 KiB) is zeros. */
#include "allocs.h"
#include "image.h"

#include "base/bytes.h"
#include "weights/file_layout.h"
#include "model/model.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { LARGEST = 256 << 10, POSITIONS = 8 };

static char path[256];

static void leave(void)
{
    unlink(path);
}

/* The file that the input stands for, under `path`; its size. */
static size_t write_file(const uint8_t *data, size_t size)
{
    static unsigned char bytes[LARGEST];
    static int fd = -1;
    size_t n = size < LARGEST ? size : LARGEST, end = n;
    if (fd < 0) {
        toy_path(path, sizeof path, "fuzz.bin");
        fd = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);
        atexit(leave);
    }
    memcpy(bytes, data, n);
    if (n >= LAYOUT_START_BYTES && load_u64(bytes + LAYOUT_FILE_BYTES) <= LARGEST &&
        load_u64(bytes + LAYOUT_FILE_BYTES) > n)
        end = (size_t)load_u64(bytes + LAYOUT_FILE_BYTES);
    memset(bytes + n, 0, end - n);
    image_repair(bytes, end);
    if (ftruncate(fd, 0) || pwrite(fd, bytes, end, 0) != (ssize_t)end)
        abort();
    return end;
}

/* Checks what every refusal must be, and the memory taken, also for a header that was accepted. */
static void judge(enum tern_status s, const struct tern_error *e, size_t file_bytes,
                  const uint8_t *data)
{
    if (s && (e->code != s || !e->text[0] || (s != TERN_BAD_FILE && s != TERN_LIMIT)))
        abort();
    allocs_judge(s ? file_bytes : (size_t)load_u64(data + LAYOUT_HEADER_BYTES), !s);
}

/* Also with guesses, where the file has a layer for them */
static void generate(tern_context *ctx)
{
    static const tern_token one[] = {0};
    struct tern_generate_params p = tern_generate_defaults();
    struct tern_error e;
    p.tokens = one, p.n_tokens = 1, p.n_predict = POSITIONS - 2, p.ignore_end = 1, p.mtp = 2;
    tern_seq_keep(ctx, 0, 0);
    tern_generate(ctx, &p, NULL, &e);
}

static void evaluate(tern_model *m, bool guesses)
{
    const struct tern_context_params p = {.n_ctx = POSITIONS, .n_batch = POSITIONS};
    struct tern_model_info info;
    struct tern_error e;
    tern_context *ctx;
    tern_model_info(m, &info);
    tern_model_check(m, &e);
    if (tern_context_open(&ctx, m, &p, &e))
        return;
    for (uint64_t i = 0; i < POSITIONS; i++)
        tern_batch_add(ctx, 0, (tern_token)(i % info.vocab), TERN_ROW_LOGITS, &e);
    tern_forward(ctx);
    if (!tern_numeric_status(ctx, &e) && guesses)
        generate(ctx);
    tern_context_close(ctx);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct tern_model_params p = {.n_threads = 1};
    struct tern_error e = {TERN_OK, ""};
    struct model *bound;
    tern_model *m = NULL;
    size_t n = write_file(data, size);
    allocs_start(0, 0);
    enum tern_status s = model_open(&bound, path, &e); /* quick; the rest only for good files */
    judge(s, &e, n, data);
    p.load = !s && bound->has_mtp ? TERN_LOAD_MTP : 0;
    model_close(bound);
    if (!s) {
        s = tern_model_open(&m, path, &p, &e);
        judge(s, &e, n, data);
    }
    if (!s)
        evaluate(m, p.load != 0);
    tern_model_close(m);
    if (allocs_live())
        abort();
    return 0;
}
