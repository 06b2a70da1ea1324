/* Hints: see hints.h. ADDING A HINT: a row of the table. */
#include "app/run/hints.h"

#include "app/cli/number.h"
#include "app/cli/out.h"

#include <stdbool.h>
#include <string.h>

static const char no_grammar[] = "the form of the output cannot be constrained here";
static const char no_gpu[] = "everything runs on the processor here";
static const char cache_types[] = "keys and values have one type here, set by --cache-type";

static const struct {
    const char *argument, *hint;
} hints[] = {
    {"-i", "llama2.c's -i is the second argument, or -p, here"},
    {"-z", "llama2.c's -z is not needed: the tokenizer is in the weights file (tools/convert.py "
           "--tokenizer puts it there)"},
    {"-y", "llama2.c's -y is called --system here"},
    {"-e", "escapes are the shell's business: $'one\\ntwo'"},
    {"--escape", "escapes are the shell's business: $'one\\ntwo'"},
    {"--no-escape", "not needed: escapes are never interpreted"},
    {"-ngl", no_gpu},
    {"--gpu-layers", no_gpu},
    {"--n-gpu-layers", no_gpu},
    {"--no-mmap", "it is called --load copy here"},
    {"-ub", "there is one batch size here: -b"},
    {"--ubatch-size", "there is one batch size here: -b"},
    {"-ctk", cache_types},
    {"-ctv", cache_types},
    {"--cache-type-k", cache_types},
    {"--cache-type-v", cache_types},
    {"-fa", "attention is always computed by blocks here"},
    {"--flash-attn", "attention is always computed by blocks here"},
    {"-tb", "there is one number of threads here: -t"},
    {"--threads-batch", "there is one number of threads here: -t"},
    {"--no-display-prompt", "it is called --no-echo here"},
    {"--log-disable", "it is called -q here"},
    {"--do-sample", "sampling is the default here; --greedy switches it off"},
    {"--grammar", no_grammar},
    {"--grammar-file", no_grammar},
    {"-j", no_grammar},
    {"-jf", no_grammar},
    {"--json-schema", no_grammar},
    {"-hf", "nothing is downloaded here: tools/convert.py makes a weights file of a local model"},
    {"--hf-repo", "nothing is downloaded here: tools/convert.py makes a weights file of a local "
                  "model"},
};

const char *hints_find(const char *argument)
{
    size_t n = strcspn(argument, "=");
    for (size_t i = 0; i < sizeof hints / sizeof *hints; i++)
        if (strlen(hints[i].argument) == n && !memcmp(hints[i].argument, argument, n))
            return hints[i].hint;
    return NULL;
}

const char *hints_value(const char *spelled, const char *value)
{
    double real;
    bool fraction = strchr(value, '.') && number_real(value, &real);
    if (!strcmp(spelled, "-t") && fraction)
        return "threads must be an integer; llama2.c's -t is --temp here";
    if (!strcmp(spelled, "-p") && fraction)
        return "this looks like llama2.c's -p, which is --top-p here; a prompt that is a number "
               "can be given with --prompt";
    if (!strcmp(spelled, "-m") && !strcmp(value, "generate"))
        return "llama2.c's -m generate is what run does by default; -m names the weights file here";
    if (!strcmp(spelled, "-m") && !strcmp(value, "chat"))
        return "llama2.c's -m chat is called --chat here; -m names the weights file here";
    return NULL;
}

void hints_help_llama2c(void)
{
    out_print("llama2.c                 here\n"
              "run model.bin            ./run model.bin, after tools/convert.py made model.bin\n"
              "                         of llama2.c's file and its tokenizer.bin\n"
              "-t 0.8   temperature     --temp 0.8           (-t is the number of threads)\n"
              "-p 0.9   top-p           --top-p 0.9          (-p is the prompt)\n"
              "-s 42    seed            -s 42                (other numbers, so another text)\n"
              "-n 256   steps           -n 256               (new tokens, without the prompt's)\n"
              "-n 0     full context    leave -n out\n"
              "-i text  prompt          second argument, or -p text\n"
              "-z file  tokenizer       in model.bin: tools/convert.py --tokenizer file\n"
              "-m mode  generate, chat  --chat for a chat    (-m is the weights file)\n"
              "-y text  system prompt   --system text\n"
              "\n"
              "llama2.c samples with temperature 1 and top-p 0.9 by default. The same here:\n"
              "  ./run model.bin \"text\" --temp 1 --top-p 0.9 --top-k 0 --min-p 0\n"
              "Greedy text is the same in both: ./run model.bin \"text\" --greedy -n 256\n");
}
