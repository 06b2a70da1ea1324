/* A limit of bytes that many share: see quota.h. */
#include "base/quota.h"

static void note_most(struct quota *q, size_t used)
{
    size_t most = q->most;
    while (most < used && !atomic_compare_exchange_weak(&q->most, &most, used))
        ;
}

bool quota_take(struct quota *q, size_t n)
{
    if (!q)
        return true;
    if (q->of) {
        bool fits = quota_take(q->of, n);
        if (fits)
            q->used += n;
        else
            q->refused = q->used + n;
        return fits;
    }
    size_t used = q->used;
    for (;;) {
        if (used > q->limit || n > q->limit - used) {
            if (!q->make_room || !q->make_room(q->arg))
                return false;
            used = q->used;
        } else if (atomic_compare_exchange_weak(&q->used, &used, used + n)) {
            note_most(q, used + n);
            return true;
        }
    }
}

void quota_give(struct quota *q, size_t n)
{
    for (; q; q = q->of)
        q->used -= n;
}

bool quota_never_fits(const struct quota *q)
{
    return q->of && q->refused > q->of->limit;
}
