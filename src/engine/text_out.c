/* Text: see text_out.h. */
#include "engine/text_out.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"

enum tern_status text_out_open(struct text_out *t, const tern_model *model,
                               const tern_token *prompt, size_t n)
{
    size_t bytes;
    enum tern_status s = tern_decoder_open(&t->decoder, model, 0, t->error);
    for (size_t i = 0; i < n && !s; i++)
        (void)tern_decoder_push(t->decoder, prompt[i], &bytes);
    return s;
}

void text_out_close(struct text_out *t)
{
    tern_decoder_close(t->decoder);
    free(t->held);
}

void text_out_stop(struct text_out *t, enum tern_stop_reason reason)
{
    t->stopped = true;
    t->result->reason = reason;
}

static void emit(struct text_out *t, tern_token token, const char *text, size_t n)
{
    if (n && t->p->on_text && t->p->on_text(t->p->arg, token, text, n) && !t->stopped)
        text_out_stop(t, TERN_STOP_CANCELLED);
}

/* Offset of the first complete stop string in the held text, or n. */
static size_t find_stop(const struct text_out *t)
{
    for (size_t at = 0; at < t->n; at++)
        for (size_t i = 0; i < t->p->n_stop; i++) {
            size_t n = strlen(t->p->stop[i]);
            if (n && n <= t->n - at && memcmp(t->held + at, t->p->stop[i], n) == 0)
                return at;
        }
    return t->n;
}

/* Offset from which the held text may still become a stop string, or n. */
static size_t find_partial_stop(const struct text_out *t)
{
    for (size_t at = 0; at < t->n; at++)
        for (size_t i = 0; i < t->p->n_stop; i++)
            if (t->n - at < strlen(t->p->stop[i]) &&
                memcmp(t->held + at, t->p->stop[i], t->n - at) == 0)
                return at;
    return t->n;
}

static enum tern_status hold(struct text_out *t, const char *text, size_t n)
{
    if (n > t->capacity - t->n) {
        size_t capacity = 2 * (t->n + n) + 64;
        char *grown = realloc(t->held, capacity);
        if (!grown)
            return error_memory(t->error, "the text held back", capacity);
        t->held = grown, t->capacity = capacity;
    }
    if (n)
        memcpy(t->held + t->n, text, n);
    t->n += n;
    return TERN_OK;
}

/* Passes text on, except a tail that may become a stop string. A complete one ends the text. */
static enum tern_status put_text(struct text_out *t, tern_token token, const char *text, size_t n)
{
    if (t->p->n_stop == 0) {
        emit(t, token, text, n);
        return TERN_OK;
    }
    enum tern_status s = hold(t, text, n);
    if (s || t->n == 0)
        return s;
    size_t stop = find_stop(t), free_bytes = stop < t->n ? stop : find_partial_stop(t);
    bool found = stop < t->n;
    emit(t, token, t->held, free_bytes);
    t->n = found ? 0 : t->n - free_bytes;
    memmove(t->held, t->held + free_bytes, t->n);
    if (found && !t->stopped)
        text_out_stop(t, TERN_STOP_STRING);
    return TERN_OK;
}

enum tern_status text_out_put(struct text_out *t, tern_token token)
{
    size_t n = 0;
    if (t->decoder) {
        const char *text = tern_decoder_push(t->decoder, token, &n);
        return put_text(t, token, text, n);
    }
    if (t->p->on_text && t->p->on_text(t->p->arg, token, "", 0))
        text_out_stop(t, TERN_STOP_CANCELLED);
    return TERN_OK;
}

static bool met_stop(const struct text_out *t)
{
    return t->stopped && t->result->reason == TERN_STOP_STRING;
}

enum tern_status text_out_finish(struct text_out *t)
{
    size_t n = 0;
    enum tern_status s = TERN_OK;
    if (!t->decoder || met_stop(t))
        return TERN_OK;
    const char *text = tern_decoder_finish(t->decoder, &n);
    if (n && !t->stopped)
        s = put_text(t, -1, text, n);
    if (!s && !met_stop(t))
        emit(t, -1, t->held, t->n);
    return s;
}
