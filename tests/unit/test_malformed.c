/* ldflags: -Wl,@tests/support/allocs.ld */
/* The catalogue of malformed weights files: each row changes numbers of a valid file, makes the
 * checksums right again, and states the sentence that must refuse it. Rejecting takes little memory
 * and leaves none behind.
 *
 * ADDING A KIND: a row in the table. Offsets within an entry are FORMAT.md's. */
#include "allocs.h"
#include "image.h"

#include "base/bytes.h"
#include "weights/file_layout.h"
#include "model/model.h"
#include "suite.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum place { END, START, START_PLUS, SECTION, BODY, KEY, VALUE, TENSOR, FIELD };

struct edit {
    enum place place;
    const char *name; /* of the section, or of the key in section config */
    size_t number;    /* of the tensor */
    size_t offset, width;
    uint64_t value; /* little-endian */
};

enum { REPAIRED, HEADER_ONLY, RAW }; /* checksums: both repaired, the header's, none */

struct kind {
    const char *what, *want; /* want NULL: the file is still good */
    struct edit edits[4];
    int repair;
};

/* clang-format off */
#define KIND(what, want, ...) {what, want, {__VA_ARGS__}, REPAIRED}
#define KIND_HEADER(what, want, ...) {what, want, {__VA_ARGS__}, HEADER_ONLY}
#define KIND_RAW(what, want, ...) {what, want, {__VA_ARGS__}, RAW}
#define START(offset, width, value) {START, NULL, 0, offset, width, value}
#define PLUS(offset, value) {START_PLUS, NULL, 0, offset, 8, value}
#define SECTION(tag, offset, value) {SECTION, tag, 0, offset, 8, value}
#define BODY(tag, offset, width, value) {BODY, tag, 0, offset, width, value}
#define KEY(key, offset, value) {KEY, key, 0, offset, 8, value}
#define KEY_NAME(key, offset, letter) {KEY, key, 0, 32 + (offset), 1, letter}
#define VALUE(key, value) {VALUE, key, 0, 0, 8, value}
#define FLOAT(key, bits) {VALUE, key, 0, 0, 4, bits}
#define LETTER(key, offset, letter) {VALUE, key, 0, offset, 1, letter}
#define NAME_BYTES(tensor, value) {TENSOR, NULL, tensor, 0, 8, value}
#define NAME(tensor, offset, letter) {TENSOR, NULL, tensor, 8 + (offset), 1, letter}
#define FIELD(tensor, offset, value) {FIELD, NULL, tensor, offset, 8, value}
/* clang-format on */

/* The tensors of the base file, and the fields of an entry. */
enum { EMBED, ATTN_NORM, FFN_NORM, Q, K, V, O, GATE, UP, DOWN, FINAL_NORM };
enum {
    TYPE = 0,
    TILES = 8,
    ROWS = 16,
    COLUMNS = 24,
    MATRICES = 32,
    OFFSET = 40,
    BYTES = 48,
    SUM = 56
};
enum { TAG = 0, FLAGS = 16, AT = 24, LENGTH = 32 }; /* of a section */
enum { KEY_FLAGS = 0, KEY_TYPE = 8, KEY_COUNT = 16, KEY_NAME_BYTES = 24 };

#define HUGE_NUMBER (UINT64_MAX - 7)
#define NOT_A_NUMBER 0x7fc00000
#define N_LAYERS 0x73726579616c5f6e /* "n_layers" */

static struct toy base_shape(void)
{
    struct toy t = toy_default();
    t.n_layers = 1, t.dim = 32, t.n_heads = 2, t.n_kv_heads = 1, t.head_dim = 16;
    t.hidden = 48, t.vocab = 40, t.max_seq = 16, t.type = TERN_Q8;
    return t;
}

static const struct kind kinds[] = {
    KIND("nothing", NULL, START(0, 1, 'T')),
    KIND("a later minor version", NULL, START(6, 2, 7)),
    /* start */
    KIND("magic", "not a tern weights file", START(0, 1, 't')),
    KIND("GGUF", "it is a GGUF file, not a tern weights file; convert it", START(0, 4, 0x46554747)),
    KIND("safetensors", "it is a safetensors file", START(0, 8, 100), START(8, 1, '{')),
    KIND("llama2.c 1", "it is a llama2.c checkpoint", START(0, 4, 0x616b3432)),
    KIND("llama2.c 0", "it is a llama2.c checkpoint", START(0, 8, 64 | 172ull << 32),
         START(8, 8, 5 | 8ull << 32), START(16, 8, 4 | 512ull << 32), START(24, 4, 512)),
    KIND("llama2.c 0, own head", "it is a llama2.c checkpoint", START(0, 8, 64 | 172ull << 32),
         START(8, 8, 5 | 8ull << 32), START(16, 8, 4 | 0xfffffe00ull << 32), START(24, 4, 512)),
    KIND("zip", "it is a zip archive", START(0, 4, 0x04034b50)),
    KIND("Git LFS", "it is a Git LFS pointer", START(0, 8, 0x206e6f6973726576),
         START(8, 8, 0x2f2f3a7370747468), START(16, 8, 0x73666c2d746967)),
    KIND("major 0", "its format version is 0", START(4, 2, 0)),
    KIND("major 2", "its format version is 2", START(4, 2, 2)),
    KIND("kind 0", "its kind is 0", START(8, 8, 0)),
    KIND("adapter", "it holds an adapter, want a model", START(8, 8, 2)),
    KIND("session", "it holds a session, want a model", START(8, 8, 3)),
    KIND("part", "it holds a part", START(8, 8, 5)),
    KIND("kind 4", "its kind is 4", START(8, 8, 4)),
    KIND("kind 2^32 + 1", "its kind is 4294967297", START(8, 8, 0x100000001)),
    KIND("header of 0", "its header cannot be 0 bytes", START(16, 8, 0)),
    KIND("header of 56", "its header cannot be 56 bytes", START(16, 8, 56)),
    KIND("header not in words", "its header cannot be 1001 bytes", START(16, 8, 1001)),
    KIND("header of 64", "its header of 64 bytes cannot hold 4 sections", START(16, 8, 64)),
    KIND("header of the table alone", "'config' reaches past the end of the header",
         START(16, 8, 224)),
    KIND("header longer than the file", "its header cannot be 67108864", START(16, 8, 64 << 20)),
    KIND("header over the limit", "at most 67108864 are allowed", START(16, 8, (64 << 20) + 8)),
    KIND("header of 2^64 - 8", "at most 67108864 are allowed", START(16, 8, HUGE_NUMBER)),
    KIND("header 8 longer", "but its sections end at", PLUS(16, 8)),
    KIND("header 8 shorter", "'seal' reaches past the end of the header", PLUS(16, HUGE_NUMBER)),
    KIND("file of 0", "follow its end, at byte 0", START(24, 8, 0)),
    KIND("file of 2^64 - 1", "it is cut", START(24, 8, UINT64_MAX)),
    KIND("a byte too few", "it is cut", PLUS(24, 1)),
    KIND("a byte too many", "1 bytes follow its end", PLUS(24, UINT64_MAX)),
    KIND_RAW("header checksum", "the checksum of its header differs", START(32, 1, 0x5a)),
    KIND_HEADER("content id", "its content id is not that of its tensors", START(40, 1, 0x5a)),
    KIND("no section", "cannot hold 0 sections", START(48, 8, 0)),
    KIND("65 sections", "cannot hold 65 sections", START(48, 8, 65)),
    KIND("2^61 sections", "cannot hold 2305843009213693952", START(48, 8, 1ull << 61)),
    KIND("one section more", "section 'config' begins at byte 224, want 264", START(48, 8, 5)),
    KIND("one section less", "section 'config' begins at byte 224, want 184", START(48, 8, 3)),
    KIND("reserved field", "byte 56 of its start is not zero", START(56, 8, 1)),
    /* sections */
    KIND("tag empty", "section 3: its tag is not plain text", SECTION("seal", TAG, 0)),
    KIND("tag of spaces", "section 3: its tag is not plain text", SECTION("seal", TAG, ' ')),
    KIND("tag of DEL", "section 3: its tag is not plain text", SECTION("seal", TAG, 127)),
    KIND("first tag", NULL, SECTION("seal", TAG, '!')),
    KIND("last tag", NULL, SECTION("seal", TAG, '~')),
    KIND("tag of 16 letters", NULL, SECTION("seal", TAG, 0x6161616161616161),
         SECTION("seal", TAG + 8, 0x6161616161616161)),
    KIND("critical tag of 16 letters", "its section 'aaaaaaaaaaaaaaaa' is needed and unknown",
         SECTION("seal", TAG, 0x6161616161616161), SECTION("seal", TAG + 8, 0x6161616161616161),
         SECTION("seal", FLAGS, 1)),
    KIND("tag goes on", "section 3: its tag is not plain text", SECTION("seal", 8, 'x')),
    KIND("tag twice", "section 'config' is there twice", SECTION("seal", TAG, 0x6769666e6f63)),
    KIND("section flags", "section 'seal': its flags 2 are unknown", SECTION("seal", FLAGS, 2)),
    KIND("unknown section", NULL, SECTION("seal", TAG, 'z')),
    KIND("unknown critical section", "its section 'z' is needed and unknown",
         SECTION("seal", TAG, 'z'), SECTION("seal", FLAGS, 1)),
    KIND("section at 0", "it overlaps what is before it", SECTION("seal", AT, 0)),
    KIND("section at 2^64 - 8", "there is a hole before it", SECTION("seal", AT, HUGE_NUMBER)),
    KIND("section off its line", "not a multiple of 8", SECTION("config", AT, 225)),
    KIND("section of 2^64 - 1", "reaches past the end of the header",
         SECTION("seal", LENGTH, UINT64_MAX)),
    KIND("section of 2^63", "reaches past the end of the header",
         SECTION("config", LENGTH, 1ull << 63)),
    KIND("section of 0", "there is a hole before it", SECTION("config", LENGTH, 0)),
    KIND("last section of 0", "but its sections end at", SECTION("seal", LENGTH, 0)),
    KIND("padding between sections", "the padding before section 'seal' is not zero",
         SECTION("provenance", LENGTH, 55), BODY("provenance", 55, 1, 5)),
    KIND("padding after the last section", "the padding at the end of its header is not zero",
         SECTION("seal", LENGTH, 111), BODY("seal", 111, 1, 5)),
    KIND("no config", "it has no section 'config'", SECTION("config", TAG, 'c'),
         SECTION("config", FLAGS, 0)),
    KIND("no tensors", "it has no section 'tensors'", SECTION("tensors", TAG, 't'),
         SECTION("tensors", FLAGS, 0)),
    /* key block */
    KIND("2^64 - 1 keys", "its key count does not fit", BODY("config", 0, 8, UINT64_MAX)),
    KIND("2^59 keys", "its key count does not fit", BODY("config", 0, 8, 1ull << 59)),
    KIND("no keys", "bytes follow its last key", BODY("config", 0, 8, 0)),
    KIND("one key more", "the block ends inside it", BODY("config", 0, 8, 19)),
    KIND("one key less", "bytes follow its last key", BODY("config", 0, 8, 17)),
    KIND("key flags", "its flags or type are unknown", KEY("dim", KEY_FLAGS, 2)),
    KIND("key type 0", "its flags or type are unknown", KEY("dim", KEY_TYPE, 0)),
    KIND("key type 5", "its flags or type are unknown", KEY("dim", KEY_TYPE, 5)),
    KIND("key type 2^32 + 1", "its flags or type are unknown", KEY("dim", KEY_TYPE, 0x100000001)),
    KIND("key count overflows", "its count overflows", KEY("dim", KEY_COUNT, 1ull << 61)),
    KIND("key count beyond the section", "its values reach past the end",
         KEY("dim", KEY_COUNT, 9999)),
    KIND("key count 2^60", "its values reach past the end", KEY("dim", KEY_COUNT, 1ull << 60)),
    KIND("key of two values", "2 values, want one", KEY("norm_eps", KEY_COUNT, 2)),
    KIND("key of no values", "8 bytes follow its last key", KEY("rope.0.factor", KEY_COUNT, 0)),
    KIND("key without a name", "its name is cut or not plain text", KEY("dim", KEY_NAME_BYTES, 0)),
    KIND("key name of 300", "its name is longer than 256", KEY("dim", KEY_NAME_BYTES, 300)),
    KIND("key name of 2^63", "its name is longer than 256", KEY("dim", KEY_NAME_BYTES, 1ull << 63)),
    KIND("key name with a space", "its name is cut or not plain text", KEY_NAME("dim", 1, ' ')),
    KIND("key name padding", "its name is cut or not plain text", KEY_NAME("dim", 5, 'x')),
    KIND("key value padding", "its values reach past the end", LETTER("norm_eps", 6, 1)),
    KIND("key twice", "a key of this name came before", KEY("head_dim", 32, N_LAYERS)),
    KIND("u64 as f32", "key 'dim': it is f32, want u64", KEY("dim", KEY_TYPE, 2),
         KEY("dim", KEY_COUNT, 2)),
    KIND("u64 as text", "key 'dim': it is text, want u64", KEY("dim", KEY_TYPE, 3),
         KEY("dim", KEY_COUNT, 8)),
    KIND("u64 as u32", "key 'n_heads': it is u32, want u64", KEY("n_heads", KEY_TYPE, 4)),
    KIND("f32 as u32", "key 'norm_eps': it is u32, want f32", KEY("norm_eps", KEY_TYPE, 4)),
    KIND("f32 array as u64", "it is u64, want f32", KEY("rope.0.inv_freq", KEY_TYPE, 1),
         KEY("rope.0.inv_freq", KEY_COUNT, 4)),
    KIND("text as u32", "key 'activation': it is u32, want text", KEY("activation", KEY_TYPE, 4),
         KEY("activation", KEY_COUNT, 1)),
    KIND("unknown critical key", "key 'ffn_biaz' is needed and unknown",
         KEY_NAME("ffn_bias", 7, 'z')),
    KIND("unknown key", NULL, KEY_NAME("ffn_bias", 7, 'z'), KEY("ffn_bias", KEY_FLAGS, 0)),
    /* config */
    KIND("no n_heads", "config key 'n_heads' is missing", KEY_NAME("n_heads", 6, 'z')),
    KIND("no layer", "config key 'n_layers' is 0", VALUE("n_layers", 0)),
    KIND("1025 layers", "config key 'n_layers' is 1025", VALUE("n_layers", 1025)),
    KIND("2^63 layers", "config key 'n_layers' is 9223372036854775808",
         VALUE("n_layers", 1ull << 63)),
    KIND("2 layers", "tensor 'layer.1.attn_norm' [32, 1] is missing", VALUE("n_layers", 2)),
    KIND("dim 0", "config key 'dim' is 0", VALUE("dim", 0)),
    KIND("dim 2^40", "config key 'dim' is 1099511627776", VALUE("dim", 1ull << 40)),
    KIND("dim 31", "tensor 'embed' is [40, 32], the config wants [40, 31]", VALUE("dim", 31)),
    KIND("vocab 0", "config key 'vocab' is 0", VALUE("vocab", 0)),
    KIND("vocab 41", "tensor 'embed' is [40, 32], the config wants [41, 32]", VALUE("vocab", 41)),
    KIND("max_seq 0", "config key 'max_seq' is 0", VALUE("max_seq", 0)),
    KIND("max_seq 2^32", "config key 'max_seq' is 4294967296", VALUE("max_seq", 1ull << 32)),
    KIND("n_heads 0", "config key 'n_heads' is 0", VALUE("n_heads", 0)),
    KIND("n_heads 4", "tensor 'layer.0.q' is [32, 32], the config wants [64, 32]",
         VALUE("n_heads", 4)),
    KIND("n_kv_heads 0", "config key 'n_kv_heads' is 0", VALUE("n_kv_heads", 0)),
    KIND("n_kv_heads 3", "n_kv_heads 3 does not divide n_heads 2", VALUE("n_kv_heads", 3)),
    KIND("head_dim 0", "config key 'head_dim' is 0", VALUE("head_dim", 0)),
    KIND("head_dim 8", "16 rotary dims exceed head_dim 8", VALUE("head_dim", 8)),
    KIND("hidden 0", "config key 'hidden' is 0", VALUE("hidden", 0)),
    KIND("hidden 2^63", "config key 'hidden' is 9223372036854775808", VALUE("hidden", 1ull << 63)),
    KIND("head_tied 2", "config key 'head_tied' is 2", VALUE("head_tied", 2)),
    KIND("a head that is not there", "tensor 'head' [40, 32] is missing", VALUE("head_tied", 0)),
    KIND("a bias that is not there", "tensor 'layer.0.q_bias' [32, 1] is missing",
         VALUE("attn_bias", 1)),
    KIND("attn_bias 16", "config key 'attn_bias' is 16", VALUE("attn_bias", 16)),
    KIND("rope_set 2", "RoPE set 2 of 1 is wanted", VALUE("rope_set", 2)),
    KIND("norm_eps NaN", "config key 'norm_eps'", FLOAT("norm_eps", NOT_A_NUMBER)),
    KIND("norm_eps -1", "config key 'norm_eps'", FLOAT("norm_eps", 0xbf800000)),
    KIND("attn_scale NaN", "config key 'attn_scale'", FLOAT("attn_scale", NOT_A_NUMBER)),
    KIND("frequency infinite", "rope.0.inv_freq", FLOAT("rope.0.inv_freq", 0x7f800000)),
    KIND("activation", "'activation' is 'salu', want 'silu' or another",
         LETTER("activation", 1, 'a')),
    /* directory */
    KIND("no tensor", "cannot hold 0 tensors", BODY("tensors", 0, 8, 0)),
    KIND("2^64 - 1 tensors", "cannot hold 18446744073709551615", BODY("tensors", 0, 8, UINT64_MAX)),
    KIND("2^57 tensors", "cannot hold 144115188075855872", BODY("tensors", 0, 8, 1ull << 57)),
    KIND("a million tensors", "cannot hold 1000000 tensors", BODY("tensors", 0, 8, 1000000)),
    KIND("one tensor more", "tensor 11 of the directory: its name is missing",
         BODY("tensors", 0, 8, 12)),
    KIND("one tensor less", "bytes follow the last entry", BODY("tensors", 0, 8, 10)),
    KIND("tensor without a name", "its name is cut or not plain text", NAME_BYTES(Q, 0)),
    KIND("tensor name of 257", "longer than 256", NAME_BYTES(Q, 257)),
    KIND("tensor name of 2^64 - 8", "longer than 256", NAME_BYTES(Q, HUGE_NUMBER)),
    KIND("tensor name with a NUL", "its name is cut or not plain text", NAME(Q, 2, 0)),
    KIND("tensor name padding", "its name is cut or not plain text", NAME(Q, 15, 'x')),
    KIND("tensor twice", "tensor 'layer.0.v' is there twice", NAME(K, 8, 'v')),
    KIND("tensor twice, and first by name", "tensor '!ayer.0.k' is there twice", NAME(K, 0, '!'),
         NAME(V, 0, '!'), NAME(V, 8, 'k')),
    KIND("last entry cut", "tensor 10 of the directory: the directory ends inside its entry",
         SECTION("tensors", LENGTH, 975), FIELD(FINAL_NORM, SUM, 5)),
    KIND("tensor with another name", "tensor 'layer.0.q' [32, 32] is missing", NAME(Q, 8, 'z')),
    KIND("type 6", "tensor 'layer.0.q': its type 6 is unknown", FIELD(Q, TYPE, 6)),
    KIND("type 2^32", "its type 4294967296 is unknown", FIELD(Q, TYPE, 1ull << 32)),
    KIND("another type", "q4 [1, 32, 32] takes 576 bytes, its entry says 1088",
         FIELD(Q, TYPE, TERN_Q4)),
    KIND("q4c without heads", "q4c [1, 32, 32] takes 640 bytes, its entry says 576",
         FIELD(Q, TYPE, TERN_Q4C), FIELD(Q, BYTES, 576)),
    KIND("tiles of 0", "its tiles have 0 rows, want 16", FIELD(Q, TILES, 0)),
    KIND("tiles of 32", "its tiles have 32 rows, want 16", FIELD(Q, TILES, 32)),
    KIND("rows 0", "[1, 0, 32] has a zero", FIELD(Q, ROWS, 0)),
    KIND("k 0", "[1, 32, 0] has a zero", FIELD(Q, COLUMNS, 0)),
    KIND("matrices 0", "[0, 32, 32] has a zero", FIELD(Q, MATRICES, 0)),
    KIND("rows 2^64 - 1", "overflows", FIELD(Q, ROWS, UINT64_MAX)),
    KIND("k 2^64 - 1", "overflows", FIELD(Q, COLUMNS, UINT64_MAX)),
    KIND("k 2^60", "overflows", FIELD(Q, COLUMNS, 1ull << 60)),
    KIND("matrices 2^60", "overflows", FIELD(Q, MATRICES, 1ull << 60)),
    KIND("a product of 2^66", "overflows", FIELD(Q, ROWS, 1ull << 33),
         FIELD(Q, COLUMNS, 1ull << 33)),
    KIND("an exabyte", "takes 1224979098644774912 bytes, its entry says 1088",
         FIELD(Q, ROWS, 1ull << 40), FIELD(Q, COLUMNS, 1 << 20)),
    KIND("an exabyte, as stated", "'layer.0.q' reaches past the end of the file",
         FIELD(Q, ROWS, 1ull << 40), FIELD(Q, COLUMNS, 1 << 20),
         FIELD(Q, BYTES, 1224979098644774912)),
    KIND("rows within a tile", "'layer.0.q' is [31, 32], the config wants [32, 32]",
         FIELD(Q, ROWS, 31)),
    KIND("k within a group", "'layer.0.q' is [32, 31], the config wants [32, 32]",
         FIELD(Q, COLUMNS, 31)),
    KIND("two matrices", "'layer.0.q' is [2, 16, 32], the config wants [32, 32]",
         FIELD(Q, ROWS, 16), FIELD(Q, MATRICES, 2)),
    KIND("bytes 0", "its entry says 0", FIELD(Q, BYTES, 0)),
    KIND("bytes 2^64 - 1", "its entry says 18446744073709551615", FIELD(Q, BYTES, UINT64_MAX)),
    KIND("smaller than its place", "there is a hole before it", FIELD(GATE, ROWS, 16),
         FIELD(GATE, BYTES, 544)),
    KIND("larger than its place", "it overlaps what is before it", FIELD(GATE, ROWS, 80),
         FIELD(GATE, BYTES, 2720)),
    KIND("tensor at 0", "it overlaps what is before it", FIELD(Q, OFFSET, 0)),
    KIND("tensor at 2^64 - 64", "there is a hole before it", FIELD(Q, OFFSET, UINT64_MAX - 63)),
    KIND("tensor off its line", "not a multiple of 64", FIELD(Q, OFFSET, 8192 + 32)),
    KIND("tensors that share bytes", "it overlaps what is before it",
         FIELD(FFN_NORM, OFFSET, 4096)),
    KIND("first tensor in the header", "it overlaps what is before it", FIELD(EMBED, OFFSET, 64)),
    KIND("first tensor a page late", "there is a hole before it", FIELD(EMBED, OFFSET, 8192)),
    KIND("last tensor short", "its tensors end at byte", FIELD(FINAL_NORM, ROWS, 16),
         FIELD(FINAL_NORM, BYTES, 64)),
    KIND("last tensor long", "reaches past the end of the file", FIELD(FINAL_NORM, ROWS, 48),
         FIELD(FINAL_NORM, BYTES, 192)),
    KIND_HEADER("tensor checksum", "its content id is not that of its tensors", FIELD(Q, SUM, 0)),
};

/* ---- the test ---- */

static size_t locate(const struct image *base, const struct edit *d)
{
    switch (d->place) {
    case SECTION:
        return image_section(base, d->name);
    case BODY:
        return image_body(base, d->name);
    case KEY:
        return image_key(base, "config", d->name);
    case VALUE: {
        size_t at = image_key(base, "config", d->name);
        return at + 32 + (strlen(d->name) + 7) / 8 * 8;
    }
    case TENSOR:
        return image_tensor(base, d->number);
    case FIELD:
        return image_fields(base, d->number);
    default:
        return 0;
    }
}

static void change(struct image *i, const struct image *base, const struct kind *k)
{
    for (const struct edit *d = k->edits; d < k->edits + 4 && d->place != END; d++) {
        unsigned char *at = i->p + locate(base, d) + d->offset;
        uint64_t value = d->place == START_PLUS ? load_u64(at) + d->value : d->value;
        memcpy(at, &value, d->width);
    }
    if (k->repair == REPAIRED)
        image_repair(i->p, i->n);
    if (k->repair == HEADER_ONLY) {
        uint64_t sum = layout_header_checksum(i->p, (size_t)load_u64(i->p + LAYOUT_HEADER_BYTES));
        memcpy(i->p + LAYOUT_CHECKSUM, &sum, sizeof sum);
    }
}

START_TEST(malformed)
{
    const struct kind *k = &kinds[_i];
    const struct toy shape = base_shape();
    struct image base = image_of(&shape), i = image_copy(&base);
    struct tern_error e = {TERN_OK, ""};
    struct model *m;
    char path[256];
    toy_path(path, sizeof path, "bad.bin");
    change(&i, &base, k);
    image_save(&i, path);
    allocs_start(0, 0);
    enum tern_status s = model_open(&m, path, &e);
    size_t peak = allocs_peak();
    model_close(m);
    unlink(path);
    ck_assert_msg(allocs_live() == 0, "%s: %zu blocks are left", k->what, allocs_live());
    if (!k->want) {
        ck_assert_msg(s == TERN_OK, "%s: refused: %s", k->what, e.text);
    } else {
        ck_assert_msg(s == TERN_BAD_FILE && e.code == s, "%s: status %d: %s", k->what, s, e.text);
        ck_assert_msg(!strncmp(e.text, path, strlen(path)), "%s: no path: %s", k->what, e.text);
        const char *again = strstr(e.text + 1, path); /* the command that converts it may name it */
        ck_assert_msg(!again || again[strlen(path)] != ':', "%s: two paths: %s", k->what, e.text);
        ck_assert_msg(strstr(e.text, k->want), "%s: '%s' lacks '%s'", k->what, e.text, k->want);
        ck_assert_msg(peak <= 4 * i.n + (1 << 20), "%s: %zu bytes of heap", k->what, peak);
    }
    image_close(&i);
    image_close(&base);
}
END_TEST

SUITE("malformed", LOOP(malformed, 0, sizeof kinds / sizeof *kinds))
