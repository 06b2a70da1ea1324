/* Thoughts that clients carry: see carried_thought.h. */
#include "app/serve/api/carried_thought.h"

#include "app/serve/api/base64.h"

#include <string.h>

static const char mark[] = "tern1.";

void carried_thought_write(struct growing_text *t, const char *thought, size_t n)
{
    growing_text_add(t, mark, strlen(mark));
    base64_write(t, thought, n);
}

bool carried_thought_read(struct growing_text *t, const char *text, size_t n)
{
    size_t m = strlen(mark), before = t->n;
    if (n < m || memcmp(text, mark, m))
        return false;
    if (base64_read(t, text + m, n - m))
        return true;
    t->n = before;
    return false;
}
