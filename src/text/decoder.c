/* The streaming decoder: see decoder.h. A token's text goes through the decoder
 * steps; bytes that do not yet make a character wait in `tail`.
 *
 * Broken bytes become U+FFFD: one for each byte where they come from byte tokens, one for each
 * maximal broken subpart in byte-level BPE, as in the reference. What differs by nature: a stream
 * has given away the whole characters of a run of byte tokens before the run breaks. */
#include "text/decoder.h"

#include "text/tokenizer_steps.h"

#include "text/tokenizer_parts.h"
#include "text/unicode.h"

#include <stdlib.h>

struct decoder {
    const struct tokenizer *t;
    bool show_special;
    int32_t shown[2];    /* special tokens that give their text; or -1 */
    bool byte_level;     /* the step byte_level is there */
    bool bytes;          /* the step byte_fallback is there */
    bool join;           /* the step join is there */
    bool begun;          /* a token has been seen */
    uint64_t strip_left; /* copies of strip->from still to be taken off the start */
    const struct step *strip;
    char tail[4]; /* begins a character that is not whole yet */
    size_t n_tail;
    char *text, *out; /* [longest_text + 8], [3 * longest_text + 24], owned */
    size_t n_out;
};

void decoder_show(struct decoder *d, const int32_t ids[2])
{
    d->shown[0] = ids[0], d->shown[1] = ids[1];
}

static int place_of(enum step_kind kind)
{
    return kind == STEP_REPLACE || kind == STEP_METASPACE ? 0 : kind == STEP_BYTES ? 1 : 2;
}

enum tern_status decoder_check(const struct steps *steps, struct tern_error *e)
{
    for (size_t i = 0; i < steps->n; i++) {
        const struct step *step = &steps->list[i];
        if (step->kind == STEP_REPLACE && step->to_n > step->from_n)
            return error_set(e, TERN_BAD_FILE, "tokenizer: decoder.%zu makes the text longer", i);
        if ((i && place_of(step->kind) < place_of(step[-1].kind)) ||
            (i && place_of(step->kind) && place_of(step->kind) == place_of(step[-1].kind)) ||
            (step->kind >= STEP_BYTE_LEVEL && steps->n > 1))
            return error_set(e, TERN_BAD_FILE, "tokenizer: decoder.%zu stands in an unknown place",
                             i);
    }
    return TERN_OK;
}

static void restart(struct decoder *d)
{
    d->begun = false;
    d->n_tail = 0;
    d->strip_left = d->strip ? d->strip->number : 0;
}

enum tern_status decoder_open(struct decoder **out, const struct tokenizer *t, bool show_special,
                              struct tern_error *e)
{
    size_t longest = t->vocab.longest_text;
    struct decoder *d = *out = calloc(1, sizeof *d);
    if (!d)
        return error_memory(e, "a decoder", sizeof *d);
    d->t = t;
    d->show_special = show_special;
    d->shown[0] = d->shown[1] = -1;
    d->text = malloc(longest + 8);
    d->out = malloc(3 * longest + 24);
    if (!d->text || !d->out) {
        decoder_close(d);
        *out = NULL;
        return error_memory(e, "a decoder", 4 * longest + 32);
    }
    for (size_t i = 0; i < t->decoder.n; i++) {
        const struct step *step = &t->decoder.list[i];
        d->byte_level |= step->kind == STEP_BYTE_LEVEL;
        d->bytes |= step->kind == STEP_BYTES;
        d->join |= step->kind == STEP_JOIN;
        if (step->kind == STEP_STRIP)
            d->strip = step;
    }
    restart(d);
    return TERN_OK;
}

void decoder_close(struct decoder *d)
{
    if (!d)
        return;
    free(d->text);
    free(d->out);
    free(d);
}

/* Gives a whole character, unless it is to be stripped off the start. */
static void give(struct decoder *d, const char *p, size_t n)
{
    if (d->strip_left && n == d->strip->from_n && memcmp(p, d->strip->from, n) == 0) {
        d->strip_left--;
        return;
    }
    d->strip_left = 0;
    memcpy(d->out + d->n_out, p, n);
    d->n_out += n;
}

/* Gives the characters of p[0..n). Broken bytes are U+FFFD, for each byte or for each maximal
 * subpart; if `more` may come, the beginning of a character at the end is kept in the tail. */
static void give_bytes(struct decoder *d, const char *p, size_t n, bool each_byte, bool more)
{
    size_t len, whole = n - (more ? unicode_tail(p, n) : 0);
    for (size_t i = 0; i < whole; i += len) {
        bool bad = unicode_decode(p + i, whole - i, &len) == UNICODE_BAD;
        if (bad && each_byte)
            len = 1;
        give(d, bad ? "\xEF\xBF\xBD" : p + i, bad ? 3 : len);
    }
    d->n_tail = n - whole;
    memmove(d->tail, p + whole, d->n_tail);
}

static size_t replace(char *p, size_t n, const struct step *step)
{
    size_t to = 0;
    for (size_t i = 0; i < n;) {
        if (n - i >= step->from_n && memcmp(p + i, step->from, step->from_n) == 0) {
            memmove(p + to, step->to, step->to_n);
            to += step->to_n;
            i += step->from_n;
        } else {
            p[to++] = p[i++];
        }
    }
    return to;
}

/* The text of an ordinary token after the steps that rewrite texts, in d->text. */
static size_t rewrite(struct decoder *d, const char *p, size_t n)
{
    bool space = d->join && d->begun;
    d->text[0] = ' ';
    memcpy(d->text + space, p, n);
    n += space;
    for (size_t i = 0; i < d->t->decoder.n; i++) {
        const struct step *step = &d->t->decoder.list[i];
        struct step spaces = {.from = step->to, .from_n = step->to_n, .to = " ", .to_n = 1};
        if (step->kind == STEP_METASPACE && !d->begun && step->scheme != PREPEND_NEVER)
            spaces.to_n = 0; /* the first token loses them */
        if (step->kind == STEP_REPLACE)
            n = replace(d->text, n, step);
        else if (step->kind == STEP_METASPACE)
            n = replace(d->text, n, &spaces);
    }
    return n;
}

/* Joins the waiting bytes and p[0..n), n <= longest_text, in d->text. */
static size_t with_tail(struct decoder *d, const char *p, size_t n)
{
    memcpy(d->text, d->tail, d->n_tail);
    memcpy(d->text + d->n_tail, p, n);
    return d->n_tail + n;
}

const char *decoder_push(struct decoder *d, int32_t id, size_t *n_out)
{
    size_t n;
    const char *p = tokenizer_text(d->t, id, &n);
    d->n_out = *n_out = 0;
    bool show = d->show_special || id == d->shown[0] || id == d->shown[1];
    if (n == 0 || (!show && tokenizer_is_special(d->t, id)))
        return d->out;
    int byte = d->bytes ? vocab_byte(p, n) : -1;
    char one = (char)byte;
    if (d->byte_level) {
        n = with_tail(d, p, n);
        give_bytes(d, d->text, n, false, true);
    } else if (byte >= 0) {
        if (d->t->kind == MODEL_SPM || d->t->f32_sums)
            d->strip_left = 0; /* SentencePiece strips pieces alone, the other kind any text */
        n = with_tail(d, &one, 1);
        give_bytes(d, d->text, n, true, true);
    } else {
        give_bytes(d, d->tail, d->n_tail, true, false);
        n = rewrite(d, p, n);
        give_bytes(d, d->text, n, false, false);
    }
    d->begun = true;
    *n_out = d->n_out;
    return d->out;
}

const char *decoder_bytes(struct decoder *d, int32_t id, size_t *n)
{
    bool begun = d->begun;
    const char *p = tokenizer_text(d->t, id, n);
    int byte = d->bytes ? vocab_byte(p, *n) : -1;
    if (d->byte_level)
        return p;
    d->begun = true;
    if (byte >= 0)
        *n = 1, d->text[0] = (char)byte;
    else
        *n = rewrite(d, p, *n);
    d->begun = begun;
    return d->text;
}

const char *decoder_finish(struct decoder *d, size_t *n)
{
    d->n_out = 0;
    give_bytes(d, d->tail, d->n_tail, !d->byte_level, false);
    restart(d);
    *n = d->n_out;
    return d->out;
}
