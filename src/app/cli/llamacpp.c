/* Options of llama.cpp's programs: see llamacpp.h. ADDING A HINT: a row of the table. */
#include "app/cli/llamacpp.h"

#include <stddef.h>
#include <string.h>

static const char no_gpu[] = "tern runs on the CPU only";
static const char one_batch[] = "tern has one batch size: -b";
static const char attention[] = "attention always works in blocks; there is nothing to switch";
static const char no_download[] = "tern downloads nothing; tools/convert.py makes a weights file "
                                  "from a model on this machine";

static const struct {
    const char *argument, *hint;
} hints[] = {
    {"-ngl", no_gpu},
    {"--gpu-layers", no_gpu},
    {"--n-gpu-layers", no_gpu},
    {"-sm", no_gpu},
    {"-mg", no_gpu},
    {"-nkvo", no_gpu},
    {"-ub", one_batch},
    {"--ubatch-size", one_batch},
    {"-fa", attention},
    {"--flash-attn", attention},
    {"-hf", no_download},
    {"--hf-repo", no_download},
    {"--no-mmap", "this option is called --load copy"},
};

const char *llamacpp_hint(const char *argument)
{
    size_t n = strcspn(argument, "=");
    for (size_t i = 0; i < sizeof hints / sizeof *hints; i++)
        if (strlen(hints[i].argument) == n && !memcmp(hints[i].argument, argument, n))
            return hints[i].hint;
    return NULL;
}
