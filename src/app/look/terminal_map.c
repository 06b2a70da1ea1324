/* Heat maps in a terminal: see terminal_map.h. */
#include "app/look/terminal_map.h"

#include "app/cli/out.h"

#include <stdlib.h>

enum tern_status terminal_map_show(const struct subject *s, const tern_attention *a,
                                   struct tern_error *e)
{
    uint64_t layer = 0, head = 0;
    size_t n = tern_attention_length(a);
    const char *name = s->o->value[LOOK_HEAD].text;
    float *row = malloc(n * sizeof *row);
    enum tern_status status = name ? subject_head(s, name, &layer, &head, e) : TERN_OK;
    for (uint32_t i = 0; !status && row && i < n; i++) {
        char label[64];
        status = tern_attention_rows(a, layer, head, TERN_ATTENTION_WEIGHTS, i, 1, row, n, e);
        out_print("%16s ", subject_label(s, s->tokens[i], 16, label, sizeof label));
        for (size_t j = 0; j <= i; j++)
            out_print(" %.2f", (double)row[j]);
        out_print("\n");
    }
    free(row);
    return status;
}
