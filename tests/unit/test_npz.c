/* Arrays of numpy, read: what is in a file, and every way to cut it off or to change a byte. */
#include "app/cli/files.h"
#include "suite.h"

#include "../../src/app/run/npz.c"

static char *file;
static size_t file_bytes;

static void setup(void)
{
    struct tern_error e = {0};
    ck_assert_msg(!files_take("tests/golden/probes/small.npz", &file, &file_bytes, &e), "%s",
                  e.text);
}

static void teardown(void)
{
    free(file);
}

/* Reads n bytes, which lie alone in their memory. */
static enum tern_status read_bytes(struct npz *z, const char *bytes, size_t n, struct tern_error *e)
{
    struct npz_reader r = {.path = "test", .n = n, .e = e};
    *z = (struct npz){.bytes = malloc(n ? n : 1)};
    memcpy(z->bytes, bytes, n);
    r.bytes = (const unsigned char *)z->bytes;
    return read_directory(&r, z);
}

/* tools/golden.py's way: savez(a=float32 [2, 3] of 1.5 i, b=int32 [4] of i - 2) */
START_TEST(numbers)
{
    struct tern_error e = {0};
    struct npz z;
    ck_assert_msg(!npz_open(&z, "tests/golden/probes/small.npz", &e), "%s", e.text);
    ck_assert_uint_eq(z.n_arrays, 2);
    const struct npz_array *a = npz_find(&z, "a"), *b = npz_find(&z, "b");
    ck_assert(a && b && a < b && !npz_find(&z, "c") && !npz_find(&z, ""));
    ck_assert(a->kind == 'f' && a->rows == 2 && a->columns == 3);
    ck_assert(b->kind == 'i' && b->rows == 4 && b->columns == 1);
    for (size_t i = 0; i < 6; i++)
        ck_assert(npz_float(a, i / 3, i % 3) == 1.5f * (float)i);
    for (size_t i = 0; i < 4; i++)
        ck_assert_int_eq(npz_int(b, i), (int)i - 2);
    npz_close(&z);
    npz_close(&z);
}
END_TEST

START_TEST(cut_off)
{
    for (size_t n = 0; n < file_bytes; n++) {
        struct tern_error e = {0};
        struct npz z;
        ck_assert_int_eq(read_bytes(&z, file, n, &e), TERN_BAD_FILE);
        ck_assert(e.code == TERN_BAD_FILE && !strncmp(e.text, "test: ", 6));
        npz_close(&z);
    }
}
END_TEST

/* A changed byte is refused, or one that nobody reads: then all numbers are as they were. */
START_TEST(changed)
{
    size_t taken = 0;
    for (size_t i = 0; i < file_bytes; i++)
        for (int value = 0; value < 256; value += i % 7 ? 85 : 1) {
            struct tern_error e = {0};
            struct npz z;
            char was = file[i];
            file[i] = (char)value;
            enum tern_status s = read_bytes(&z, file, file_bytes, &e);
            ck_assert(s == TERN_OK || (s == TERN_BAD_FILE && e.code == s));
            taken += s == TERN_OK;
            for (size_t k = 0; !s && k < z.n_arrays; k++) {
                const struct npz_array *a = &z.arrays[k];
                const void *end = z.bytes + file_bytes;
                ck_assert((const void *)(a->data + 4 * a->rows * a->columns) <= end);
                for (size_t row = 0; row < a->rows; row++)
                    ck_assert(npz_float(a, row, a->columns - 1) ==
                                  npz_float(a, row, a->columns - 1) ||
                              a->kind == 'i');
            }
            npz_close(&z);
            file[i] = was;
        }
    ck_assert_uint_gt(taken, 0);
}
END_TEST

/* An end that counts fewer members than there are. */
START_TEST(changed_count)
{
    struct npz_reader r = {.bytes = (const unsigned char *)file, .n = file_bytes};
    for (char n = 0; n < 2; n++) {
        struct tern_error e = {0};
        struct npz z;
        file[find_end(&r) - r.bytes + 10] = n;
        ck_assert_int_eq(read_bytes(&z, file, file_bytes, &e), TERN_BAD_FILE);
        npz_close(&z);
    }
}
END_TEST

/* A name that the directory and the member do not agree about. */
START_TEST(changed_names)
{
    struct npz_reader r = {.bytes = (const unsigned char *)file, .n = file_bytes};
    size_t at = u32(find_end(&r) + 16);
    for (size_t k = 0; k < 2; k++, at += ENTRY_BYTES + u16(r.bytes + at + 28))
        for (size_t bit = 0; bit < 8 * (size_t)u16(r.bytes + at + 28); bit++)
            for (int local = 0; local < 2; local++) {
                struct tern_error e = {0};
                struct npz z;
                char *name =
                    file + (local ? u32(r.bytes + at + 42) + HEAD_BYTES : at + ENTRY_BYTES);
                name[bit / 8] ^= (char)(1 << bit % 8);
                ck_assert_int_eq(read_bytes(&z, file, file_bytes, &e), TERN_BAD_FILE);
                npz_close(&z);
                name[bit / 8] ^= (char)(1 << bit % 8);
            }
}
END_TEST

/* Any byte of the first member, with the checksum made right again, so that it hides nothing. */
START_TEST(changed_behind_the_checksum)
{
    struct npz_reader r = {.bytes = (const unsigned char *)file, .n = file_bytes};
    const unsigned char *end = find_end(&r);
    size_t entry = u32(end + 16), at = u32((unsigned char *)file + entry + 42);
    size_t data = at + HEAD_BYTES + u16(r.bytes + at + 26) + u16(r.bytes + at + 28);
    size_t n = u32(r.bytes + entry + 24), refused = 0;
    for (size_t i = data; i < data + n; i++)
        for (int value = 0; value < 256; value++) {
            struct tern_error e = {0};
            struct npz z;
            char was = file[i];
            file[i] = (char)value;
            uint32_t sum = crc32(r.bytes + data, n);
            memcpy(file + entry + 16, &sum, sizeof sum);
            enum tern_status s = read_bytes(&z, file, file_bytes, &e);
            ck_assert(s == TERN_OK || s == TERN_BAD_FILE);
            refused += s != TERN_OK;
            if (!s) {
                ck_assert_uint_eq(z.arrays->rows * z.arrays->columns, 6);
                ck_assert_ptr_eq(z.arrays->data, z.bytes + data + n - 24);
            }
            npz_close(&z);
            file[i] = was;
        }
    ck_assert_uint_gt(refused, 4000);
}
END_TEST

SUITE("npz", AROUND_EACH(setup, teardown), TEST(numbers), TEST(cut_off), TEST(changed),
      TEST(changed_count), TEST(changed_names), TEST(changed_behind_the_checksum))
