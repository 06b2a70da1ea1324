/* Lookup: see lookup.h. A match is followed for as long as it holds (the match model of compressors
 * that mix contexts); n-grams of three lengths, in one table by their hash, find the next one. For
 * every token it is seen whether the guess came true, evaluated on trial or not, so that knowing
 * the probabilities costs nothing. */
#include "engine/guess/lookup.h"

#include <stdlib.h>
#include <string.h>

enum { MIN_BITS = 8, MAX_BITS = 17, LONGEST = 8, COMPARED = 40, MEMORY = 24 };

static const float UNLIKELY = 0.03f; /* that a guess and all before it are right */

bool lookup_open(struct lookup *l, const tern_token *text, size_t room)
{
    *l = (struct lookup){.text = text, .bits = MIN_BITS};
    while (l->bits < MAX_BITS && (size_t)1 << l->bits < 4 * room)
        l->bits++;
    l->slots = calloc((size_t)1 << l->bits, sizeof *l->slots);
    return l->slots != NULL;
}

void lookup_clear(struct lookup *l)
{
    l->n = l->at = l->length = 0;
    memset(l->slots, 0, sizeof *l->slots << l->bits);
}

void lookup_close(struct lookup *l)
{
    free(l->slots);
    l->slots = NULL;
}

static size_t class_of(size_t length)
{
    size_t class = 0;
    for (length /= 4; length && class < LOOKUP_CLASSES - 1; length /= 2)
        class ++;
    return class;
}

/* Nothing is expected before it was seen, and of a longer match what is known of shorter ones. */
static float chance_of(const struct lookup *l, size_t length)
{
    size_t class = class_of(length);
    while (class && !l->seen[class])
        class --;
    return l->chance[class];
}

/* Compares the guess with the token that came; a wrong one ends the match. */
static void follow(struct lookup *l, tern_token token)
{
    size_t class = class_of(l->length);
    bool right = l->text[l->at] == token;
    float chance = chance_of(l, l->length);
    if (l->seen[class] < MEMORY)
        l->seen[class]++;
    l->chance[class] = chance + ((float)right - chance) / (float)(l->seen[class] + 2);
    l->at = right ? l->at + 1 : 0;
    l->length = right ? l->length + 1 : 0;
}

/* Takes the n-gram that ended at `end` as the match when more of it fits. It may be any other with
 * the same hash, or the end of the text itself. */
static void consider(struct lookup *l, size_t end)
{
    size_t n = 0;
    while (n < COMPARED && n < end && end < l->n && l->text[end - 1 - n] == l->text[l->n - 1 - n])
        n++;
    if (n > l->length && n > 1)
        l->at = end, l->length = n;
}

void lookup_push(struct lookup *l)
{
    uint32_t hash = 0;
    if (l->at)
        follow(l, l->text[l->n]);
    l->n++;
    bool search = l->length < LONGEST;
    for (size_t i = 1; i <= LONGEST && i <= l->n; i++) {
        hash = (hash + (uint32_t)l->text[l->n - i] + 1) * 0x9e3779b1u;
        if (i != 2 && i != 4 && i != LONGEST)
            continue;
        uint32_t *slot = &l->slots[(hash ^ hash >> 15) * 0x85ebca6bu >> (32 - l->bits)];
        if (search && *slot)
            consider(l, *slot);
        *slot = (uint32_t)l->n;
    }
}

void lookup_doubt(struct lookup *l)
{
    for (int i = 0; i < LOOKUP_CLASSES; i++) {
        l->chance[i] *= 0.6f;
        l->seen[i] = l->seen[i] > 0;
    }
}

size_t lookup_guess(const struct lookup *l, tern_token *tokens, float *chance, size_t max)
{
    size_t i = 0;
    float all = 1;
    for (; l->at && i < max; i++) { /* a match that reaches the end goes on in its own guess */
        size_t at = l->at + i;
        tokens[i] = at < l->n ? l->text[at] : tokens[at - l->n];
        chance[i] = chance_of(l, l->length + i);
        if ((all *= chance[i]) < UNLIKELY)
            break;
    }
    return i;
}
