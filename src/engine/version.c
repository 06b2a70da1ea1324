/* What this build is, and the names of its types. */
#include "kernels/formats.h"
#include "model/cache.h"

const char *tern_type_name(enum tern_type type)
{
    const struct format *f = format_find((uint64_t)type);
    return f ? f->name : "unknown";
}

const char *tern_cache_type_name(enum tern_cache_type type)
{
    static const char *const names[N_CACHE_TYPES] = {"f16", "f32", "q8"};
    return (unsigned)type < N_CACHE_TYPES ? names[type] : NULL;
}

const char *tern_version(void)
{
    return TERN_VERSION;
}

#define TEXT_(x) #x
#define TEXT(x) TEXT_(x)
#if defined(__clang__)
#define COMPILER "clang " __clang_version__
#else
#define COMPILER "gcc " __VERSION__
#endif
#if defined(REF_ONLY)
#define TARGETS "ref"
#elif defined(__x86_64__)
#define TARGETS "ref avx2 avx512"
#elif defined(__aarch64__)
#define TARGETS "ref neon"
#else
#define TARGETS "ref"
#endif

const char *tern_build_info(void)
{
    return COMPILER
        "; targets " TARGETS
        "; arith " TEXT(TERN_ARITH) "; format " TEXT(TERN_FORMAT_MAJOR) "." TEXT(TERN_FORMAT_MINOR);
}
