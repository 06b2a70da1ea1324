/* Names of answers: see answer_id.h. */
#include "app/serve/api/answer_id.h"

#include <stdint.h>
#include <stdio.h>
#include <sys/random.h>

void answer_id(char id[ANSWER_ID_BYTES], const char *prefix)
{
    static uint64_t count; /* of the HTTP thread, which alone calls this */
    uint64_t random[2] = {0, ++count};
    (void)!getrandom(random, 12, GRND_NONBLOCK);
    (void)snprintf(id, ANSWER_ID_BYTES, "%.20s%016llx%08llx", prefix, (unsigned long long)random[0],
                   (unsigned long long)(random[1] & 0xffffffff));
}

size_t answer_first_call(void)
{
    static uint32_t count; /* as above */
    uint32_t random = ++count * 1000;
    (void)!getrandom(&random, sizeof random, GRND_NONBLOCK);
    return 100000000 + random % 899999000;
}
