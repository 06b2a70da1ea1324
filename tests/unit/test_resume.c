/* ldflags: -Wl,--wrap=malloc,--wrap=calloc,--wrap=realloc,--wrap=free */
/* The file of --session: when a run may go on with it, when it is replaced, and what it then holds.
 * tests/cli/test_session_cli.py asks the program the same. */
#define _XOPEN_SOURCE 600 /* posix_openpt */
#include "allocs.h"
#include "app/cli/signals.h"
#include "app/run/resume.h"
#include "suite.h"
#include "toy.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <unistd.h>

enum { N_CTX = 24 };

static char model_path[] = "models/fable.bin", folder[256], path[300], words[4096];
static tern_model *model;
static tern_context *ctx;
static struct run_options options;
static struct tern_error e;
static const tern_token text[N_CTX + 2] = {1,   300, 301, 302, 303, 304, 305, 306, 307,
                                           308, 309, 310, 311, 312, 313, 314, 315, 316,
                                           317, 318, 319, 320, 321, 322, 323, 324};

static void setup(void)
{
    const struct tern_model_params one_thread = {.n_threads = 1};
    ck_assert_msg(!tern_model_open(&model, model_path, &one_thread, &e), "%s", e.text);
    toy_path(folder, sizeof folder, "resume");
    snprintf(path, sizeof path, "%s/session", folder);
    ck_assert(!mkdir(folder, 0700));
    options.value[OPT_SESSION].text = path;
}

static void teardown(void)
{
    unlink(path);
    rmdir(folder);
    tern_context_close(ctx);
    tern_model_close(model);
    ctx = NULL, model = NULL;
    memset(&options, 0, sizeof options);
}

static void open_context(void)
{
    const struct tern_context_params p = {.n_ctx = N_CTX, .n_batch = 8};
    tern_context_close(ctx);
    ck_assert_msg(!tern_context_open(&ctx, model, &p, &e), "%s", e.text);
}

/* A context that holds text [n]. */
static void hold(size_t n)
{
    open_context();
    for (size_t i = 0; i < n; i++) {
        ck_assert(!tern_batch_add(ctx, 0, text[i], 0, &e));
        ck_assert(!tern_forward(ctx));
    }
}

static void held(const tern_token *tokens, size_t n)
{
    ck_assert_uint_eq(tern_seq_length(ctx, 0), n);
    ck_assert(!memcmp(tern_seq_tokens(ctx, 0), tokens, n * sizeof *tokens));
}

static void save(size_t n)
{
    hold(n);
    ck_assert_msg(!resume_save(ctx, &options, -1, 0, false, &e), "%s", e.text);
}

static void expect(enum tern_status got, enum tern_status status, const char *sentence)
{
    ck_assert_msg(got == status && e.code == status, "status %d: %s", got, e.text);
    ck_assert_msg(strstr(e.text, sentence), "'%s' lacks '%s'", e.text, sentence);
}

/* ---- standard error, kept ---- */

static FILE *kept;
static int real_error;

static void listen(void)
{
    real_error = dup(2);
    kept = tmpfile();
    ck_assert(kept && dup2(fileno(kept), 2) == 2);
}

static const char *heard(void)
{
    fflush(stderr);
    dup2(real_error, 2);
    close(real_error);
    rewind(kept);
    words[fread(words, 1, sizeof words - 1, kept)] = 0;
    fclose(kept);
    return words;
}

/* ---- the file ---- */

START_TEST(without_the_option_nothing_happens)
{
    options.value[OPT_SESSION].text = NULL;
    hold(5);
    ck_assert_int_eq(resume_open(ctx, &options, &e), TERN_OK);
    ck_assert_int_eq(resume_check(ctx, &options, text + 3, 4, false, &e), TERN_OK);
    ck_assert_int_eq(resume_save(ctx, &options, 400, 0, false, &e), TERN_OK);
    held(text, 5);
    ck_assert(access(path, F_OK));
}
END_TEST

START_TEST(what_was_saved_is_restored)
{
    for (int verbose = 0; verbose < 2; verbose++) {
        char restored[400], saved[400];
        options.value[OPT_VERBOSE].given = verbose;
        snprintf(saved, sizeof saved, "session: 9 tokens saved to %s\n", path);
        snprintf(restored, sizeof restored, "session: 9 tokens restored from %s\n", path);
        listen();
        save(9);
        ck_assert_str_eq(heard(), verbose ? saved : "");
        open_context();
        listen();
        ck_assert_int_eq(resume_open(ctx, &options, &e), TERN_OK);
        ck_assert_str_eq(heard(), verbose ? restored : "");
        held(text, 9);
    }
}
END_TEST

/* Before the text, not after it. */
START_TEST(a_folder_that_takes_no_file_is_refused_at_once)
{
    char here[512];
    open_context();
    ck_assert_int_eq(resume_open(ctx, &options, &e), TERN_OK); /* there is none yet */
    options.value[OPT_SESSION].text = "/nowhere/x";
    expect(resume_open(ctx, &options, &e), TERN_IO,
           "--session /nowhere/x: cannot write to its folder: No such file");
    options.value[OPT_SESSION].text = "/x/y"; /* a folder that is not there, in one that is */
    expect(resume_open(ctx, &options, &e), TERN_IO, "cannot write to its folder: No such file");
    ck_assert(getcwd(here, sizeof here) && !chdir(folder));
    options.value[OPT_SESSION].text = "session";
    ck_assert_int_eq(resume_open(ctx, &options, &e), TERN_OK);
    if (geteuid()) {
        ck_assert(!chmod(folder, 0500));
        expect(resume_open(ctx, &options, &e), TERN_IO, "--session session: cannot write to its");
        ck_assert(!chmod(folder, 0700));
        save(3);
        ck_assert(!chmod(folder, 0500));
        expect(resume_open(ctx, &options, &e), TERN_IO, "--session session: cannot write to its");
        ck_assert(!chmod(folder, 0700));
    }
    ck_assert(!chdir(here));
}
END_TEST

START_TEST(what_cannot_be_restored_names_option_and_file_once)
{
    char sentence[400];
    save(3);
    ck_assert(!truncate(path, 100));
    snprintf(sentence, sizeof sentence, "--session %s: it is cut", path);
    expect(resume_open(ctx, &options, &e), TERN_BAD_FILE, sentence);
    ck_assert_ptr_eq(strstr(e.text, sentence), e.text);
    save(3);
    snprintf(sentence, sizeof sentence, "--session %s: not enough memory", path);
    for (int i = 0; i < 2; i++) { /* the system's own sentence names no file */
        allocs_start(1, 0);
        enum tern_status s =
            i ? resume_open(ctx, &options, &e) : resume_save(ctx, &options, -1, 0, false, &e);
        allocs_stop();
        expect(s, TERN_NO_MEMORY, sentence);
        ck_assert_ptr_eq(strstr(e.text, sentence), e.text);
    }
    unlink(path);
    ck_assert(!symlink("nothing", path));
    expect(resume_open(ctx, &options, &e), TERN_USAGE, "is a link; name the file itself");
}
END_TEST

/* ---- another text ---- */

static const struct {
    tern_token tokens[6];
    size_t n;
    bool differs, differs_in_chat;
} prompts[] = {
    {{1, 300, 301, 302}, 4, false, false}, {{1, 300, 301, 302, 9}, 5, false, false},
    {{1, 300}, 2, false, false},           {{0}, 0, false, false},
    {{1, 300, 301, 9}, 4, true, false},    {{1, 300, 9, 302, 303}, 5, true, false},
    {{1, 9, 301}, 3, true, true},          {{1, 9}, 2, true, true},
    {{9, 300, 301, 302}, 4, true, true},
};

START_TEST(another_text_is_not_replaced)
{
    hold(4);
    for (size_t i = 0; i < sizeof prompts / sizeof *prompts; i++)
        for (int chat = 0; chat < 2; chat++) {
            bool differs = chat ? prompts[i].differs_in_chat : prompts[i].differs;
            enum tern_status s =
                resume_check(ctx, &options, prompts[i].tokens, prompts[i].n, chat, &e);
            ck_assert_msg(s == (differs ? TERN_USAGE : TERN_OK), "%zu %d: %d", i, chat, s);
            if (differs)
                expect(s, TERN_USAGE, "holds another text; --session-new replaces it");
        }
    options.value[OPT_SESSION_NEW].given = true;
    ck_assert_int_eq(resume_check(ctx, &options, text + 1, 3, false, &e), TERN_OK);
}
END_TEST

/* Runs the check with a terminal for `input` and `error`, at which `answer` was typed. */
static enum tern_status asked(const char *answer, bool input, bool error)
{
    int terminal = posix_openpt(O_RDWR | O_NOCTTY), nothing = open("/dev/null", O_RDWR), old[3];
    ck_assert(terminal >= 0 && !grantpt(terminal) && !unlockpt(terminal));
    int fd = open(ptsname(terminal), O_RDWR | O_NOCTTY);
    ck_assert(fd >= 0 && write(terminal, answer, strlen(answer)) >= 0);
    old[0] = dup(0), old[2] = dup(2);
    dup2(input ? fd : nothing, 0);
    dup2(error ? fd : nothing, 2);
    enum tern_status s = resume_check(ctx, &options, text + 1, 3, false, &e);
    for (int i = 0; i < 3; i += 2)
        dup2(old[i], i), close(old[i]);
    memset(words, 0, sizeof words);
    struct pollfd from = {.fd = terminal, .events = POLLIN};
    for (size_t n = 0; input && error && !strstr(words, "[y/N] ");) { /* behind the answer's echo */
        ck_assert_msg(poll(&from, 1, 5000) == 1, "nobody was asked: %s", words);
        ssize_t more = read(terminal, words + n, sizeof words - 1 - n);
        ck_assert(more > 0);
        n += (size_t)more;
    }
    close(fd);
    close(nothing);
    close(terminal);
    return s;
}

START_TEST(a_person_at_the_terminal_is_asked)
{
    hold(4);
    ck_assert_int_eq(asked("y\n", true, true), TERN_OK);
    ck_assert_msg(strstr(words, "holds another text. Replace it? [y/N] ") != NULL, "%s", words);
    ck_assert_int_eq(asked("Yes\n", true, true), TERN_OK);
    ck_assert_int_eq(asked("y\004", true, true), TERN_OK); /* ended by Ctrl-D */
    static const char *const no[] = {"n\n", "\n", "ny\n", "\004"};
    for (size_t i = 0; i < sizeof no / sizeof *no; i++)
        expect(asked(no[i], true, true), TERN_USAGE, "was not changed");
    expect(asked("y\n", true, false), TERN_USAGE, "--session-new replaces it");
    expect(asked("y\n", false, true), TERN_USAGE, "--session-new replaces it");
    signals_init("run", model_path);
    signals_note();
    ck_assert(!raise(SIGINT));
    expect(asked("y\n", true, true), TERN_CANCELLED, "was not changed");
    signals_clear();
}
END_TEST

/* ---- what is saved ---- */

START_TEST(the_last_token_is_saved_too)
{
    hold(5);
    ck_assert_int_eq(resume_save(ctx, &options, text[5], 0, false, &e), TERN_OK);
    held(text, 6);
    open_context();
    ck_assert_int_eq(resume_open(ctx, &options, &e), TERN_OK);
    held(text, 6);
    tern_token end = 0;
    while (!tern_token_is_end(model, end))
        end++;
    ck_assert_int_eq(resume_save(ctx, &options, end, 0, false, &e), TERN_OK);
    held(text, 6);    /* but not one that ends it */
    tern_cancel(ctx); /* a signal that came since */
    ck_assert_int_eq(resume_save(ctx, &options, text[6], 0, false, &e), TERN_OK);
    held(text, 7);
}
END_TEST

START_TEST(a_save_takes_its_time_after_a_signal)
{
    struct itimerval left;
    hold(5);
    signals_hold(false); /* other tests saved before */
    signals_init("run", model_path);
    signals_note();
    ck_assert(!raise(SIGTERM) && !getitimer(ITIMER_REAL, &left) && left.it_value.tv_usec);
    ck_assert_int_eq(resume_save(ctx, &options, text[5], 0, false, &e), TERN_OK);
    ck_assert(!getitimer(ITIMER_REAL, &left) && !left.it_value.tv_usec);
    signals_clear();
}
END_TEST

/* Of a model in which it ends nothing. */
START_TEST(token_0_is_one_like_any_other)
{
    static const tern_token want[] = {1, 0};
    struct toy toy = toy_default();
    char toy_file[300];
    snprintf(toy_file, sizeof toy_file, "%s/toy", folder);
    tern_model_close(model);
    ck_assert(!toy_write(toy_file, &toy, &e) && !tern_model_open(&model, toy_file, NULL, &e));
    unlink(toy_file);
    hold(1);
    ck_assert_int_eq(resume_save(ctx, &options, 0, 0, false, &e), TERN_OK);
    held(want, 2);
}
END_TEST

START_TEST(nothing_is_saved_of_nothing_and_of_half_a_prompt)
{
    open_context();
    ck_assert_int_eq(resume_save(ctx, &options, -1, 0, false, &e), TERN_OK);
    ck_assert(access(path, F_OK));
    hold(3);
    listen();
    ck_assert_int_eq(resume_save(ctx, &options, 400, 0, true, &e), TERN_OK);
    ck_assert(strstr(heard(), "was not changed, because the prompt was not read completely"));
    ck_assert(access(path, F_OK));
    held(text, 3);
}
END_TEST

/* The first tokens and the newest half of the others, with the last one. */
START_TEST(a_full_context_is_shifted_for_the_last_token)
{
    static const size_t keeps[] = {0, 1, 5, 10, N_CTX / 2, N_CTX / 2 + 1, N_CTX, 1000};
    for (size_t i = 0; i < 2 * (sizeof keeps / sizeof *keeps); i++) {
        tern_token want[N_CTX + 1];
        size_t keep = keeps[i / 2] < N_CTX / 2 ? keeps[i / 2] : N_CTX / 2;
        size_t newest = (N_CTX + 1 - keep) / 2;
        memcpy(want, text, keep * sizeof *want);
        memcpy(want + keep, text + N_CTX + 1 - newest, newest * sizeof *want);
        hold(N_CTX);
        if (i % 2) /* a signal that came since */
            tern_cancel(ctx);
        ck_assert_msg(!resume_save(ctx, &options, text[N_CTX], keeps[i / 2], false, &e), "%s",
                      e.text);
        held(want, keep + newest);
    }
    hold(N_CTX);
    allocs_start(1, 0);
    enum tern_status s = resume_save(ctx, &options, text[N_CTX], 0, false, &e);
    allocs_stop();
    expect(s, TERN_NO_MEMORY, "not enough memory");
    allocs_start(0, 0);
    ck_assert_int_eq(resume_save(ctx, &options, text[N_CTX], 0, false, &e), TERN_OK);
    ck_assert_uint_eq(allocs_live(), 0);
}
END_TEST

SUITE("resume", AROUND_EACH(setup, teardown), TEST(without_the_option_nothing_happens),
      TEST(what_was_saved_is_restored), TEST(a_folder_that_takes_no_file_is_refused_at_once),
      TEST(what_cannot_be_restored_names_option_and_file_once), TEST(another_text_is_not_replaced),
      TEST(a_person_at_the_terminal_is_asked), TEST(the_last_token_is_saved_too),
      TEST(a_save_takes_its_time_after_a_signal), TEST(token_0_is_one_like_any_other),
      TEST(nothing_is_saved_of_nothing_and_of_half_a_prompt),
      TEST(a_full_context_is_shifted_for_the_last_token))
