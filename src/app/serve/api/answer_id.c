/* Names of answers: see answer_id.h. */
#include "app/serve/api/answer_id.h"

#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/random.h>

void answer_id(char id[ANSWER_ID_BYTES], const char *prefix)
{
    static _Atomic uint64_t count;
    uint64_t random[2] = {0, ++count};
    (void)!getrandom(random, 12, GRND_NONBLOCK);
    (void)snprintf(id, ANSWER_ID_BYTES, "%.20s%016llx%08llx", prefix, (unsigned long long)random[0],
                   (unsigned long long)(random[1] & 0xffffffff));
}

size_t answer_first_call(void)
{
    static _Atomic uint32_t count;
    uint32_t random = ++count * 1000;
    (void)!getrandom(&random, sizeof random, GRND_NONBLOCK);
    return 100000000 + random % 899999000;
}
