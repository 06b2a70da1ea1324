/* Grammars and formats, for tests/cli/test_grammar_strings.py.
 *   prog_grammar          reads a grammar that refers to itself; fails where it refuses a text of it
 *   prog_grammar --obey   reads commands, prints a line for each; HEX is text, two digits a byte:
 *     grammar HEX       "ok", or what is wrong
 *     text HEX          for each prefix, the empty one too: '#' accepted, '.' alive, 'x' dead (the last)
 *     all LETTERS N     for every text of at most N letters that is alive: the text, '#' or '.', and
 *                       its signature. Going on from a place leaves older places as they were: each
 *                       is used again behind all that follows it.
 *     format NAME HEX   '#', '.' or 'x', or unknown */
#include "sample/recognize/gbnf.h"
#include "sample/language/string_formats.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct budget budget;
static struct recognizer r;
static struct track track;

static size_t from_hex(const char *hex, char *out)
{
    size_t n = 0;
    for (unsigned x; sscanf(hex, "%2x", &x) == 1; hex += 2)
        out[n++] = (char)x;
    return n;
}

static const char *open_grammar(const char *text, size_t n)
{
    static struct tern_error e;
    if (r.close)
        r.close(r.self);
    memset(&r, 0, sizeof r);
    budget = (struct budget){.bytes = (size_t)1 << 28, .steps = 1000000000};
    return gbnf_open(&r, text, n, NULL, &budget, &e) ? e.text : "ok";
}

static char mark(enum step s, const struct place *p)
{
    assert(s != STEP_NO_ROOM);
    if (s == STEP_DEAD)
        return 'x';
    return r.accepts(r.self, &track, p) ? '#' : '.';
}

/* The same marks where only what is needed is kept after every byte. */
static void check_compacted(const char *text, size_t n)
{
    struct place p, old;
    enum step s = r.begin(r.self, &track, &p);
    for (size_t i = 0; i < n && s == STEP_ALIVE; i++) {
        struct track kept = {.limit = track.limit};
        struct place places[2] = {old = p, p};
        s = r.step(r.self, &track, &places[1], (unsigned char)text[i]);
        if (s == STEP_DEAD)
            break;
        p = places[1];
        const uint64_t signature = r.signature(r.self, &track, &p);
        const char was = mark(s, &p), was_old = mark(s, &old);
        assert(r.compact(r.self, &track, &kept, places, 2) == STEP_ALIVE);
        free(track.bytes);
        track = kept, p = places[1];
        assert(mark(s, &p) == was && mark(s, &places[0]) == was_old);
        assert(r.signature(r.self, &track, &p) == signature);
    }
}

static void print_text(const char *text, size_t n)
{
    struct place p;
    check_compacted(text, n);
    enum step s = r.begin(r.self, &track, &p);
    putchar(mark(s, &p));
    for (size_t i = 0; i < n && s == STEP_ALIVE; i++) {
        s = r.step(r.self, &track, &p, (unsigned char)text[i]);
        putchar(mark(s, &p));
    }
    putchar('\n');
}

/* One step; what a mask learns from the word and from the first bytes agrees with it. */
static enum step checked_step(struct place *p, unsigned char byte)
{
    bool in_string;
    uint64_t set[4];
    const lang word = r.word(r.self, &track, p, 128, &in_string);
    const bool in_word = word != LANG_NONE && lang_step(r.languages, word, byte) != LANG_NONE;
    r.first(r.self, &track, p, set);
    const enum step s = r.step(r.self, &track, p, byte);
    assert(s == STEP_ALIVE || !in_word);
    assert((s == STEP_ALIVE) == (set[byte >> 6] >> (byte & 63) & 1));
    return s;
}

static void print_all(const struct place *p, const char *letters, char *text, size_t n, size_t most)
{
    printf("%.*s%c%llx ", (int)n, text, mark(STEP_ALIVE, p),
           (unsigned long long)r.signature(r.self, &track, p));
    for (const char *c = letters; *c && n < most; c++) {
        struct place next = *p;
        text[n] = *c;
        if (checked_step(&next, (unsigned char)*c) == STEP_ALIVE)
            print_all(&next, letters, text, n + 1, most);
    }
}

static void print_format(const char *name, const char *text, size_t n)
{
    bool known;
    budget = (struct budget){.bytes = (size_t)1 << 28, .steps = 1000000000};
    struct languages *ls = languages_open(&budget);
    lang x = format_lang(ls, name, strlen(name), &known);
    for (size_t i = 0; i < n && x != LANG_NONE; i++)
        x = lang_step(ls, x, (unsigned char)text[i]);
    assert(x != LANG_FAIL);
    puts(!known ? "unknown" : x == LANG_NONE ? "x" : lang_accepts(ls, x) ? "#" : ".");
    languages_close(ls);
}

static void obey(char *line)
{
    static char text[1 << 20];
    char name[64];
    unsigned most;
    int used = 0;
    line[strcspn(line, "\n")] = 0;
    if (!strncmp(line, "grammar ", 8))
        puts(open_grammar(text, from_hex(line + 8, text)));
    else if (!strncmp(line, "text ", 5))
        print_text(text, from_hex(line + 5, text));
    else if (sscanf(line, "format %63s %n", name, &used) == 1)
        print_format(name, text, from_hex(line + used, text));
    else if (sscanf(line, "all %63s %u", name, &most) == 2) {
        struct place p;
        assert(r.begin(r.self, &track, &p) == STEP_ALIVE);
        print_all(&p, name, text, 0, most);
        putchar('\n');
    }
}

int main(int argc, char **argv)
{
    static const char own[] = "root ::= \"(\" root \")\" root | \"x\"{2,3} |";
    static char line[1 << 21];
    int failed = 0;
    track.limit = 1 << 26;
    if (argc > 1 && !strcmp(argv[1], "--obey"))
        while (fgets(line, sizeof line, stdin))
            obey(line);
    else {
        struct place p;
        open_grammar(own, strlen(own));
        enum step s = r.begin(r.self, &track, &p);
        for (const char *c = "((xx)xxx)()"; *c && s == STEP_ALIVE; c++)
            s = r.step(r.self, &track, &p, (unsigned char)*c);
        failed = mark(s, &p) != '#';
    }
    if (r.close)
        r.close(r.self);
    free(track.bytes);
    return failed;
}
