/* Records, logs and snapshots of recurrent layers: see recurrent.h. */
#include "model/recurrent.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/memory.h"
#include "kernels/kernels.h"

enum { MIN_SNAPSHOTS = 4 };

/* ---- memory ---- */

uint64_t recurrent_bytes(const struct model *m, const struct cache_request *request, uint64_t cache,
                         size_t n_kept, size_t *n_snapshots)
{
    size_t n_seqs = request->n_seqs;
    uint64_t state = m->state_floats * sizeof(float), n = MIN_SNAPSHOTS, records, log;
    *n_snapshots = 0;
    if (!state)
        return 0;
    if (cache / 4 / state > n)
        n = cache / 4 / state;
    if (n > (request->n_ctx / BLOCK + 4) * n_seqs)
        n = (request->n_ctx / BLOCK + 4) * n_seqs;
    *n_snapshots = (size_t)n;
    if (!size_mul(state, n + n_kept + RECURRENT_RECORDS * n_seqs, &records) ||
        !size_mul(m->log_floats * sizeof(float) * RECURRENT_LOG, n_seqs, &log) ||
        !size_add(records, log, &records))
        return UINT64_MAX;
    return records;
}

enum tern_status recurrent_open(struct recurrent *r, const struct model *m,
                                const struct cache_request *request, uint64_t cache, size_t n_kept,
                                struct tern_error *e)
{
    size_t n_seqs = request->n_seqs;
    *r = (struct recurrent){.n_seqs = n_seqs};
    if (!m->state_floats)
        return TERN_OK;
    uint64_t bytes = recurrent_bytes(m, request, cache, n_kept, &r->n_snapshots);
    r->n_snapshots += n_kept;
    r->state_floats = m->state_floats, r->log_floats = m->log_floats;
    r->max_marks = request->n_batch / BLOCK + 5;
    if (bytes < SIZE_MAX && (r->range = memory_reserve((size_t)bytes)))
        r->range_bytes = (size_t)bytes;
    else
        return error_memory(e, "the states of recurrent layers", (size_t)bytes);
    r->states = r->range;
    r->log = r->states + (RECURRENT_RECORDS * n_seqs + r->n_snapshots) * r->state_floats;
    r->seqs = calloc(n_seqs, sizeof *r->seqs);
    r->snapshots = calloc(r->n_snapshots, sizeof *r->snapshots);
    for (size_t s = 0; s < n_seqs && r->seqs; s++) {
        struct recurrent_seq *q = &r->seqs[s];
        q->snapshots = calloc(r->n_snapshots, sizeof *q->snapshots);
        q->marks = calloc(r->max_marks, sizeof *q->marks);
        if (!q->snapshots || !q->marks)
            return error_memory(e, "the snapshots", r->n_snapshots * sizeof *q->snapshots);
        for (size_t i = 0; i < RECURRENT_RECORDS; i++) {
            q->record[i] = r->states + (RECURRENT_RECORDS * s + i) * r->state_floats;
            q->at[i] = NO_POSITION;
        }
        q->tail = q->wanted = NO_POSITION;
    }
    return r->seqs && r->snapshots ? TERN_OK
                                   : error_memory(e, "the sequences", n_seqs * sizeof *r->seqs);
}

void recurrent_close(struct recurrent *r)
{
    for (size_t s = 0; s < r->n_seqs && r->seqs; s++) {
        free(r->seqs[s].snapshots);
        free(r->seqs[s].marks);
    }
    free(r->seqs);
    free(r->snapshots);
    if (r->range)
        memory_release(r->range, r->range_bytes);
    *r = (struct recurrent){0};
}

float *recurrent_log(const struct recurrent *r, size_t seq, size_t position)
{
    return r->log + (seq * RECURRENT_LOG + position % RECURRENT_LOG) * r->log_floats;
}

static float *snapshot_data(const struct recurrent *r, size_t i)
{
    return r->states + (RECURRENT_RECORDS * r->n_seqs + i) * r->state_floats;
}

/* ---- snapshots ---- */

static void drop_snapshot(struct recurrent *r, struct recurrent_seq *q, size_t i)
{
    r->snapshots[q->snapshots[i]].users--;
    memmove(q->snapshots + i, q->snapshots + i + 1, (--q->n_snapshots - i) * sizeof *q->snapshots);
}

/* What the loss of snapshot number i costs the sequence: the gap that it leaves, less the farther
 * back; that of the tail most. */
static double worth(const struct recurrent *r, const struct recurrent_seq *q, size_t i)
{
    const struct snapshot *s = r->snapshots;
    size_t at = s[q->snapshots[i]].at, last = s[q->snapshots[q->n_snapshots - 1]].at;
    size_t before = i ? s[q->snapshots[i - 1]].at : 0;
    if (at == q->tail)
        return DBL_MAX;
    return (double)(at - before) / (double)(last - at + BLOCK);
}

/* Its place in the sequence's list, or the list's length */
static size_t place_of(const struct recurrent_seq *q, int32_t snapshot)
{
    size_t i = 0;
    while (i < q->n_snapshots && q->snapshots[i] != snapshot)
        i++;
    return i;
}

/* What its loss costs the sequence that needs it most; below 0: none holds it. */
static double most_worth(const struct recurrent *r, int32_t snapshot)
{
    double most = -1;
    for (size_t s = 0; s < r->n_seqs; s++) {
        size_t i = place_of(&r->seqs[s], snapshot);
        if (i < r->seqs[s].n_snapshots && worth(r, &r->seqs[s], i) > most)
            most = worth(r, &r->seqs[s], i);
    }
    return most;
}

static void drop_everywhere(struct recurrent *r, int32_t snapshot)
{
    for (size_t s = 0; s < r->n_seqs; s++)
        if (place_of(&r->seqs[s], snapshot) < r->seqs[s].n_snapshots)
            drop_snapshot(r, &r->seqs[s], place_of(&r->seqs[s], snapshot));
}

/* A free snapshot, or else the one that costs least, which all sequences give up; -1 when that costs
 * as much as `limit`, or when the store and the marks of this batch have them all. */
static int take_snapshot(struct recurrent *r, double limit)
{
    int found = -1;
    double least = limit;
    for (size_t i = 0; i < r->n_snapshots; i++) {
        const struct snapshot *s = &r->snapshots[i];
        double w = s->users && !s->kept ? most_worth(r, (int32_t)i) : -1;
        if (!s->users && !s->kept)
            return (int)i;
        if (w >= 0 && w < least)
            found = (int)i, least = w;
    }
    if (found >= 0)
        drop_everywhere(r, found);
    return found;
}

static bool has_snapshot(const struct recurrent *r, const struct recurrent_seq *q, size_t at)
{
    for (size_t i = 0; i < q->n_snapshots; i++)
        if (r->snapshots[q->snapshots[i]].at == at)
            return true;
    return false;
}

/* ---- positions that can be reached ---- */

/* The record that reaches position n with the fewest rows of the log, or none: RECURRENT_RECORDS */
static size_t best_record(const struct recurrent_seq *q, size_t n)
{
    size_t best = RECURRENT_RECORDS;
    for (size_t i = 0; i < RECURRENT_RECORDS; i++) {
        bool logged = q->at[i] >= q->log_begin && n <= q->log_end;
        if (q->at[i] == n || (q->at[i] < n && logged))
            if (best == RECURRENT_RECORDS || q->at[i] > q->at[best])
                best = i;
    }
    return best;
}

size_t recurrent_reach(const struct recurrent *r, size_t seq, size_t n)
{
    if (!r->state_floats || !n)
        return n;
    const struct recurrent_seq *q = &r->seqs[seq];
    size_t best = 0, last = q->log_end < n ? q->log_end : n;
    if (best_record(q, n) < RECURRENT_RECORDS)
        return n;
    for (size_t i = 0; i < RECURRENT_RECORDS; i++)
        if (q->at[i] <= n && q->at[i] > best)
            best = q->at[i];
    for (size_t i = 0; i < q->n_snapshots; i++)
        if (r->snapshots[q->snapshots[i]].at <= n && r->snapshots[q->snapshots[i]].at > best)
            best = r->snapshots[q->snapshots[i]].at;
    return last > best && best_record(q, last) < RECURRENT_RECORDS ? last : best;
}

/* Record `i` becomes that of `length`: of an empty sequence, or from a snapshot. */
static void load_record(struct recurrent *r, struct recurrent_seq *q, size_t i, size_t length)
{
    size_t bytes = r->state_floats * sizeof(float), s = 0;
    if (!length)
        memset(q->record[i], 0, bytes);
    while (length && r->snapshots[q->snapshots[s]].at != length)
        s++;
    if (length)
        memcpy(q->record[i], snapshot_data(r, (size_t)q->snapshots[s]), bytes);
    q->at[i] = q->log_begin = q->log_end = length;
}

/* Where only a snapshot holds position n, a record takes it over: the snapshot may be given up for
 * another sequence. */
static void hold_state(struct recurrent *r, struct recurrent_seq *q, size_t n)
{
    size_t free_record = 0;
    if (!n || best_record(q, n) < RECURRENT_RECORDS || !has_snapshot(r, q, n))
        return;
    for (size_t i = 0; i < RECURRENT_RECORDS; i++)
        if (q->at[i] == NO_POSITION)
            free_record = i;
    load_record(r, q, free_record, n);
}

void recurrent_keep(struct recurrent *r, size_t seq, size_t n)
{
    if (!r->state_floats)
        return;
    struct recurrent_seq *q = &r->seqs[seq];
    for (size_t i = 0; i < RECURRENT_RECORDS; i++)
        if (q->at[i] > n || !n)
            q->at[i] = NO_POSITION;
    if (q->log_end > n)
        q->log_end = n;
    if (q->log_begin > q->log_end || !n)
        q->log_begin = q->log_end;
    while (q->n_snapshots && r->snapshots[q->snapshots[q->n_snapshots - 1]].at > n)
        drop_snapshot(r, q, q->n_snapshots - 1);
    if (q->tail > n)
        q->tail = NO_POSITION;
    if (!n)
        q->wanted = NO_POSITION;
    hold_state(r, q, n);
}

void recurrent_fork(struct recurrent *r, size_t from, size_t to, size_t n)
{
    if (!r->state_floats)
        return;
    struct recurrent_seq *a = &r->seqs[from], *b = &r->seqs[to];
    recurrent_keep(r, to, 0);
    for (size_t i = 0; i < RECURRENT_RECORDS && n; i++)
        if (a->at[i] <= n) {
            memcpy(b->record[i], a->record[i], r->state_floats * sizeof(float));
            b->at[i] = a->at[i];
        }
    b->log_begin = a->log_begin, b->log_end = a->log_end < n ? a->log_end : n;
    if (b->log_begin > b->log_end)
        b->log_begin = b->log_end;
    for (size_t p = b->log_begin; p < b->log_end; p++)
        memcpy(recurrent_log(r, to, p), recurrent_log(r, from, p), r->log_floats * sizeof(float));
    for (size_t i = 0; i < a->n_snapshots && r->snapshots[a->snapshots[i]].at <= n; i++) {
        b->snapshots[b->n_snapshots++] = a->snapshots[i];
        r->snapshots[a->snapshots[i]].users++;
    }
    b->tail = a->tail <= n ? a->tail : NO_POSITION;
    hold_state(r, b, n);
}

/* ---- a batch ---- */

/* A record that is neither i nor j */
static size_t other_record(size_t i, size_t j)
{
    size_t k = 0;
    while (k == i || k == j)
        k++;
    return k;
}

/* The farthest record from which the log reaches the end, or none */
static size_t back_record(const struct recurrent_seq *q, size_t length)
{
    size_t back = RECURRENT_RECORDS;
    for (size_t i = 0; i < RECURRENT_RECORDS; i++)
        if (q->at[i] <= length && q->at[i] >= q->log_begin && q->log_end == length)
            if (back == RECURRENT_RECORDS || q->at[i] < q->at[back])
                back = i;
    return back;
}

/* What is run again ends at `end`; true, for recurrent_begin. */
static bool run_again(struct recurrent_seq *q, size_t record, size_t to, size_t end)
{
    q->from = q->record[record], q->to = q->record[to];
    q->first = q->at[record], q->n = end - q->first;
    q->at[to] = NO_POSITION;
    q->to_record = to, q->n_marks = 0, q->log_from = q->n;
    return true;
}

void recurrent_replayed(struct recurrent *r, size_t seq, size_t n)
{
    struct recurrent_seq *q = &r->seqs[seq];
    q->first += n, q->n -= n;
    q->from = q->to;
    if (!q->n)
        q->at[q->to_record] = q->first;
}

/* A snapshot of the position, or -1: there is one, or none to take. The end of a prompt is little
 * better than its tail, and takes none that is worth more. */
static int new_snapshot(struct recurrent *r, const struct recurrent_seq *q, size_t at, bool end)
{
    double limit = end ? (double)RECURRENT_TAIL / BLOCK : INFINITY;
    int s = has_snapshot(r, q, at) ? -1 : take_snapshot(r, limit);
    if (s >= 0)
        r->snapshots[s] = (struct snapshot){at, 1, false};
    return s;
}

/* The next row after `row` that a mark may be due at: a page's end, `a`, `b`, `c`, at last n. */
static size_t next_row(const struct recurrent_seq *q, size_t row, size_t a, size_t b, size_t c)
{
    size_t next = row + BLOCK - (q->first + row) % BLOCK;
    next = a > row && a < next ? a : next;
    next = b > row && b < next ? b : next;
    next = c > row && c < next ? c : next;
    return next < q->n ? next : q->n;
}

/* Marks of the batch, by row: snapshots at page ends, where one is wanted, and at the tail and the end
 * of a prompt; and the third record of a long batch. */
static void list_marks(struct recurrent_seq *q, bool is_prompt, size_t tail)
{
    size_t keep = q->n > RECURRENT_KEEP ? q->n - RECURRENT_KEEP : 0;
    bool is_wanted = q->wanted > q->first && q->wanted - q->first <= q->n; /* or it is SIZE_MAX */
    size_t wanted = is_wanted ? q->wanted - q->first : 0;
    q->n_marks = 0;
    for (size_t row = 0; row < q->n;) {
        row = next_row(q, row, tail, keep, wanted);
        if (keep && row == keep)
            q->marks[q->n_marks++] = (struct state_mark){row, q->record[q->back], -1};
        if ((q->first + row) % BLOCK == 0 || row == tail || row == wanted ||
            (is_prompt && row == q->n))
            q->marks[q->n_marks++] = (struct state_mark){row, NULL, -1};
    }
}

/* The last rows have the first choice where snapshots are few. */
static void plan_marks(struct recurrent *r, struct recurrent_seq *q, bool is_prompt)
{
    size_t tail = is_prompt && q->n > RECURRENT_TAIL ? q->n - RECURRENT_TAIL : 0, n = 0;
    int s;
    q->next_tail = is_prompt ? q->first + tail : q->tail;
    if (is_prompt)
        q->tail = NO_POSITION;
    list_marks(q, is_prompt, tail);
    for (size_t i = q->n_marks; i-- > 0;) {
        struct state_mark *m = &q->marks[i];
        size_t at = q->first + m->row;
        if (!m->to && (s = new_snapshot(r, q, at, m->row == q->n && at % BLOCK)) >= 0)
            m->to = snapshot_data(r, (size_t)s), m->snapshot = s;
    }
    for (size_t i = 0; i < q->n_marks; i++)
        if (q->marks[i].to)
            q->marks[n++] = q->marks[i];
    q->n_marks = n;
    if (is_prompt && !tail && q->first && (s = new_snapshot(r, q, q->first, false)) >= 0) {
        memcpy(snapshot_data(r, (size_t)s), q->from, r->state_floats * sizeof(float));
        q->snapshots[q->n_snapshots++] = s;
    }
}

bool recurrent_begin(struct recurrent *r, size_t seq, size_t length, size_t n, bool is_prompt)
{
    struct recurrent_seq *q = &r->seqs[seq];
    size_t from = best_record(q, length), back = back_record(q, length);
    if (from == RECURRENT_RECORDS)
        load_record(r, q, from = 0, length), back = from;
    if (q->at[from] < length) /* rows were taken back, or dropped */
        return run_again(q, from, other_record(from, back < RECURRENT_RECORDS ? back : from),
                         length);
    if (back == RECURRENT_RECORDS) /* nothing before is known */
        q->log_begin = q->log_end = length, back = from;
    if (n < RECURRENT_KEEP && length + n - q->at[back] > (n ? RECURRENT_LOG : RECURRENT_KEEP))
        return run_again(q, back, back == from ? other_record(from, from) : back,
                         length + n - RECURRENT_KEEP);
    size_t to = other_record(from, back);
    q->back = other_record(from, to);
    q->from = q->record[from], q->to = q->record[to], q->to_record = to;
    q->at[to] = NO_POSITION;
    q->first = length, q->n = n;
    q->log_from = 0;
    if (n >= RECURRENT_KEEP) {
        q->log_from = n - RECURRENT_KEEP;
        q->log_begin = q->log_end = length; /* the log is written over */
        if (q->log_from)
            q->at[q->back] = NO_POSITION;
    } else if (q->log_begin < q->at[back]) {
        q->log_begin = q->at[back];
    }
    plan_marks(r, q, is_prompt);
    return false;
}

void recurrent_end(struct recurrent *r, size_t seq, bool done)
{
    struct recurrent_seq *q = &r->seqs[seq];
    for (size_t i = 0; i < q->n_marks; i++) {
        int s = q->marks[i].snapshot;
        if (s >= 0 && done && !has_snapshot(r, q, r->snapshots[s].at))
            q->snapshots[q->n_snapshots++] = s;
        else if (s >= 0)
            r->snapshots[s].users--;
        else if (done)
            q->at[q->back] = q->first + q->marks[i].row;
    }
    q->n_marks = 0;
    if (!done)
        return;
    q->tail = q->next_tail;
    q->at[q->to_record] = q->first + q->n;
    q->log_end = q->first + q->n;
    if (q->n >= RECURRENT_KEEP)
        q->log_begin = q->first + q->log_from;
}

/* ---- the store of prefixes ---- */

float *recurrent_kept(const struct recurrent *r, size_t snapshot)
{
    return snapshot_data(r, snapshot);
}

size_t recurrent_take_kept(struct recurrent *r, size_t at)
{
    int s = take_snapshot(r, INFINITY);
    r->snapshots[s] = (struct snapshot){at, 0, false};
    return (size_t)s;
}

void recurrent_adopt(struct recurrent *r, size_t seq, size_t snapshot)
{
    struct recurrent_seq *q = &r->seqs[seq];
    q->snapshots[q->n_snapshots++] = (int32_t)snapshot;
    r->snapshots[snapshot].users++;
    load_record(r, q, 0, r->snapshots[snapshot].at);
}

/* ---- sessions ---- */

const float *recurrent_state(const struct recurrent *r, size_t seq, size_t n)
{
    const struct recurrent_seq *q = &r->seqs[seq];
    for (size_t i = 0; i < RECURRENT_RECORDS; i++)
        if (q->at[i] == n)
            return q->record[i];
    return NULL;
}

void recurrent_save(const struct recurrent *r, size_t seq, size_t n, uint64_t *at, uint64_t *tail)
{
    const struct recurrent_seq *q = &r->seqs[seq];
    *at = q->at[back_record(q, n)];
    *tail = q->tail == NO_POSITION ? 0 : q->tail;
}

float *recurrent_refill(struct recurrent *r, size_t seq, size_t at, size_t n, size_t tail)
{
    struct recurrent_seq *q = &r->seqs[seq];
    recurrent_keep(r, seq, 0);
    q->at[0] = q->log_begin = at, q->log_end = n;
    q->tail = tail ? tail : NO_POSITION;
    return q->record[0];
}

size_t recurrent_snapshots(const struct recurrent *r, size_t seq, size_t n, uint64_t *at)
{
    const struct recurrent_seq *q = r->seqs ? &r->seqs[seq] : NULL;
    size_t i = 0;
    for (; q && i < q->n_snapshots && r->snapshots[q->snapshots[i]].at < n; i++)
        if (at)
            at[i] = r->snapshots[q->snapshots[i]].at;
    return i;
}

const float *recurrent_snapshot(const struct recurrent *r, size_t seq, size_t i)
{
    return snapshot_data(r, (size_t)r->seqs[seq].snapshots[i]);
}

float *recurrent_add_snapshot(struct recurrent *r, size_t seq, size_t at)
{
    struct recurrent_seq *q = &r->seqs[seq];
    int s = new_snapshot(r, q, at, false);
    if (s < 0)
        return NULL;
    q->snapshots[q->n_snapshots++] = s;
    return snapshot_data(r, (size_t)s);
}
