/* Words: the token with exactly the bytes of the word, or the unknown one. */
#include "text/word_level.h"

enum tern_status word_level_open(struct tokenizer *t, struct keys *keys, struct tern_error *e)
{
    (void)keys;
    return t->unk < 0 ? error_set(e, TERN_BAD_FILE, "tokenizer: word_level needs unk") : TERN_OK;
}

bool word_level_word(struct encoding *c, const char *p, size_t n)
{
    int32_t id = vocab_find(&c->t->vocab, p, n);
    return encoding_put(c, id < 0 ? c->t->unk : id);
}
