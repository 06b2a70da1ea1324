/* ldflags: -Wl,@tests/support/allocs.ld */
/* Fuzzes the files of /load: any bytes are loaded in the place of a conversation. Asserted: after a
 * refusal the conversation is as it was; what is accepted has its roles in turns, and comes back
 * the same from /save; the memory stays within what allocs_judge allows, and none is left behind. */
#include "allocs.h"
#include "app/run/conversation.h"
#include "text/unicode.h"
#include "toy.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static char given[256], saved[256];

static void leave(void)
{
    unlink(given);
    unlink(saved);
}

static void must(int good, const char *what)
{
    if (good)
        return;
    fprintf(stderr, "%s\n", what);
    abort();
}

static void write_file(const uint8_t *data, size_t size)
{
    static int fd = -1;
    if (fd < 0) {
        toy_path(given, sizeof given, "fuzz.jsonl");
        toy_path(saved, sizeof saved, "saved.jsonl");
        fd = open(given, O_RDWR | O_CREAT | O_TRUNC, 0600);
        atexit(leave);
    }
    must(!ftruncate(fd, 0) && pwrite(fd, data, size, 0) == (ssize_t)size, "cannot write");
}

static void must_be_in_turns(const struct conversation *c)
{
    must(c->n >= 3 && c->n % 2 == 1, "the last message has no answer");
    for (size_t i = 0; i < c->n; i++)
        must(!strcmp(c->list[i].role, i == 0  ? "system"
                                      : i % 2 ? "user"
                                              : "assistant"),
             "roles are not in turns");
}

/* What is not UTF-8 is saved as U+FFFD. */
static void must_come_back(const struct conversation *c)
{
    struct conversation again;
    struct tern_error e;
    must(!conversation_open(&again, &e) && !conversation_save(c, saved, &e) &&
             !conversation_load(&again, saved, &e),
         "what was loaded cannot be saved and loaded again");
    must(again.n == c->n, "messages are lost");
    for (size_t i = 0; i < c->n; i++) {
        const struct tern_chat_message *a = &c->list[i], *b = &again.list[i];
        must(!a->text == !b->text, "an empty text became none");
        if (a->text && unicode_valid(a->text, a->bytes))
            must(a->bytes == b->bytes && !memcmp(a->text, b->text, a->bytes), "a text changed");
    }
    conversation_close(&again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct conversation c;
    struct tern_error e = {TERN_OK, ""};
    write_file(data, size);
    allocs_start(0, 0);
    must(!conversation_open(&c, &e) && !conversation_add(&c, "user", "q", 1, &e) &&
             !conversation_add(&c, "assistant", "a", 1, &e),
         "no conversation");
    enum tern_status s = conversation_load(&c, given, &e);
    allocs_judge(size, !s);
    if (s) {
        must(s == TERN_BAD_FILE && e.code == s && e.text[0], "no sentence");
        must(c.n == 3 && !c.list[0].text && c.list[1].text[0] == 'q' && c.list[2].text[0] == 'a',
             "a refused file changed the conversation");
    } else {
        must_be_in_turns(&c);
        must_come_back(&c);
    }
    conversation_close(&c);
    must(!allocs_live(), "memory is left behind");
    return 0;
}
