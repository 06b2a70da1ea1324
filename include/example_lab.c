/* Prints the size of the residual stream after every layer, for one token. Built as example.c is. */
#include <stdio.h>
#include <string.h>
#include <tern_lab.h>

static void show(void *arg, const struct tern_observation *o)
{
    float sum = 0;
    (void)arg;
    if (strcmp(o->operation, "out"))
        return;
    for (size_t i = 0; i < o->columns; i++)
        sum += o->values[i] * o->values[i];
    printf("layer %d: mean square %g\n", (int)o->layer, sum / o->columns);
}

int main(int argc, char **argv)
{
    struct tern_error e = {0};
    tern_model *model = NULL;
    tern_context *ctx = NULL;
    if (argc < 2 || tern_model_open(&model, argv[1], NULL, &e) ||
        tern_context_open(&ctx, model, NULL, &e) || tern_observe(ctx, show, NULL, &e) ||
        tern_batch_add(ctx, 0, 1, 0, &e) || tern_forward(ctx))
        fprintf(stderr, "%s\n", argc < 2 ? "usage: example MODEL" : e.text);
    tern_context_close(ctx);
    tern_model_close(model);
    return (int)e.code;
}
