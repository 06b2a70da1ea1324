/* A recognizer takes bytes and says after each whether an accepted text can still follow. Its state is a
 * `place`, a few numbers that can be copied, and records in a `track`. Records are only appended and
 * never changed, so an older place stays good while nothing is cut: going back is taking an older place
 * and cutting the track to place.used. */
#ifndef RECOGNIZE_RECOGNIZER_H
#define RECOGNIZE_RECOGNIZER_H

#include "sample/language/language.h"

struct track {
    unsigned char *bytes; /* [used] of [capacity]; owned: free() */
    uint32_t capacity, limit;
    bool no_memory; /* what did not fit was not over the limit */
    struct quota *quota; /* of which its bytes are; NULL: of none */
};

/* Capacity for `need` bytes; false: over the limit, or no memory. Bytes may move. */
bool track_room(struct track *t, uint64_t need);
void track_free(struct track *t); /* it has no bytes then */

struct place {
    uint32_t top;    /* the newest record: where in the structure we are */
    uint32_t used;   /* bytes of the track that belong to this place */
    uint32_t lexeme; /* the recognizer's own: state of the word being read */
    uint32_t more;   /* the recognizer's own */
};

enum step { STEP_DEAD, STEP_ALIVE, STEP_NO_ROOM /* track, budget or memory is at its limit */ };

struct recognizer {
    void *self; /* the compiled constraint; everything below is called under its lock */
    struct languages *languages; /* of word(); borrowed from self */
    enum step (*begin)(void *self, struct track *t, struct place *p);
    /* From p by one byte; p changes only when alive. May append to t at p->used and overwrite what lies
     * beyond. */
    enum step (*step)(void *self, struct track *t, struct place *p, unsigned char byte);
    bool (*accepts)(void *self, struct track *t, const struct place *p); /* the text may end here */
    /* For masks. The language of the word being read, if the next bytes stay in the word as long as they
     * stay in it, and its states stand for the recognizer's; LANG_NONE: there is no such word. Only
     * the next `reach` bytes are asked about. What
     * follows the word's end is asked by step(). *in_string: the word is the content of a JSON string,
     * so that '"', '\\' and bytes below 0x20 leave it, whatever the language says: '"' ends it where the
     * language accepts, and after '\\' and an escape the word goes on, as far as the language alone says. */
    lang (*word)(void *self, struct track *t, const struct place *p, uint32_t reach,
                 bool *in_string);
    /* Whether what can follow the end of that word is the same for all its texts, so that a mask asks it
     * once: a string whose value nobody remembers or compares. NULL: never. */
    bool (*same_end)(void *self, struct track *t, const struct place *p);
    /* A set that holds every byte that may follow, and few others. NULL: all 256 are tried. */
    void (*first)(void *self, struct track *t, const struct place *p, uint64_t set[4]);
    /* A number that is equal for two places only if every text that can follow one can follow the other;
     * 0: unknown. Masks are kept under it. */
    uint64_t (*signature)(void *self, struct track *t, const struct place *p);
    /* Copies what the places p[0..n), oldest first, need of `from` to `to`, whose old content is lost, and
     * moves them there. What lies between them in `from` is dropped: of a long text only what is open
     * and what must be remembered stays. STEP_NO_ROOM: nothing changed. NULL: the track never grows. */
    enum step (*compact)(void *self, const struct track *from, struct track *to, struct place *p,
                         size_t n);
    void (*close)(void *self);
};

#endif
