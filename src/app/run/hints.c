/* Hints: see hints.h. ADDING A HINT: a row of the table; in cli/llamacpp.c if llama.cpp's other
 * programs have the option, too. */
#include "app/run/hints.h"

#include "app/cli/llamacpp.h"
#include "app/cli/number.h"
#include "app/cli/out.h"

#include <stdbool.h>
#include <string.h>

static const char escapes[] = "tern leaves escapes to the shell: $'one\\ntwo'";
static const char cache_types[] = "keys and values share one type: --cache-type";
static const char one_count[] = "tern has one number of threads: -t";

static const struct {
    const char *argument, *hint;
} hints[] = {
    {"-i", "llama2.c's -i is the second argument here, or -p"},
    {"-z", "llama2.c's -z is not needed: the tokenizer is in the weights file (tools/convert.py "
           "--tokenizer puts it there)"},
    {"-y", "llama2.c's -y is called --system"},
    {"-e", escapes},
    {"--escape", escapes},
    {"--no-escape", "not needed: tern never interprets escapes"},
    {"-ctk", cache_types},
    {"-ctv", cache_types},
    {"--cache-type-k", cache_types},
    {"--cache-type-v", cache_types},
    {"-tb", one_count},
    {"--threads-batch", one_count},
    {"--no-display-prompt", "this option is called --no-echo"},
    {"--log-disable", "this option is called -q"},
    {"--do-sample", "tern samples by default; --greedy switches sampling off"},
};

const char *hints_find(const char *argument)
{
    size_t n = strcspn(argument, "=");
    for (size_t i = 0; i < sizeof hints / sizeof *hints; i++)
        if (strlen(hints[i].argument) == n && !memcmp(hints[i].argument, argument, n))
            return hints[i].hint;
    return llamacpp_hint(argument);
}

const char *hints_value(const char *spelled, const char *value)
{
    double real;
    bool fraction = strchr(value, '.') && number_real(value, &real);
    if (!strcmp(spelled, "-t") && fraction)
        return "-t is the number of threads; llama2.c's -t is called --temp";
    if (!strcmp(spelled, "-p") && fraction)
        return "this looks like llama2.c's -p, which is called --top-p; use --prompt for a prompt "
               "that is a number";
    if (!strcmp(spelled, "-m") && !strcmp(value, "generate"))
        return "-m names the weights file; run does llama2.c's -m generate by default";
    if (!strcmp(spelled, "-m") && !strcmp(value, "chat"))
        return "-m names the weights file; llama2.c's -m chat is called --chat";
    if (!strcmp(spelled, "--grammar") && strstr(value, "::="))
        return "--grammar takes the name of a file that holds the grammar";
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
