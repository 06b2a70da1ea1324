/* Continues a text with the model that is named: the whole of what a program needs. Copy it.
 *
 *     cc example.c -ltern -o example && ./example model.bin */
#include <stdio.h>
#include <tern.h>

static int print(void *arg, tern_token token, const char *text, size_t n)
{
    (void)arg, (void)token;
    fwrite(text, 1, n, stdout);
    return 0; // anything else stops
}

int main(int argc, char **argv)
{
    struct tern_error e = {0};
    tern_model *model = NULL;
    tern_context *ctx = NULL;
    struct tern_generate_params p = tern_generate_defaults();
    p.prompt = "The cat sat", p.prompt_bytes = 11, p.n_predict = 64, p.on_text = print;
    if (argc < 2 || tern_model_open(&model, argv[1], NULL, &e) ||
        tern_context_open(&ctx, model, NULL, &e) || tern_generate(ctx, &p, NULL, &e))
        fprintf(stderr, "%s\n", argc < 2 ? "usage: example MODEL" : e.text);
    tern_context_close(ctx);
    tern_model_close(model);
    return (int)e.code;
}
