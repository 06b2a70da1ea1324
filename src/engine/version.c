/* What this build is, and the names of its types. */
#include "kernels/formats.h"
#include "kernels/targets.h"
#include "model/cache.h"

const char *tern_type_name(enum tern_type type)
{
    const struct format *f = format_find((uint64_t)type);
    return f ? f->name : NULL;
}

const char *tern_quantize_types(void)
{
    return format_quantized_names();
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
#define SPACE_AND_NAME(file, name, needs) " " #name
#define BAR_AND_NAME(file, name, needs) "|" #name

const char *tern_build_info(void)
{
    return COMPILER
        "; targets" TARGETS(SPACE_AND_NAME)
        "; arith " TEXT(TERN_ARITH) "; format " TEXT(TERN_FORMAT_MAJOR) "." TEXT(TERN_FORMAT_MINOR);
}

const char *tern_cpu_names(void)
{
    return &TARGETS(BAR_AND_NAME)[1];
}
