/* The states of recurrent layers, beside the KV cache. In: rows that a batch evaluates; out: where
 * each layer reads and writes its state. Knows records, logs and snapshots; no arithmetic.
 *
 * A *record* is the state of a sequence at a position: for each recurrent layer (struct mixer: `at`)
 * the last width - 1 inputs of its convolution, and S of its heads, f32. A sequence has three. A batch
 * reads one and writes another, so a cancelled batch changes nothing. The third lies up to
 * RECURRENT_LOG positions back. The *log* holds what the mixers read (inputs of the convolution, decay
 * and beta) since then, so any position in between is reached by running the mixers again: same
 * operations, same bits. So rows on trial cost no copies: what is dropped is forgotten.
 *
 * A *snapshot* is a record that sequences share: taken at page ends and ends of prompts, as the
 * batch passes them, and RECURRENT_TAIL rows before an end of a prompt. When all are taken, the one
 * whose loss costs least is given up. The newest tail is the last to go: a chat that drops thoughts
 * goes back to where the answer was asked for, or to a few tokens before.
 *
 * The store of prefixes (prefix_store.h) keeps some of them beyond the life of their sequences. */
#ifndef MODEL_RECURRENT_H
#define MODEL_RECURRENT_H

#include <stdbool.h>
#include <stdint.h>

#include "model/cache_request.h"
#include "model/model.h"

enum {
    RECURRENT_LOG = 80,   /* rows of a log */
    RECURRENT_KEEP = 64,  /* newest rows that can always be taken back */
    RECURRENT_TAIL = 16,  /* rows of a prompt that may be what asks for an answer */
    RECURRENT_RECORDS = 3 /* of a sequence */
};

#define NO_POSITION SIZE_MAX

/* A batch leaves the state as it is after `row` of its rows here as well */
struct state_mark {
    size_t row;
    float *to;
    int snapshot; /* or -1: the third record */
};

struct recurrent_seq {
    size_t at[RECURRENT_RECORDS]; /* positions of the records, or NO_POSITION */
    float *record[RECURRENT_RECORDS];
    size_t log_begin, log_end; /* positions whose rows are logged */
    int32_t *snapshots;        /* [n_snapshots] its own, by position */
    size_t n_snapshots;
    size_t tail, next_tail; /* where the newest prompt's begins, or NO_POSITION; after the batch */
    size_t wanted;          /* a position that a snapshot is wanted of, or NO_POSITION */
    /* the batch in work, or what is run again: */
    const float *from;
    float *to;
    size_t to_record, back;   /* numbers of records */
    size_t first, n;          /* position, rows */
    size_t log_from;          /* first row that is logged; n: none */
    struct state_mark *marks; /* [n_marks] by row */
    size_t n_marks;
};

struct snapshot {
    size_t at, users; /* position; sequences */
    bool kept;        /* by the store of prefixes */
};

struct recurrent {
    size_t state_floats, log_floats; /* the model's; 0: it has no recurrent layers */
    size_t n_seqs, n_snapshots, max_marks; /* snapshots of sequences and store */
    struct recurrent_seq *seqs; /* [n_seqs] */
    struct snapshot *snapshots; /* [n_snapshots] */
    float *states;              /* [n_seqs * 3 + n_snapshots, state_floats], in the range */
    float *log;                 /* [n_seqs, RECURRENT_LOG, log_floats], in the range */
    void *range;
    size_t range_bytes;
};

/* Bytes of the records, logs and snapshots for sequences whose cache takes `cache` bytes, and of n_kept
 * snapshots for the store; UINT64_MAX when that does not fit. 0 without recurrent layers. */
uint64_t recurrent_bytes(const struct model *m, const struct cache_request *request, uint64_t cache,
                         size_t n_kept, size_t *n_snapshots);
enum tern_status recurrent_open(struct recurrent *r, const struct model *m,
                                const struct cache_request *request, uint64_t cache, size_t n_kept,
                                struct tern_error *e);
void recurrent_close(struct recurrent *r);

/* The largest position up to n that keep and fork can reach; n <= length. */
size_t recurrent_reach(const struct recurrent *r, size_t seq, size_t n);
void recurrent_keep(struct recurrent *r, size_t seq, size_t n);
void recurrent_fork(struct recurrent *r, size_t from, size_t to, size_t n);

/* A batch of n rows follows position `length` of the sequence. Rows are to be run again from the log
 * while this is true: positions first .. first + n - 1 of the sequence's struct, then
 * recurrent_replayed. At last it is false, and the struct says where states are. With n = 0 one record
 * is that of the end, and the log has no more than RECURRENT_KEEP rows: what a session saves does not
 * depend on batches. */
bool recurrent_begin(struct recurrent *r, size_t seq, size_t length, size_t n, bool is_prompt);
void recurrent_replayed(struct recurrent *r, size_t seq, size_t n);
/* The batch is done, or was cancelled. */
void recurrent_end(struct recurrent *r, size_t seq, bool done);

/* The row of the log at a position */
float *recurrent_log(const struct recurrent *r, size_t seq, size_t position);

/* The state [state_floats] after n positions, if a record holds it, or NULL. */
const float *recurrent_state(const struct recurrent *r, size_t seq, size_t n);

/* Of a sequence of n positions: where the record lies from which the log reaches its end, and the tail;
 * 0: it has none. And a record to fill, with the log from there to n: the only things then known of
 * the sequence. */
void recurrent_save(const struct recurrent *r, size_t seq, size_t n, uint64_t *at, uint64_t *tail);
float *recurrent_refill(struct recurrent *r, size_t seq, size_t at, size_t n, size_t tail);

/* The sequence's snapshots before position n: their number and, unless NULL, their positions. The state
 * [state_floats] of number i of them. And a further snapshot to fill, of a position behind all others,
 * or NULL where memory has none to give. */
size_t recurrent_snapshots(const struct recurrent *r, size_t seq, size_t n, uint64_t *at);
const float *recurrent_snapshot(const struct recurrent *r, size_t seq, size_t i);
float *recurrent_add_snapshot(struct recurrent *r, size_t seq, size_t at);

/* For the store of prefixes. A snapshot that no one has, which the caller is to mark as kept: sequences
 * may lose another for it. The store keeps at most as many as recurrent_open was told. And the sequence,
 * which is empty, begins behind a snapshot. */
size_t recurrent_take_kept(struct recurrent *r, size_t at);
float *recurrent_kept(const struct recurrent *r, size_t snapshot);
void recurrent_adopt(struct recurrent *r, size_t seq, size_t snapshot);

/* Floats of the convolution's inputs, before S of the heads */
static inline size_t mixer_inputs(const struct mixer *x)
{
    return (x->width - 1) * x->channels;
}

#endif
