/* ldflags: -Wl,@tests/support/allocs.ld */
/* The reader of the weights file: what it gives of good files, what it says of damaged ones (whole
 * families of damage; test_malformed.c has the single kinds), and what it does without memory. */
#include "allocs.h"
#include "image.h"

#include "base/bytes.h"
#include "weights/checksums.h"
#include "weights/keywriter.h"
#include "base/xxh64.h"
#include "kernels/formats.h"
#include "model/model.h"
#include "weights/writer.h"
#include "suite.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

static char path[256];
static struct tern_error e;
static struct image base; /* a small q8 model */

static void setup(void)
{
    struct toy t = toy_default();
    t.n_layers = 1, t.dim = 32, t.n_heads = 2, t.n_kv_heads = 1, t.head_dim = 16;
    t.hidden = 48, t.vocab = 40, t.max_seq = 16, t.type = TERN_Q8;
    toy_path(path, sizeof path, "weights.bin");
    base = image_of(&t);
    e = (struct tern_error){TERN_OK, ""};
}

static void teardown(void)
{
    unlink(path);
    image_close(&base);
}

static struct weights *open_toy(const struct toy *t)
{
    struct weights *w;
    ck_assert_msg(!toy_write(path, t, &e), "%s", e.text);
    e = (struct tern_error){TERN_OK, ""}; /* which success leaves alone */
    ck_assert_msg(!weights_open(&w, path, &e), "%s", e.text);
    ck_assert(!e.code && !e.text[0]);
    return w;
}

static void expect(enum tern_status got, enum tern_status status, const char *text)
{
    ck_assert_msg(got == status && e.code == status, "status %d: %s", got, e.text);
    ck_assert_msg(strstr(e.text, text), "'%s' lacks '%s'", e.text, text);
}

/* ---- good files ---- */

/* XXH64 of the whole file of toy_default() by type; tests/convert/test_toyfile.py holds the Python
 * twin to the same. */
static const uint64_t file_hashes[N_TYPES] = {0x55e0421481a0eb1c, 0x423d9895bf1d1807,
                                              0xe50ca63ef8415cef, 0x40e4d3a1ce595178,
                                              0xf952a1923b4eb99c, 0x64ca6546cf4f609d};

START_TEST(toys_of_every_type)
{
    struct toy t = toy_default();
    t.type = (enum tern_type)_i;
    struct weights *w = open_toy(&t);
    struct stat st;
    size_t bytes;
    const void *start;
    ck_assert_uint_eq(weights_count(w), 20);
    ck_assert_int_eq(stat(path, &st), 0);
    ck_assert_uint_eq(weights_file_bytes(w), (uint64_t)st.st_size);
    ck_assert_str_eq(weights_path(w), path);
    ck_assert_int_eq(checksums_verify(w, NULL, NULL, &e), TERN_OK);
    weights_mapping(w, &start, &bytes);
    ck_assert_uint_eq(xxh64(start, bytes), file_hashes[_i]);
    for (size_t i = 0; i < weights_count(w); i++) {
        const struct tensor *x = weights_at(w, i);
        ck_assert_ptr_eq(weights_find(w, x->name), x);
        ck_assert_uint_eq((uintptr_t)x->data % 64, 0);
        ck_assert_ptr_eq(x->data, (const char *)start + x->offset);
        ck_assert_uint_le(x->offset + x->bytes, bytes);
    }
    ck_assert_ptr_null(weights_find(w, "layer.2.q"));
    ck_assert_ptr_null(weights_find(w, ""));
    weights_close(w);
}
END_TEST

START_TEST(tensors_hold_the_toys_values)
{
    struct toy t = toy_default();
    struct weights *w = open_toy(&t);
    const struct tensor *x;
    float want[160 * 64], got[64];
    ck_assert_int_eq(weights_bind(w, "layer.1.gate", 1 << TERN_F32, 160, 64, 1, &x, &e), TERN_OK);
    toy_values(want, 160 * 64, t.seed, "layer.1.gate", 64);
    for (size_t r = 0; r < 160; r++) {
        format_decode_row(format_find(x->type), got, x->data, r, 64);
        ck_assert_int_eq(memcmp(got, want + 64 * r, sizeof got), 0);
    }
    weights_close(w);
}
END_TEST

START_TEST(sections_and_config)
{
    struct toy t = toy_default();
    t.tokenizer = "any bytes", t.tokenizer_bytes = 9;
    struct weights *w = open_toy(&t);
    static const char *const tags[] = {"config", "tensors", "tokenizer", "provenance", "seal"};
    ck_assert_uint_eq(weights_n_sections(w), 5);
    for (size_t i = 0; i < 5; i++) {
        const struct section *s = weights_section_at(w, i);
        ck_assert_str_eq(s->tag, tags[i]);
        ck_assert_int_eq(s->critical, i < 3);
        ck_assert_uint_eq((uintptr_t)s->data % 8, 0);
    }
    size_t n = 0;
    const void *body = weights_section(w, "tokenizer", &n);
    ck_assert(n == 9 && !memcmp(body, "any bytes", 9));
    ck_assert_ptr_null(weights_section(w, "vectors", &n));
    uint64_t dim = 0;
    ck_assert(!keys_u64(weights_config(w), "dim", &dim, &e) && dim == 64);
    weights_close(w);
}
END_TEST

START_TEST(binding_names_what_is_wrong)
{
    struct toy t = toy_default();
    t.type = TERN_Q8;
    struct weights *w = open_toy(&t);
    const struct tensor *x;
    const unsigned any = (1 << N_TYPES) - 1;
    expect(weights_bind(w, "layer.0.x", any, 64, 64, 1, &x, &e), TERN_BAD_FILE,
           "tensor 'layer.0.x' [64, 64] is missing");
    expect(weights_bind(w, "layer.0.k", any, 64, 64, 1, &x, &e), TERN_BAD_FILE,
           "tensor 'layer.0.k' is [32, 64], the config wants [64, 64]");
    expect(weights_bind(w, "layer.0.k", 1 << TERN_F32 | 1 << TERN_F16, 32, 64, 1, &x, &e),
           TERN_BAD_FILE, "tensor 'layer.0.k' is q8, want f32 or f16");
    for (size_t i = 0; i < weights_count(w); i++) {
        const struct tensor *y = weights_at(w, i);
        expect(weights_all_bound(w, &e), TERN_BAD_FILE, y->name);
        ck_assert_int_eq(weights_bind(w, y->name, any, y->rows, y->k, 1, &x, &e), TERN_OK);
        ck_assert_ptr_eq(x, y);
    }
    ck_assert_int_eq(weights_all_bound(w, &e), TERN_OK);
    weights_close(w);
}
END_TEST

START_TEST(several_matrices_are_not_one)
{
    static const unsigned char zeros[2 * 288];
    struct keywriter k;
    struct writer *w;
    struct weights *r;
    const struct tensor *x;
    keywriter_init(&k);
    ck_assert(!writer_open(&w, path, &e) &&
              !writer_section(w, "config", true, k.data, k.bytes, &e) &&
              !writer_tensor(w, "x", TERN_Q4, 16, 32, 2, &e) &&
              !writer_data(w, zeros, sizeof zeros, &e) && !writer_finish(w, &e));
    writer_close(w);
    keywriter_close(&k);
    ck_assert_int_eq(weights_open(&r, path, &e), TERN_OK);
    expect(weights_bind(r, "x", 1 << TERN_Q4, 16, 32, 1, &x, &e), TERN_BAD_FILE,
           "tensor 'x' is [2, 16, 32], the config wants [16, 32]");
    weights_close(r);
}
END_TEST

/* ---- the worked example of FORMAT.md ---- */

static unsigned hex(const char *s)
{
    return (unsigned)strtoul(s, NULL, 16);
}

/* Lines "OFFSET  BYTE BYTE ...  note" of the last code block; the offset of the last is the size.
 */
static size_t read_example(unsigned char *bytes, size_t room)
{
    FILE *f = fopen("src/weights/FORMAT.md", "r");
    char line[512];
    bool inside = false;
    size_t size = 0;
    ck_assert_msg(f, "run in the root of the repository");
    while (fgets(line, sizeof line, f) && strncmp(line, "## Worked example", 17))
        continue;
    while (fgets(line, sizeof line, f)) {
        if (!strncmp(line, "```", 3)) {
            inside = !inside;
            continue;
        }
        if (!inside)
            continue;
        size = hex(line);
        for (const char *p = line + 6; p < line + 53 && p[0] > ' ' && p[2] <= ' '; p += 3)
            if (strncmp(p, "end", 3)) {
                ck_assert_uint_lt(size, room);
                bytes[size++] = (unsigned char)hex(p);
            }
    }
    fclose(f);
    return size;
}

static void write_example(void)
{
    static const float embed[6] = {1, -2, 0.5f, 0.25f, 0, 127}, norm[3] = {1, 1.5f, -0.5f};
    unsigned char data[544];
    struct writer *w;
    struct keywriter k;
    keywriter_init(&k);
    keywriter_u64(&k, "dim", 3);
    ck_assert(!writer_open(&w, path, &e) &&
              !writer_section(w, "config", true, k.data, k.bytes, &e) &&
              !writer_tensor(w, "embed", TERN_Q8, 2, 3, 1, &e) &&
              !writer_tensor(w, "final_norm", TERN_F32, 3, 1, 1, &e));
    format_encode_matrix(format_find(TERN_Q8), data, embed, 2, 3);
    ck_assert(!writer_data(w, data, 100, &e) && !writer_data(w, data + 100, 444, &e));
    format_encode_matrix(format_find(TERN_F32), data, norm, 3, 1);
    ck_assert(!writer_data(w, data, 64, &e) && !writer_finish(w, &e));
    writer_close(w);
    keywriter_close(&k);
}

START_TEST(the_example_of_the_document)
{
    unsigned char bytes[8192] = {0}, written[8192];
    struct image i = {bytes, read_example(bytes, sizeof bytes)};
    struct weights *w;
    const struct tensor *x;
    uint64_t dim = 0;
    float row[3];
    ck_assert_uint_eq(i.n, 4736);
    image_save(&i, path);
    ck_assert_msg(!weights_open(&w, path, &e), "%s", e.text);
    ck_assert_int_eq(checksums_verify(w, NULL, NULL, &e), TERN_OK);
    ck_assert(!keys_u64(weights_config(w), "dim", &dim, &e) && dim == 3);
    ck_assert(!weights_bind(w, "embed", 1 << TERN_Q8, 2, 3, 1, &x, &e));
    format_decode_row(format_find(TERN_Q8), row, x->data, 0, 3);
    const float scale = f16_to_f32(0x2408);
    ck_assert(row[0] == 64 * scale && row[1] == -127 * scale && row[2] == 32 * scale);
    format_decode_row(format_find(TERN_Q8), row, x->data, 1, 3);
    ck_assert(row[0] == 0 && row[1] == 0 && row[2] == 127);
    ck_assert(!weights_bind(w, "final_norm", 1 << TERN_F32, 3, 1, 1, &x, &e));
    const float *norm = x->data;
    ck_assert(norm[0] == 1 && norm[1] == 1.5f && norm[2] == -0.5f && norm[3] == 0);
    weights_close(w);
    write_example();
    FILE *f = fopen(path, "rb");
    ck_assert_uint_eq(fread(written, 1, sizeof written, f), i.n);
    fclose(f);
    ck_assert_int_eq(memcmp(written, bytes, i.n), 0);
}
END_TEST

/* ---- damaged files ---- */

START_TEST(cut_at_every_byte)
{
    struct weights *w;
    image_save(&base, path);
    for (size_t n = base.n; n-- > 0;) {
        if (truncate(path, (off_t)n))
            ck_abort_msg("cannot truncate %s", path);
        allocs_start(0, 0);
        enum tern_status s = weights_open(&w, path, &e);
        const char *said = n >= 64 ? "belong to it" : n ? "not even a start of 64" : "it is empty";
        if (s != TERN_BAD_FILE || !strstr(e.text, said) || allocs_live() || allocs_peak() > 4096)
            ck_abort_msg("%zu bytes: %d %s, heap %zu", n, s, e.text, allocs_peak());
    }
}
END_TEST

START_TEST(bytes_after_the_end)
{
    struct weights *w;
    char text[80];
    image_save(&base, path);
    for (size_t n = 1; n <= 4096; n++) {
        ck_assert_int_eq(truncate(path, (off_t)(base.n + n)), 0);
        snprintf(text, sizeof text, "%zu bytes follow its end, at byte %zu", n, base.n);
        expect(weights_open(&w, path, &e), TERN_BAD_FILE, text);
    }
}
END_TEST

START_TEST(more_sections_than_allowed)
{
    struct toy t = toy_default();
    char body[4000] = "room for a long table";
    t.tokenizer = body, t.tokenizer_bytes = sizeof body;
    struct image i = image_of(&t);
    struct weights *w;
    i.p[48] = 65;
    image_repair(i.p, i.n);
    image_save(&i, path);
    expect(weights_open(&w, path, &e), TERN_BAD_FILE, "cannot hold 65 sections");
    image_close(&i);
}
END_TEST

/* Every byte of the header set to other values, checksums repaired: refused as a bad file, or a
 * model like any other (its numbers are used by test_engine). */
static void flip_bytes(bool repair, size_t *opened)
{
    size_t header = (size_t)load_u64(base.p + 16);
    for (size_t at = 0; at < header; at++)
        for (int n = 0; n < 10; n++) {
            struct image i = image_copy(&base);
            struct model *m;
            i.p[at] = n < 8 ? (unsigned char)(i.p[at] ^ 1 << n) : n == 8 ? 0 : 0xff;
            if (repair)
                image_repair(i.p, i.n);
            bool same = !memcmp(i.p, base.p, i.n);
            FILE *f = fopen(path, "r+b"); /* in place: only the header changes */
            if (!f || fwrite(i.p, 1, header, f) != header || fclose(f))
                ck_abort_msg("cannot write %s", path);
            image_close(&i);
            allocs_start(0, 0);
            enum tern_status s = model_open(&m, path, &e);
            *opened += s == TERN_OK && !same;
            bool small = allocs_peak() <= 4 * base.n + (2 << 20);
            model_close(m);
            if (!small || allocs_live() || (s && (s != TERN_BAD_FILE || !e.text[0])))
                ck_abort_msg("byte %zu: %d %s, small %d, %zu blocks left", at, s, e.text, small,
                             allocs_live());
        }
}

START_TEST(every_header_byte_changed)
{
    size_t opened = 0;
    image_save(&base, path);
    flip_bytes(false, &opened);
    ck_assert_uint_eq(opened, 0);
}
END_TEST

START_TEST(every_header_byte_changed_and_repaired)
{
    size_t opened = 0;
    image_save(&base, path);
    flip_bytes(true, &opened);
    ck_assert_uint_gt(opened, 0);
}
END_TEST

static int stop_at_once(void *arg, uint64_t done, uint64_t total)
{
    ++*(int *)arg;
    return done <= total;
}

static void expect_check(size_t at, const char *text)
{
    struct weights *w;
    struct image i = image_copy(&base);
    i.p[at] ^= 0x40;
    image_save(&i, path);
    ck_assert_int_eq(weights_open(&w, path, &e), TERN_OK);
    expect(checksums_verify(w, NULL, NULL, &e), TERN_BAD_FILE, text);
    weights_close(w);
    image_close(&i);
}

START_TEST(damaged_tensors)
{
    struct weights *w;
    int calls = 0;
    image_save(&base, path);
    ck_assert_int_eq(weights_open(&w, path, &e), TERN_OK);
    const struct tensor *embed = weights_at(w, 0), *norm = weights_at(w, 1);
    ck_assert_uint_eq(embed->offset, 4096);
    ck_assert_uint_eq(norm->offset, embed->offset + embed->bytes + 32);
    size_t after = (size_t)(embed->offset + embed->bytes), last = base.n - 1;
    expect(checksums_verify(w, stop_at_once, &calls, &e), TERN_CANCELLED, "stopped");
    ck_assert_int_eq(calls, 1);
    weights_close(w);
    expect_check(4096, "the bytes of tensor 'embed' do not have the checksum");
    expect_check(after - 1, "the bytes of tensor 'embed' do not have the checksum");
    expect_check(last, "the bytes of tensor 'final_norm' do not have the checksum");
    expect_check(after, "between two tensors, is not zero");
    expect_check(4095, "byte 4095, between two tensors, is not zero");
    expect_check((size_t)load_u64(base.p + 16), "between two tensors, is not zero");
}
END_TEST

START_TEST(not_a_file)
{
    struct weights *w;
    char long_path[600];
    expect(weights_open(&w, path, &e), TERN_IO, "cannot open: No such file");
    ck_assert_ptr_null(w);
    expect(weights_open(&w, "qwen/Qwen3-0.6B", &e), TERN_IO,
           "qwen/Qwen3-0.6B: there is no such file; if it is the name of a model on Hugging Face");
    expect(weights_open(&w, "models/story.bin", &e), TERN_IO, "cannot open: No such file");
    expect(weights_open(&w, "/", &e), TERN_BAD_FILE,
           "it is a folder, not a tern weights file; convert");
    expect(weights_open(&w, "/dev/null", &e), TERN_BAD_FILE, "it is a pipe or a device");
    ck_assert_int_eq(mkfifo(path, 0600), 0);
    expect(weights_open(&w, path, &e), TERN_BAD_FILE, "it is a pipe or a device");
    unlink(path);
    for (size_t n = 1; n < 64; n++) { /* not one of ours, and short */
        struct image i = {(unsigned char[64]){'x', 'y'}, n};
        image_save(&i, path);
        expect(weights_open(&w, path, &e), TERN_BAD_FILE, "its first bytes are not TERN");
    }
    if (geteuid() != 0) {
        chmod(path, 0);
        expect(weights_open(&w, path, &e), TERN_IO, "cannot open: Permission denied");
    }
    ck_assert_int_eq(weights_open(&w, path, NULL), geteuid() ? TERN_IO : TERN_BAD_FILE);
    memset(long_path, 'x', sizeof long_path - 1);
    long_path[sizeof long_path - 1] = 0;
    ck_assert_int_eq(weights_open(&w, long_path, &e), TERN_IO);
}
END_TEST

START_TEST(a_long_path_leaves_room_for_the_reason)
{
    struct weights *w;
    char name[900];
    int n = snprintf(name, sizeof name, "%s", path);
    unlink(path);
    ck_assert_int_eq(mkdir(path, 0700), 0);
    memset(name + n, '/', sizeof name - (size_t)n - 1); /* the same folder, written at length */
    memcpy(name + sizeof name - 2, "w", 2);
    image_save(&(struct image){base.p, 100}, name);
    expect(weights_open(&w, name, &e), TERN_BAD_FILE, "/w: it is cut: 100 bytes are there");
    ck_assert_int_eq(strncmp(e.text, "...", 3), 0);
    unlink(name);
    rmdir(path);
}
END_TEST

/* The mappings of the file, and the descriptor that a new one gets. */
static size_t mapped(int *free_one)
{
    FILE *f = fopen("/proc/self/maps", "r");
    char line[600];
    size_t n = 0;
    while (f && fgets(line, sizeof line, f))
        n += strstr(line, path) != NULL;
    if (f)
        fclose(f);
    *free_one = dup(0);
    close(*free_one);
    return n;
}

START_TEST(what_was_opened_is_closed)
{
    struct weights *w;
    int before, after;
    image_save(&base, path);
    ck_assert_uint_eq(mapped(&before), 0);
    ck_assert_int_eq(weights_open(&w, path, &e), TERN_OK);
    if (mapped(&after) != 1)
        suite_skip("mappings", "the system does not list them");
    ck_assert_int_eq(after, before);
    weights_close(w);
    ck_assert_uint_eq(mapped(&after), 0);
    base.p[0] ^= 1;
    image_save(&base, path);
    ck_assert_int_eq(weights_open(&w, path, &e), TERN_BAD_FILE);
    ck_assert_uint_eq(mapped(&after), 0);
    ck_assert_int_eq(after, before);
    weights_close(NULL);
}
END_TEST

/* ---- no memory ---- */

START_TEST(every_allocation_fails_in_turn)
{
    image_save(&base, path);
    for (int rest = 0; rest < 2; rest++) {
        enum tern_status s = TERN_NO_MEMORY;
        for (size_t n = 1; s; n++) {
            struct model *m;
            allocs_start(n, rest);
            s = model_open(&m, path, &e);
            model_close(m);
            size_t live = allocs_live();
            allocs_stop();
            ck_assert_uint_eq(live, 0);
            ck_assert_uint_lt(n, 100);
            if (s)
                expect(s, TERN_NO_MEMORY, "not enough memory for");
        }
    }
}
END_TEST

/* ---- checksums ---- */

START_TEST(xxh64_vectors)
{
    /* All from the reference implementation (python-xxhash). */
    static const char text[] = "Nobody inspects the spammish repetition";
    ck_assert_uint_eq(xxh64("", 0), 0xef46db3751d8e999);
    ck_assert_uint_eq(xxh64("abc", 3), 0x44bc2cf5ad770999);
    ck_assert_uint_eq(xxh64(text, 39), 0xfbcea83c8a378bf1);
    unsigned char bytes[300];
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (unsigned char)(i * i + 7 * i);
    uint64_t all = 0;
    for (size_t n = 0; n <= sizeof bytes; n++)
        all = all * 31 + xxh64(bytes, n);
    ck_assert_uint_eq(all, 0xb5954cc8137c1948);
    for (size_t n = 0; n <= sizeof bytes; n++) /* in pieces of every size */
        for (size_t piece = 1; piece <= 70; piece += 3) {
            struct xxh64 h;
            xxh64_init(&h, 0);
            for (size_t at = 0; at < n; at += piece)
                xxh64_update(&h, bytes + at, n - at < piece ? n - at : piece);
            ck_assert_uint_eq(xxh64_digest(&h), xxh64(bytes, n));
        }
}
END_TEST

SUITE("weights", AROUND_EACH(setup, teardown), TEST(xxh64_vectors),
      LOOP(toys_of_every_type, 0, N_TYPES), TEST(tensors_hold_the_toys_values),
      TEST(sections_and_config), TEST(binding_names_what_is_wrong),
      TEST(several_matrices_are_not_one), TEST(the_example_of_the_document),
      TEST(cut_at_every_byte), TEST(bytes_after_the_end), TEST(more_sections_than_allowed),
      TEST(every_header_byte_changed), TEST(every_header_byte_changed_and_repaired),
      TEST(damaged_tensors), TEST(not_a_file), TEST(a_long_path_leaves_room_for_the_reason),
      TEST(what_was_opened_is_closed), TEST(every_allocation_fails_in_turn))
