/* ldflags: -Wl,--wrap=fsync,--wrap=pwrite,--wrap=pwrite64,--wrap=rename */
/* Session files: what is restored gives the bits of a fresh run, for every golden model and type of
 * cache; what is damaged or of something else is refused; a save leaves a whole file. */
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
#include "sequence_run.h"
#include "suite.h"
#include "weights/keys.h"

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
static char *contents(size_t *n)
{
    FILE *f = fopen(seq_path, "rb");
    ck_assert(f && !fseek(f, 0, SEEK_END));
    *n = (size_t)ftell(f);
    rewind(f);
    char *p = malloc(*n);
    ck_assert(p && fread(p, 1, *n, f) == *n);
    fclose(f);
    return p;
}

static void save(tern_context *ctx)
{
    struct tern_error e = {0};
    ck_assert_msg(!tern_session_save(ctx, 0, seq_path, &e), "%s", e.text);
}

static void load(tern_context *ctx)
{
    struct tern_error e = {0};
    ck_assert_msg(!tern_session_load(ctx, 0, seq_path, &e), "%s", e.text);
    ck_assert(!e.text[0]);
}

/* n tokens saved by one context, restored by another over what that held, and continued. The file
 * shows nothing of other texts. */
static void check_restored(enum tern_cache_type type, size_t n)
{
    size_t bytes, again_bytes, end = n + 8;
    tern_context *ctx = seq_context((uint32_t)end + 3, 40, type);
    seq_feed(ctx, seq_text, 0, n, false);
    save(ctx);
    tern_context_close(ctx);
    ctx = seq_context((uint32_t)end, 7, type);
    seq_feed(ctx, seq_text + 9, 0, end, false);
    load(ctx);
    ck_assert_uint_eq(tern_seq_length(ctx, 0), n);
    ck_assert(!memcmp(tern_seq_tokens(ctx, 0), seq_text, n * sizeof *seq_text));
    char *first = contents(&bytes);
    save(ctx);
    char *again = contents(&again_bytes);
    ck_assert(bytes == again_bytes && !memcmp(first, again, bytes));
    ck_assert_uint_eq(seq_mark(ctx, seq_text, n, end), seq_fresh_mark(type, seq_text, n, end));
    tern_seq_keep(ctx, 0, 0); /* the pages hold another text now, and the file must not */
    seq_feed(ctx, seq_text, 0, n, false);
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
    seq_open_golden(golden_names[_i]);
    for (int type = 0; tern_cache_type_name(type); type++) {
        check_restored(type, 30);
        if (seq_info.max_seq > 290 && !seq_is_slow())
            check_restored(type, 270);
    }
    seq_close();
}
END_TEST

/* A window that has let go of pages, restored where the window is wider than the context. */
START_TEST(sessions_of_windowed_models_fit_any_context)
{
    struct toy toy = seq_small_toy();
    toy.window[0] = 90;
    seq_open_toy(&toy);
    for (int type = 0; tern_cache_type_name(type); type++) {
        check_restored(type, 600);
        check_restored(type, 512);
        check_restored(type, 60);
    }
    check_restored(0, 1); /* a block of one position, alone and behind a whole one */
    check_restored(0, 257);
    tern_context *wide = seq_context(700, 50, 0), *narrow = seq_context(85, 50, 0);
    seq_feed(wide, seq_text, 0, 80, false);
    save(wide);
    load(narrow); /* whose 85 positions feel no window of 90 */
    ck_assert_uint_eq(seq_mark(narrow, seq_text, 80, 85), seq_fresh_mark(0, seq_text, 80, 85));
    ck_assert_uint_eq(tern_seq_keep(narrow, 0, 80), 80);
    save(narrow);
    tern_seq_keep(wide, 0, 0);
    load(wide);
    ck_assert_uint_eq(seq_mark(wide, seq_text, 80, 300), seq_fresh_mark(0, seq_text, 80, 300));
    tern_context_close(wide);
    tern_context_close(narrow);
    seq_close();
}
END_TEST

/* What cannot be loaded leaves the sequence as it was. */
static void refuse(tern_context *ctx, enum tern_status want, const char *words)
{
    struct tern_error e = {0};
    uint32_t n = tern_seq_length(ctx, 0);
    enum tern_status s = tern_session_load(ctx, 0, seq_path, &e);
    ck_assert_msg((int)s == (int)want || (!want && s), "%d: %s", s, e.text);
    ck_assert_msg(strstr(e.text, seq_path) == e.text && strstr(e.text, words), "%s", e.text);
    ck_assert(tern_seq_length(ctx, 0) == n && !memcmp(tern_seq_tokens(ctx, 0), seq_text, 4 * n));
}

START_TEST(every_byte_of_a_session_counts)
{
    struct toy toy = seq_small_toy();
    struct image i = {0};
    toy.n_layers = 1;
    seq_open_toy(&toy);
    tern_context *ctx = seq_context(20, 20, 0);
    seq_feed(ctx, seq_text, 0, 10, false);
    save(ctx);
    i.p = (unsigned char *)contents(&i.n);
    tern_seq_keep(ctx, 0, 6);
    int fd = open(seq_path, O_RDWR);
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
    ck_assert_uint_eq(seq_mark(ctx, seq_text, 6, 20), seq_fresh_mark(0, seq_text, 6, 20));
    image_close(&i);
    tern_context_close(ctx);
    seq_close();
}
END_TEST

START_TEST(a_session_of_something_else_is_refused)
{
    struct toy toy = seq_small_toy();
    struct tern_error e = {0};
    toy.head_dim = 4;
    seq_open_toy(&toy);
    tern_context *ctx = seq_context(40, 40, TERN_CACHE_F16);
    ck_assert_int_eq(tern_session_save(ctx, 0, seq_path, &e), TERN_USAGE); /* empty */
    ck_assert_int_eq(tern_session_load(ctx, 2, seq_path, &e), TERN_USAGE);
    refuse(ctx, TERN_IO, "No such file");
    ck_assert_int_eq(tern_session_load(ctx, 0, seq_path, NULL), TERN_IO);
    seq_feed(ctx, seq_text, 0, 30, false);
    save(ctx);
    ck_assert_int_eq(tern_session_save(ctx, 0, seq_model_path, &e), TERN_USAGE);
    ck_assert_int_eq(tern_session_save(ctx, 0, "/nowhere/x", &e), TERN_IO);
    tern_context *other = seq_context(29, 29, TERN_CACHE_F16);
    refuse(other, TERN_LIMIT, "30 tokens and the context 29");
    tern_context_close(other);
    other = seq_context(40, 29, TERN_CACHE_Q8);
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
        image_save(&copy, seq_path);
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
        image_save(&copy, seq_path);
        refuse(ctx, TERN_BAD_FILE, critical ? "is needed and unknown" : absent[k / 2].words);
        image_close(&copy);
    }
    image_save(&session, seq_path);
    other = seq_context(30, 30, TERN_CACHE_F16); /* it fits exactly */
    load(other);
    tern_context_close(other);
    copy = image_copy(&session);
    copy.p[image_key(&copy, "config", "tokens") + 8] = KEY_F32; /* as wide as its own */
    image_repair(copy.p, copy.n);
    image_save(&copy, seq_path);
    refuse(ctx, TERN_BAD_FILE, "it is f32, want u32");
    image_close(&copy);
    for (uint32_t token = 39; token <= 40; token++) { /* the last one of the vocabulary, and more */
        copy = image_copy(&session);
        memcpy(copy.p + image_key(&copy, "config", "tokens") + 32 + 8, &token, sizeof token);
        image_repair(copy.p, copy.n);
        image_save(&copy, seq_path);
        if (token < 40)
            load(ctx);
        else
            refuse(ctx, TERN_BAD_FILE, "token 40 is outside the vocabulary of 40");
        image_close(&copy);
        tern_seq_keep(ctx, 0, 0);
        seq_feed(ctx, seq_text, 0, 30, false);
    }
    image_save(&session, seq_path);
    tern_context_close(ctx);
    tern_model_close(seq_model);
    toy.rope_theta *= 2; /* the same tensors */
    ck_assert(!toy_write(seq_model_path, &toy, &e));
    seq_open_path();
    ctx = seq_context(40, 40, TERN_CACHE_F16);
    image_save(&session, seq_path);
    refuse(ctx, TERN_BAD_FILE, "config of the model");
    unlink(seq_path);
    ck_assert(!link(seq_model_path, seq_path));
    refuse(ctx, TERN_BAD_FILE, "it holds a model, want a session");
    unlink(seq_path); /* not the model, which is mapped */
    tern_model *unopened = NULL;
    image_save(&session, seq_path);
    ck_assert_int_eq(tern_model_open(&unopened, seq_path, NULL, &e), TERN_BAD_FILE);
    image_close(&session);
    tern_context_close(ctx);
    seq_close();
}
END_TEST

/* 16,777,116 tokens fill the header of 64 MiB. Nothing of them is evaluated: the cache knows its
 * length alone, and the file is not written. */
START_TEST(a_session_has_a_largest_length)
{
    const size_t n = 16777117;
    struct toy toy = seq_small_toy();
    struct tern_error e = {0};
    struct model *m;
    struct cache c;
    toy.n_layers = 1;
    seq_open_toy(&toy);
    ck_assert(!model_open(&m, seq_model_path, &e) &&
              !cache_open(&c, m, &(struct cache_request){TERN_CACHE_F16, n, 1, 1, 0}, &e));
    c.length[0] = (uint32_t)n;
    ck_assert_int_eq(session_save(&c, 0, m, seq_path, &e), TERN_LIMIT);
    ck_assert_msg(strstr(e.text, "a session cannot hold 16777117 tokens") != NULL, "%s", e.text);
    c.length[0]--;
    pretend = true;
    ck_assert_msg(!session_save(&c, 0, m, seq_path, &e), "%s", e.text);
    pretend = false;
    cache_close(&c);
    model_close(m);
    seq_close();
}
END_TEST

static mode_t saved_mode(tern_context *ctx)
{
    struct stat there;
    save(ctx);
    ck_assert(!stat(seq_path, &there));
    return there.st_mode & 0777;
}

/* Whatever the umask; a text may be private. */
START_TEST(a_saved_file_keeps_its_mode)
{
    struct toy toy = seq_small_toy();
    seq_open_toy(&toy);
    tern_context *ctx = seq_context(40, 40, TERN_CACHE_F16);
    seq_feed(ctx, seq_text, 0, 5, false);
    unlink(seq_path);
    mode_t before = umask(0);
    ck_assert_uint_eq(saved_mode(ctx), 0600);
    ck_assert(!chmod(seq_path, 0400));
    ck_assert_uint_eq(saved_mode(ctx), 0400);
    umask(077);
    ck_assert(!chmod(seq_path, 0664));
    ck_assert_uint_eq(saved_mode(ctx), 0664);
    umask(before);
    tern_context_close(ctx);
    seq_close();
}
END_TEST

/* The file is on the disk before it takes the old one's name, and then the name is. */
START_TEST(a_save_is_synced)
{
    struct toy toy = seq_small_toy();
    struct tern_error e = {0};
    char temporary[300];
    seq_open_toy(&toy);
    tern_context *ctx = seq_context(40, 40, TERN_CACHE_F16);
    seq_feed(ctx, seq_text, 0, 5, false);
    memset(synced, 0, sizeof synced);
    int before = dup(0);
    save(ctx);
    int after = dup(0);
    ck_assert_int_eq(after, before + 1); /* nothing stays open */
    close(before), close(after);
    ck_assert_int_eq(synced[0], 1);
    ck_assert_int_eq(synced[1], 1);
    seq_feed(ctx, seq_text, 5, 9, false);
    sync_error[0] = EIO; /* the old file stays */
    ck_assert_int_eq(tern_session_save(ctx, 0, seq_path, &e), TERN_IO);
    size_t n = strlen(seq_path);
    ck_assert_msg(!strncmp(e.text, seq_path, n) && !strncmp(e.text + n, ": cannot sync: ", 15),
                  "%s", e.text);
    ck_assert_int_eq(synced[1], 1);
    snprintf(temporary, sizeof temporary, "%s.%ld.tmp", seq_path, (long)getpid());
    ck_assert(access(temporary, F_OK) && errno == ENOENT);
    load(ctx);
    ck_assert_uint_eq(tern_seq_length(ctx, 0), 5);
    seq_feed(ctx, seq_text, 5, 9, false);
    sync_error[0] = EINTR, sync_error[1] = EIO; /* again; the file is in place by then */
    save(ctx);
    ck_assert_int_eq(synced[0], 4);
    ck_assert_int_eq(synced[1], 2);
    load(ctx);
    ck_assert_uint_eq(tern_seq_length(ctx, 0), 9);
    sync_error[0] = EINVAL; /* a file system that cannot */
    save(ctx);
    tern_context_close(ctx);
    seq_close();
}
END_TEST

/* Saves tokens [n] over the old file and dies before its k-th call. */
static bool child_saves(tern_context *ctx, size_t n, int k)
{
    int status;
    tern_seq_keep(ctx, 0, 0);
    seq_feed(ctx, seq_text, 0, n, false);
    pid_t child = fork();
    ck_assert(child >= 0);
    if (!child) { /* without Check's macros: a kill could tear what they write for both */
        die_at = k;
        _exit(tern_session_save(ctx, 0, seq_path, NULL) != 0);
    }
    ck_assert(waitpid(child, &status, 0) == child);
    ck_assert_msg(WIFSIGNALED(status) || !status, "the child could not save");
    char temporary[300];
    snprintf(temporary, sizeof temporary, "%s.%ld.tmp", seq_path, (long)child);
    unlink(temporary);
    return WIFEXITED(status);
}

/* Killed before any call that changes a file, there is the old file or the new one. */
START_TEST(a_killed_save_leaves_a_whole_file)
{
    struct toy toy = seq_small_toy();
    unsigned old = 0, renewed = 0;
    bool done = false;
    seq_open_toy(&toy);
    tern_context *ctx = seq_context(700, 100, 0);
    for (int k = 1; !done; k++) {
        unlink(seq_path);
        seq_feed(ctx, seq_text, 0, 300, false);
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
    seq_close();
}
END_TEST

SUITE("session", LOOP(a_restored_session_gives_the_bits_of_a_fresh_run, 0, golden_count()),
      TEST(sessions_of_windowed_models_fit_any_context), TEST(every_byte_of_a_session_counts),
      TEST(a_session_of_something_else_is_refused), TEST(a_session_has_a_largest_length),
      TEST(a_saved_file_keeps_its_mode), TEST(a_save_is_synced),
      TEST(a_killed_save_leaves_a_whole_file))
