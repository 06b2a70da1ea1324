/* ldflags: -Wl,--wrap=fsync,--wrap=pwrite,--wrap=pwrite64,--wrap=rename */
/* Sequences that go on later: session files, what is kept of a text that changed, and the shift of
 * a full context. All give the bits of a fresh run, for every golden model and type of cache. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "golden.h"
#include "image.h"
#include "model/session.h"
#include "tern_lab.h"
#include "weights/keys.h"
#include "suite.h"

/* Of the calls that change files, this one is the process's last, from 1; 0: none. Then each write
 * is of half of its bytes, so that there are moments between. */
static int die_at;

static void step(void)
{
    if (die_at && !--die_at)
        kill(getpid(), SIGKILL);
}

static bool pretend; /* nothing is written */

ssize_t __real_pwrite(int fd, const void *p, size_t n, off_t at);
ssize_t __wrap_pwrite(int fd, const void *p, size_t n, off_t at);
ssize_t __wrap_pwrite64(int fd, const void *p, size_t n, off_t at);
int __real_rename(const char *from, const char *to);
int __wrap_rename(const char *from, const char *to);
int __wrap_fsync(int fd);

ssize_t __wrap_pwrite(int fd, const void *p, size_t n, off_t at)
{
    step();
    return pretend ? (ssize_t)n : __real_pwrite(fd, p, die_at ? (n + 1) / 2 : n, at);
}

/* The name that _FILE_OFFSET_BITS gives to pwrite. */
ssize_t __wrap_pwrite64(int fd, const void *p, size_t n, off_t at)
{
    return __wrap_pwrite(fd, p, n, at);
}

int __wrap_rename(const char *from, const char *to)
{
    step();
    return __real_rename(from, to);
}

/* A process that dies needs no sync; a disk may take seconds for all of these. Counted are those of
 * files and of folders; the first of each may fail. */
static int synced[2], sync_error[2];

int __wrap_fsync(int fd)
{
    struct stat s;
    step();
    int is_folder = !fstat(fd, &s) && S_ISDIR(s.st_mode), error = sync_error[is_folder];
    synced[is_folder]++;
    sync_error[is_folder] = 0;
    errno = error ? error : errno;
    return error ? -1 : 0;
}

static char model_path[256], file[256];
static tern_model *model;
static struct tern_model_info info;
static tern_token text[800]; /* of the whole vocabulary */

/* The program is built so that it takes many times as long. */
static bool is_slow(void)
{
    const char *quick = getenv("QUICK");
    return quick && *quick;
}

static void open_path(void)
{
    struct tern_error e = {0};
    ck_assert_msg(!tern_model_open(&model, model_path, NULL, &e), "%s", e.text);
    tern_model_info(model, &info);
    golden_prompt(text, sizeof text / sizeof *text, 5, info.vocab);
    toy_path(file, sizeof file, "session");
}

static void open_golden(const char *name)
{
    static struct golden g;
    golden_read(&g, name);
    golden_write(model_path, sizeof model_path, &g, TERN_F32);
    golden_close(&g);
    open_path();
}

static struct toy small_toy(void)
{
    struct toy toy = toy_default();
    toy.n_layers = 2, toy.dim = 32, toy.n_heads = 1, toy.n_kv_heads = 1, toy.head_dim = 2;
    toy.hidden = 16, toy.vocab = 40, toy.max_seq = 700, toy.window[1] = 20;
    return toy;
}

static void open_toy(const struct toy *toy)
{
    struct tern_error e = {0};
    toy_path(model_path, sizeof model_path, "session.bin");
    ck_assert_msg(!toy_write(model_path, toy, &e), "%s", e.text);
    open_path();
}

static void close_all(void)
{
    tern_model_close(model);
    unlink(model_path);
    unlink(file);
}

static tern_context *open_context(uint32_t n_ctx, uint32_t n_batch, enum tern_cache_type type)
{
    struct tern_error e = {0};
    struct tern_context_params p = {
        .n_ctx = n_ctx, .n_batch = n_batch, .n_seqs = 2, .cache_type = type, .fingerprint = 1};
    tern_context *ctx = NULL;
    ck_assert_msg(!tern_context_open(&ctx, model, &p, &e), "%s", e.text);
    return ctx;
}

/* Evaluates tokens[from .. to), each with logits, as few at a time as the context's batch. */
static void feed(tern_context *ctx, const tern_token *tokens, size_t from, size_t to, bool logits)
{
    struct tern_memory plan;
    size_t n = 0;
    tern_context_memory(ctx, &plan);
    for (size_t i = from; i < to; i++) {
        ck_assert(!tern_batch_add(ctx, 0, tokens[i], logits ? TERN_ROW_LOGITS : 0, NULL));
        if (++n == plan.n_batch || n == TERN_DEFAULT_LOGITS || i + 1 == to)
            n = 0, ck_assert(!tern_forward(ctx));
    }
}

/* Of the logits of tokens[from .. to), which follow what the sequence holds. */
static uint64_t mark(tern_context *ctx, const tern_token *tokens, size_t from, size_t to)
{
    tern_fingerprint_begin(ctx);
    feed(ctx, tokens, from, to, true);
    return tern_fingerprint(ctx, NULL);
}

static uint64_t fresh_mark(enum tern_cache_type type, const tern_token *tokens, size_t from,
                           size_t to)
{
    tern_context *ctx = open_context((uint32_t)to, 64, type);
    feed(ctx, tokens, 0, from, false);
    uint64_t hash = mark(ctx, tokens, from, to);
    tern_context_close(ctx);
    return hash;
}

static char *contents(size_t *n)
{
    FILE *f = fopen(file, "rb");
    ck_assert(f && !fseek(f, 0, SEEK_END));
    *n = (size_t)ftell(f);
    rewind(f);
    char *p = malloc(*n);
    ck_assert(p && fread(p, 1, *n, f) == *n);
    fclose(f);
    return p;
}

/* ---- sessions ----------------------------------------------------------------------------- */

static void save(tern_context *ctx)
{
    struct tern_error e = {0};
    ck_assert_msg(!tern_session_save(ctx, 0, file, &e), "%s", e.text);
}

static void load(tern_context *ctx)
{
    struct tern_error e = {0};
    ck_assert_msg(!tern_session_load(ctx, 0, file, &e), "%s", e.text);
    ck_assert(!e.text[0]);
}

/* n tokens saved by one context, restored by another over what that held, and continued. The file
 * shows nothing of other texts. */
static void check_restored(enum tern_cache_type type, size_t n)
{
    size_t bytes, again_bytes, end = n + 8;
    tern_context *ctx = open_context((uint32_t)end + 3, 40, type);
    feed(ctx, text, 0, n, false);
    save(ctx);
    tern_context_close(ctx);
    ctx = open_context((uint32_t)end, 7, type);
    feed(ctx, text + 9, 0, end, false);
    load(ctx);
    ck_assert_uint_eq(tern_seq_length(ctx, 0), n);
    ck_assert(!memcmp(tern_seq_tokens(ctx, 0), text, n * sizeof *text));
    char *first = contents(&bytes);
    save(ctx);
    char *again = contents(&again_bytes);
    ck_assert(bytes == again_bytes && !memcmp(first, again, bytes));
    ck_assert_uint_eq(mark(ctx, text, n, end), fresh_mark(type, text, n, end));
    tern_seq_keep(ctx, 0, 0); /* the pages hold another text now, and the file must not */
    feed(ctx, text, 0, n, false);
    save(ctx);
    free(again);
    again = contents(&again_bytes);
    ck_assert(bytes == again_bytes && !memcmp(first, again, bytes));
    tern_context_close(ctx);
    free(first);
    free(again);
}

START_TEST(a_restored_session_gives_the_bits_of_a_fresh_run)
{
    if (!golden_is_due(_i))
        return;
    open_golden(golden_names[_i]);
    for (int type = 0; tern_cache_type_name(type); type++) {
        check_restored(type, 30);
        if (info.max_seq > 290 && !is_slow())
            check_restored(type, 270);
    }
    close_all();
}
END_TEST

/* A window that has let go of pages, restored where the window is wider than the context. */
START_TEST(sessions_of_windowed_models_fit_any_context)
{
    struct toy toy = small_toy();
    toy.window[0] = 90;
    open_toy(&toy);
    for (int type = 0; tern_cache_type_name(type); type++) {
        check_restored(type, 600);
        check_restored(type, 512);
        check_restored(type, 60);
    }
    check_restored(0, 1); /* a block of one position, alone and behind a whole one */
    check_restored(0, 257);
    tern_context *wide = open_context(700, 50, 0), *narrow = open_context(85, 50, 0);
    feed(wide, text, 0, 80, false);
    save(wide);
    load(narrow); /* whose 85 positions feel no window of 90 */
    ck_assert_uint_eq(mark(narrow, text, 80, 85), fresh_mark(0, text, 80, 85));
    ck_assert_uint_eq(tern_seq_keep(narrow, 0, 80), 80);
    save(narrow);
    tern_seq_keep(wide, 0, 0);
    load(wide);
    ck_assert_uint_eq(mark(wide, text, 80, 300), fresh_mark(0, text, 80, 300));
    tern_context_close(wide);
    tern_context_close(narrow);
    close_all();
}
END_TEST

/* What cannot be loaded leaves the sequence as it was. */
static void refuse(tern_context *ctx, enum tern_status want, const char *words)
{
    struct tern_error e = {0};
    uint32_t n = tern_seq_length(ctx, 0);
    enum tern_status s = tern_session_load(ctx, 0, file, &e);
    ck_assert_msg((int)s == (int)want || (!want && s), "%d: %s", s, e.text);
    ck_assert_msg(strstr(e.text, file) == e.text && strstr(e.text, words), "%s", e.text);
    ck_assert(tern_seq_length(ctx, 0) == n && !memcmp(tern_seq_tokens(ctx, 0), text, 4 * n));
}

START_TEST(every_byte_of_a_session_counts)
{
    struct toy toy = small_toy();
    struct image i = {0};
    toy.n_layers = 1;
    open_toy(&toy);
    tern_context *ctx = open_context(20, 20, 0);
    feed(ctx, text, 0, 10, false);
    save(ctx);
    i.p = (unsigned char *)contents(&i.n);
    tern_seq_keep(ctx, 0, 6);
    int fd = open(file, O_RDWR);
    for (size_t at = 0; at < i.n; at++) {
        unsigned char other = i.p[at] ^ (unsigned char)(1 + at % 255);
        ck_assert(pwrite(fd, &other, 1, (off_t)at) == 1);
        refuse(ctx, TERN_OK, "");
        ck_assert(pwrite(fd, &i.p[at], 1, (off_t)at) == 1);
    }
    for (size_t n = i.n; n-- > 0;) {
        ck_assert(!ftruncate(fd, (off_t)n));
        refuse(ctx, TERN_OK, "");
    }
    close(fd);
    ck_assert_uint_eq(mark(ctx, text, 6, 20), fresh_mark(0, text, 6, 20));
    image_close(&i);
    tern_context_close(ctx);
    close_all();
}
END_TEST

START_TEST(a_session_of_something_else_is_refused)
{
    struct toy toy = small_toy();
    struct tern_error e = {0};
    toy.head_dim = 4;
    open_toy(&toy);
    tern_context *ctx = open_context(40, 40, TERN_CACHE_F16);
    ck_assert_int_eq(tern_session_save(ctx, 0, file, &e), TERN_USAGE); /* empty */
    ck_assert_int_eq(tern_session_load(ctx, 2, file, &e), TERN_USAGE);
    refuse(ctx, TERN_IO, "No such file");
    ck_assert_int_eq(tern_session_load(ctx, 0, file, NULL), TERN_IO);
    feed(ctx, text, 0, 30, false);
    save(ctx);
    ck_assert_int_eq(tern_session_save(ctx, 0, model_path, &e), TERN_USAGE);
    ck_assert_int_eq(tern_session_save(ctx, 0, "/nowhere/x", &e), TERN_IO);
    tern_context *other = open_context(29, 29, TERN_CACHE_F16);
    refuse(other, TERN_LIMIT, "30 tokens and the context 29");
    tern_context_close(other);
    other = open_context(40, 29, TERN_CACHE_Q8);
    refuse(other, TERN_BAD_FILE, "another type of cache");
    tern_context_close(other);
    struct image session = {0}, copy;
    session.p = (unsigned char *)contents(&session.n);
    static const struct {
        const char *key;
        size_t byte;
        unsigned char value;
        const char *words;
    } cases[] = {{"owner", 0, 99, "revision of the arithmetic"},
                 {"owner", 8 + 3, 1, "another model"},
                 {"owner", 16 + 3, 1, "config of the model"},
                 {"tokens", 0, 200, "outside the vocabulary of 40"},
                 {"first", 8, 1, "blocks"},
                 {"first", 7, 1, "blocks"}};
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        copy = image_copy(&session);
        size_t at = image_key(&copy, "config", cases[k].key);
        copy.p[at + 32 + (strlen(cases[k].key) + 7) / 8 * 8 + cases[k].byte] ^= cases[k].value;
        image_repair(copy.p, copy.n);
        image_save(&copy, file);
        refuse(ctx, TERN_BAD_FILE, cases[k].words);
        image_close(&copy);
    }
    static const struct {
        const char *key, *words;
    } absent[] = {
        {"owner", "revision of the arithmetic"}, {"tokens", "blocks"}, {"first", "blocks"}};
    for (size_t k = 0; k < 2 * (sizeof absent / sizeof *absent); k++) { /* another key there */
        bool critical = k % 2;
        copy = image_copy(&session);
        size_t at = image_key(&copy, "config", absent[k / 2].key);
        copy.p[at] = critical, copy.p[at + 32] = 'x';
        image_repair(copy.p, copy.n);
        image_save(&copy, file);
        refuse(ctx, TERN_BAD_FILE, critical ? "is needed and unknown" : absent[k / 2].words);
        image_close(&copy);
    }
    image_save(&session, file);
    other = open_context(30, 30, TERN_CACHE_F16); /* it fits exactly */
    load(other);
    tern_context_close(other);
    copy = image_copy(&session);
    copy.p[image_key(&copy, "config", "tokens") + 8] = KEY_F32; /* as wide as its own */
    image_repair(copy.p, copy.n);
    image_save(&copy, file);
    refuse(ctx, TERN_BAD_FILE, "it is f32, want u32");
    image_close(&copy);
    for (uint32_t token = 39; token <= 40; token++) { /* the last one of the vocabulary, and more */
        copy = image_copy(&session);
        memcpy(copy.p + image_key(&copy, "config", "tokens") + 32 + 8, &token, sizeof token);
        image_repair(copy.p, copy.n);
        image_save(&copy, file);
        if (token < 40)
            load(ctx);
        else
            refuse(ctx, TERN_BAD_FILE, "token 40 is outside the vocabulary of 40");
        image_close(&copy);
        tern_seq_keep(ctx, 0, 0);
        feed(ctx, text, 0, 30, false);
    }
    image_save(&session, file);
    tern_context_close(ctx);
    tern_model_close(model);
    toy.rope_theta *= 2; /* the same tensors */
    ck_assert(!toy_write(model_path, &toy, &e));
    open_path();
    ctx = open_context(40, 40, TERN_CACHE_F16);
    image_save(&session, file);
    refuse(ctx, TERN_BAD_FILE, "config of the model");
    unlink(file);
    ck_assert(!link(model_path, file));
    refuse(ctx, TERN_BAD_FILE, "it holds a model, want a session");
    unlink(file); /* not the model, which is mapped */
    tern_model *unopened = NULL;
    image_save(&session, file);
    ck_assert_int_eq(tern_model_open(&unopened, file, NULL, &e), TERN_BAD_FILE);
    image_close(&session);
    tern_context_close(ctx);
    close_all();
}
END_TEST

/* 16,777,116 tokens fill the header of 64 MiB. Nothing of them is evaluated: the cache knows its
 * length alone, and the file is not written. */
START_TEST(a_session_has_a_largest_length)
{
    const size_t n = 16777117;
    struct toy toy = small_toy();
    struct tern_error e = {0};
    struct model *m;
    struct cache c;
    toy.n_layers = 1;
    open_toy(&toy);
    ck_assert(!model_open(&m, model_path, &e) && !cache_open(&c, m, &(struct cache_request){TERN_CACHE_F16, n, 1, 1, 0}, &e));
    c.length[0] = (uint32_t)n;
    ck_assert_int_eq(session_save(&c, 0, m, file, &e), TERN_LIMIT);
    ck_assert_msg(strstr(e.text, "a session cannot hold 16777117 tokens") != NULL, "%s", e.text);
    c.length[0]--;
    pretend = true;
    ck_assert_msg(!session_save(&c, 0, m, file, &e), "%s", e.text);
    pretend = false;
    cache_close(&c);
    model_close(m);
    close_all();
}
END_TEST

static mode_t saved_mode(tern_context *ctx)
{
    struct stat there;
    save(ctx);
    ck_assert(!stat(file, &there));
    return there.st_mode & 0777;
}

/* Whatever the umask; a text may be private. */
START_TEST(a_saved_file_keeps_its_mode)
{
    struct toy toy = small_toy();
    open_toy(&toy);
    tern_context *ctx = open_context(40, 40, TERN_CACHE_F16);
    feed(ctx, text, 0, 5, false);
    unlink(file);
    mode_t before = umask(0);
    ck_assert_uint_eq(saved_mode(ctx), 0600);
    ck_assert(!chmod(file, 0400));
    ck_assert_uint_eq(saved_mode(ctx), 0400);
    umask(077);
    ck_assert(!chmod(file, 0664));
    ck_assert_uint_eq(saved_mode(ctx), 0664);
    umask(before);
    tern_context_close(ctx);
    close_all();
}
END_TEST

/* The file is on the disk before it takes the old one's name, and then the name is. */
START_TEST(a_save_is_synced)
{
    struct toy toy = small_toy();
    struct tern_error e = {0};
    char temporary[300];
    open_toy(&toy);
    tern_context *ctx = open_context(40, 40, TERN_CACHE_F16);
    feed(ctx, text, 0, 5, false);
    memset(synced, 0, sizeof synced);
    int before = dup(0);
    save(ctx);
    int after = dup(0);
    ck_assert_int_eq(after, before + 1); /* nothing stays open */
    close(before), close(after);
    ck_assert_int_eq(synced[0], 1);
    ck_assert_int_eq(synced[1], 1);
    feed(ctx, text, 5, 9, false);
    sync_error[0] = EIO; /* the old file stays */
    ck_assert_int_eq(tern_session_save(ctx, 0, file, &e), TERN_IO);
    size_t n = strlen(file);
    ck_assert_msg(!strncmp(e.text, file, n) && !strncmp(e.text + n, ": cannot sync: ", 15), "%s",
                  e.text);
    ck_assert_int_eq(synced[1], 1);
    snprintf(temporary, sizeof temporary, "%s.%ld.tmp", file, (long)getpid());
    ck_assert(access(temporary, F_OK) && errno == ENOENT);
    load(ctx);
    ck_assert_uint_eq(tern_seq_length(ctx, 0), 5);
    feed(ctx, text, 5, 9, false);
    sync_error[0] = EINTR, sync_error[1] = EIO; /* again; the file is in place by then */
    save(ctx);
    ck_assert_int_eq(synced[0], 4);
    ck_assert_int_eq(synced[1], 2);
    load(ctx);
    ck_assert_uint_eq(tern_seq_length(ctx, 0), 9);
    sync_error[0] = EINVAL; /* a file system that cannot */
    save(ctx);
    tern_context_close(ctx);
    close_all();
}
END_TEST

/* Saves tokens [n] over the old file and dies before its k-th call. */
static bool child_saves(tern_context *ctx, size_t n, int k)
{
    int status;
    tern_seq_keep(ctx, 0, 0);
    feed(ctx, text, 0, n, false);
    pid_t child = fork();
    ck_assert(child >= 0);
    if (!child) { /* without Check's macros: a kill could tear what they write for both */
        die_at = k;
        _exit(tern_session_save(ctx, 0, file, NULL) != 0);
    }
    ck_assert(waitpid(child, &status, 0) == child);
    ck_assert_msg(WIFSIGNALED(status) || !status, "the child could not save");
    char temporary[300];
    snprintf(temporary, sizeof temporary, "%s.%ld.tmp", file, (long)child);
    unlink(temporary);
    return WIFEXITED(status);
}

/* Killed before any call that changes a file, there is the old file or the new one. */
START_TEST(a_killed_save_leaves_a_whole_file)
{
    struct toy toy = small_toy();
    unsigned old = 0, renewed = 0;
    bool done = false;
    open_toy(&toy);
    tern_context *ctx = open_context(700, 100, 0);
    for (int k = 1; !done; k++) {
        unlink(file);
        feed(ctx, text, 0, 300, false);
        save(ctx);
        done = child_saves(ctx, 200, k);
        load(ctx);
        unsigned n = tern_seq_length(ctx, 0);
        ck_assert(n == 200 || (n == 300 && !renewed));
        n == 200 ? renewed++ : old++;
        tern_seq_keep(ctx, 0, 0);
    }
    ck_assert_uint_gt(old, 20);    /* of writes, which are many, a sync and the rename */
    ck_assert_uint_eq(renewed, 2); /* the folder's sync, and the whole run */
    tern_context_close(ctx);
    close_all();
}
END_TEST

/* ---- texts that change ---------------------------------------------------------------------- */

START_TEST(what_a_sequence_holds_is_not_evaluated_again)
{
    struct toy toy = toy_default();
    tern_token other[40];
    open_toy(&toy);
    tern_context *ctx = open_context(40, 40, TERN_CACHE_F16);
    memcpy(other, text, sizeof other);
    other[20] = (other[20] + 1) % 259;
    ck_assert_uint_eq(tern_seq_reuse(ctx, 0, text, 30), 0);
    feed(ctx, text, 0, 30, false);
    ck_assert_uint_eq(tern_seq_reuse(ctx, 0, text, 40), 30);
    ck_assert_uint_eq(tern_seq_reuse(ctx, 0, text, 30), 29); /* the last one's logits are wanted */
    ck_assert_uint_eq(tern_seq_reuse(ctx, 0, text, 0), 0);
    feed(ctx, text, 0, 30, false);
    ck_assert_uint_eq(tern_seq_fork(ctx, 0, 1, 25), 25);
    ck_assert(!memcmp(tern_seq_tokens(ctx, 1), text, 25 * sizeof *text));
    ck_assert_ptr_null(tern_seq_tokens(ctx, 2));
    ck_assert_uint_eq(tern_seq_reuse(ctx, 0, other, 40), 20);
    ck_assert_uint_eq(mark(ctx, other, 20, 40), fresh_mark(0, other, 20, 40));
    ck_assert(!memcmp(tern_seq_tokens(ctx, 0), other, sizeof other));
    ck_assert_uint_eq(tern_seq_reuse(ctx, 2, other, 40), 0);
    tern_context_close(ctx);
    close_all();
}
END_TEST

/* ---- shift ---------------------------------------------------------------------------------- */

static int mirostat; /* of generate() */
static uint32_t lookup = 5;

static struct tern_generate_result generate(tern_context *ctx, const tern_token *prompt, size_t n,
                                            int64_t n_predict, int shift, uint32_t keep)
{
    struct tern_error e = {0};
    struct tern_sampler_params sampler = {
        .temperature = 1.2f, .repeat_penalty = 1.3f, .repeat_last_n = 64, .top_p = 1, .seed = 3};
    sampler.mirostat = mirostat, sampler.mirostat_tau = 3, sampler.mirostat_eta = 0.5f;
    struct tern_generate_params p = tern_generate_defaults();
    struct tern_generate_result r;
    p.tokens = prompt, p.n_tokens = n, p.n_predict = n_predict, p.ignore_end = 1;
    p.shift = shift, p.keep = keep, p.sampler = &sampler, p.lookup = lookup;
    ck_assert_msg(!tern_generate(ctx, &p, &r, &e), "%s", e.text);
    return r;
}

/* Fills a context, with `more` tokens beyond; compares with a new text of what should remain. */
static void check_shift(enum tern_cache_type type, uint32_t n_ctx, uint32_t keep, size_t more)
{
    enum { N = 40 };
    tern_token kept[800];
    tern_context *ctx = open_context(n_ctx, 64, type);
    struct tern_generate_result r = generate(ctx, text, N, n_ctx - N + 1, 1, keep);
    ck_assert(r.n_shifts == 0 && r.reason == TERN_STOP_LENGTH);
    ck_assert_uint_eq(tern_seq_length(ctx, 0), n_ctx); /* and one beyond it */
    const tern_token *full = tern_seq_tokens(ctx, 0);
    size_t newest = (n_ctx + 1 - keep) / 2, n = keep + newest;
    memcpy(kept, full, keep * sizeof *kept);
    memcpy(kept + keep, full + n_ctx + 1 - newest, (newest - 1) * sizeof *kept);
    kept[n - 1] = r.last;
    tern_seq_keep(ctx, 0, 0);
    r = generate(ctx, text, N, (int64_t)(n_ctx - N + 1 + more), 1, keep);
    ck_assert_uint_eq(r.n_shifts, 1);
    ck_assert(r.n_shifted > 0 && r.n_shifted <= n && r.shift_seconds <= r.generate_seconds);
    tern_context *fresh = open_context(n_ctx, 11, type);
    struct tern_generate_result f = generate(fresh, kept, n, (int64_t)more, 1, keep);
    ck_assert(f.n_shifts == 0 && f.last == r.last);
    ck_assert_uint_eq(tern_seq_length(fresh, 0), n + more - 1);
    ck_assert_uint_eq(tern_seq_length(ctx, 0), n + more - 1);
    ck_assert(!memcmp(tern_seq_tokens(ctx, 0), tern_seq_tokens(fresh, 0), 4 * (n + more - 1)));
    ck_assert(!memcmp(tern_logits(ctx, tern_n_logits(ctx) - 1),
                      tern_logits(fresh, tern_n_logits(fresh) - 1), 4 * info.vocab));
    ck_assert_uint_eq(mark(ctx, text, 0, 5), mark(fresh, text, 0, 5));
    tern_context_close(ctx);
    tern_context_close(fresh);
}

START_TEST(a_shift_gives_the_bits_of_a_new_text)
{
    if (!golden_is_due(_i))
        return;
    open_golden(golden_names[_i]);
    for (int type = is_slow() ? 2 : 0; tern_cache_type_name(type); type++)
        check_shift(type, type == 1 && info.max_seq >= 100 ? 100 : 63, type == 2 ? 0 : 17, 9);
    if (info.max_seq > 400 && !is_slow())
        check_shift(TERN_CACHE_F32, 400, 4, 30);
    close_all();
}
END_TEST

START_TEST(a_shift_begins_mirostat_anew)
{
    struct toy toy = toy_default();
    open_toy(&toy);
    for (mirostat = 2, lookup = 0; lookup <= 5; lookup += 5)
        check_shift(TERN_CACHE_F16, 63, 17, 9);
    mirostat = 0, lookup = 5;
    close_all();
}
END_TEST

struct shift_canceller {
    tern_context *ctx;
    uint32_t full, at; /* cancels in the batch that begins there, after one that reached `full`; how many
                        * rows that one has is for the clock to decide */
    bool shifted;
};

static void cancel_in_shift(void *arg, const struct tern_observation *o)
{
    struct shift_canceller *c = arg;
    c->shifted |= o->at[o->rows - 1].position + 1 == c->full; /* maybe behind guesses */
    if (c->shifted && o->at[0].position == c->at)
        tern_cancel(c->ctx);
}

/* Wherever a shift is cancelled, the sequence is the text that it makes, whole. */
START_TEST(a_cancelled_shift_is_a_whole_text)
{
    enum { N = 20, FULL = 50, KEEP = 6, LEFT = KEEP + (FULL + 1 - KEEP) / 2 };
    struct toy toy = toy_default();
    struct tern_error e = {0};
    tern_token kept[FULL];
    open_toy(&toy);
    for (uint32_t at = KEEP; at < LEFT; at += 5) {
        tern_context *ctx = open_context(FULL, 5, TERN_CACHE_F16);
        struct tern_generate_result r = generate(ctx, text, N, FULL - N + 1, 1, KEEP);
        memcpy(kept, tern_seq_tokens(ctx, 0), KEEP * sizeof *kept);
        memcpy(kept + KEEP, tern_seq_tokens(ctx, 0) + FULL - (LEFT - KEEP - 1),
               (LEFT - KEEP - 1) * sizeof *kept);
        kept[LEFT - 1] = r.last;
        tern_seq_keep(ctx, 0, 0);
        struct shift_canceller c = {ctx, FULL, at, false};
        ck_assert(!tern_observe(ctx, cancel_in_shift, &c, &e));
        r = generate(ctx, text, N, -1, 1, KEEP);
        ck_assert(r.reason == TERN_STOP_CANCELLED && r.n_shifts == 1 &&
                  r.n_generated == FULL - N + 1);
        ck_assert_int_eq(r.last, -1);
        ck_assert_uint_eq(tern_seq_length(ctx, 0), LEFT);
        ck_assert(!memcmp(tern_seq_tokens(ctx, 0), kept, LEFT * sizeof *kept));
        memcpy(kept + LEFT, text + LEFT, (FULL - LEFT) * sizeof *kept);
        ck_assert(!tern_observe(ctx, NULL, NULL, &e));
        ck_assert_uint_eq(mark(ctx, text, LEFT, FULL), fresh_mark(0, kept, LEFT, FULL));
        tern_context_close(ctx);
    }
    close_all();
}
END_TEST

START_TEST(contexts_of_any_size_shift_and_full_ones_stop)
{
    struct toy toy = toy_default();
    open_toy(&toy);
    for (uint32_t n_ctx = 1; n_ctx < 30; n_ctx += 1 + n_ctx / (is_slow() ? 1 : 6))
        for (uint32_t keep = 0; keep <= n_ctx + 1; keep++) {
            tern_context *ctx = open_context(n_ctx, 64, TERN_CACHE_F16);
            struct tern_generate_result r = generate(ctx, text, 1 + n_ctx / 3, 100, 1, keep);
            ck_assert(r.n_generated == 100 && r.n_shifts > 0 && r.reason == TERN_STOP_LENGTH);
            tern_seq_keep(ctx, 0, 0);
            r = generate(ctx, text, n_ctx, -1, 0, keep);
            ck_assert(r.n_generated == 1 && !r.n_shifts && r.reason == TERN_STOP_CONTEXT);
            tern_context_close(ctx);
        }
    close_all();
}
END_TEST

SUITE("session", LOOP(a_restored_session_gives_the_bits_of_a_fresh_run, 0, golden_count()),
      TEST(sessions_of_windowed_models_fit_any_context), TEST(every_byte_of_a_session_counts),
      TEST(a_session_of_something_else_is_refused), TEST(a_session_has_a_largest_length),
      TEST(a_saved_file_keeps_its_mode), TEST(a_save_is_synced),
      TEST(a_killed_save_leaves_a_whole_file), TEST(what_a_sequence_holds_is_not_evaluated_again),
      LOOP(a_shift_gives_the_bits_of_a_new_text, 0, golden_count()),
      TEST(a_shift_begins_mirostat_anew), TEST(a_cancelled_shift_is_a_whole_text),
      TEST(contexts_of_any_size_shift_and_full_ones_stop))
