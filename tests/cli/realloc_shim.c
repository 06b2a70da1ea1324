/* Loaded before the program: realloc fails for sizes from REALLOC_FROM to REALLOC_TO bytes, malloc
 * for MALLOC bytes. */
#define _GNU_SOURCE /* RTLD_NEXT */
#include <dlfcn.h>
#include <stdlib.h>

void *malloc(size_t n)
{
    static void *(*real)(size_t);
    const char *fails = getenv("MALLOC");
    if (!real)
        real = (void *(*)(size_t))dlsym(RTLD_NEXT, "malloc");
    return fails && n == strtoul(fails, NULL, 10) ? NULL : real(n);
}

void *realloc(void *p, size_t n)
{
    static void *(*real)(void *, size_t);
    const char *from = getenv("REALLOC_FROM"), *to = getenv("REALLOC_TO");
    if (!real)
        real = (void *(*)(void *, size_t))dlsym(RTLD_NEXT, "realloc");
    if (from && to && n >= strtoul(from, NULL, 10) && n <= strtoul(to, NULL, 10))
        return NULL;
    return real(p, n);
}
