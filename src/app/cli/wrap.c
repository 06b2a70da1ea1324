/* Wrapped text: see wrap.h. */
#include "app/cli/wrap.h"

#include "app/cli/columns.h"
#include "app/cli/out.h"
#include "app/cli/visible.h"

#include <unistd.h>

void wrap_open(struct wrap *w)
{
    w->width = visible_on(STDOUT_FILENO) ? columns_of_terminal(STDOUT_FILENO) : 0;
    w->column = w->spaces = w->columns = w->word.n = 0;
    w->flows = w->word.failed = false;
}

void wrap_close(struct wrap *w)
{
    growing_text_close(&w->word);
}

/* Writes what is held: on a new line if it does not fit, and then without its spaces. */
static void write_word(struct wrap *w)
{
    size_t from = 0;
    if (!w->word.n)
        return;
    if (!w->flows && w->column && w->column + w->columns > w->width && w->word.n > w->spaces) {
        (void)out_stream("\n", 1);
        from = w->spaces;
        w->column = 0;
        w->columns -= w->spaces;
    }
    (void)out_stream(w->word.p + from, w->word.n - from);
    w->column += w->columns;
    w->word.n = w->spaces = w->columns = 0;
}

static void put_character(struct wrap *w, const char *p, size_t bytes, size_t columns)
{
    bool space = *p == ' ', feed = *p == '\n' || *p == '\t', wide = columns == 2;
    if (feed || wide || (space && w->word.n > w->spaces))
        write_word(w);
    w->flows &= !(feed || wide || space);
    growing_text_add(&w->word, p, bytes);
    w->columns += *p == '\n' ? 0 : *p == '\t' ? 8 - w->column % 8 : columns;
    w->spaces += space;
    bool full = w->columns - w->spaces >= w->width;
    if (full || feed || wide || w->flows) /* a line may end behind every wide character */
        write_word(w);
    w->flows |= full && !feed;
    if (w->flows)
        w->column %= w->width;
    if (*p == '\n')
        w->column = 0;
}

static void put(void *arg, const char *text, size_t n)
{
    struct wrap *w = arg;
    for (size_t i = 0, bytes; i < n; i += bytes) {
        size_t columns = columns_of(text + i, n - i, &bytes);
        put_character(w, text + i, bytes, columns);
    }
}

bool wrap_text(struct wrap *w, const char *text, size_t n)
{
    if (!w->width)
        return out_text(text, n);
    visible_text(put, w, text, n);
    return !w->word.failed && out_stream("", 0);
}

bool wrap_end(struct wrap *w)
{
    if (w->width)
        write_word(w);
    return out_stream("", 0);
}
