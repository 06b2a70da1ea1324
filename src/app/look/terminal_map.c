/* Heat maps in a terminal: see terminal_map.h. */
#include "app/look/terminal_map.h"

#include "app/cli/out.h"
#include "app/look/head_map.h"
#include "app/look/head_scores.h"
#include "app/look/table.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { LABEL = 14, SMALL = 16, MOST_TOKENS = 4096 };

/* Token i as a label of `columns`, and a space */
static void print_label(const struct subject *s, size_t i, size_t columns)
{
    char label[160];
    out_print("%s ", table_label(s, s->tokens[i], columns, true, label, sizeof label));
}

/* ---- one head ------------------------------------------------------------------------------- */

/* A cell holds its number if the terminal is wide enough for all of a row. */
static void print_row(const struct head_map *m, size_t i, enum paint paint, size_t cell)
{
    print_label(m->s, i, LABEL);
    for (size_t j = 0; j < m->n; j++) {
        char number[16];
        double x = (double)m->values[i * m->n + j];
        snprintf(number, sizeof number, m->is_signed ? "%.1f" : "%.2f", x);
        if (head_map_hides(m, i, j))
            paint_masked(paint, cell);
        else
            paint_cell(paint, x / (double)m->most, m->is_signed, cell > 4 ? number : NULL, cell);
    }
    out_print("\n");
}

/* The keys above their columns, cut to the cells' width */
static void print_keys(const struct subject *s, size_t n, size_t cell)
{
    out_print("%*s", LABEL + 1, "");
    for (size_t j = 0; cell > 4 && j < n; j++)
        print_label(s, j, cell - 1);
    out_print("\n");
}

/* Columns for the cells of a row */
static size_t row_room(void)
{
    size_t width = table_width();
    return width > LABEL ? width - LABEL - 1 : 0;
}

enum tern_status terminal_map_check(const struct subject *s, struct tern_error *e)
{
    size_t n = subject_length(s), most = isatty(STDOUT_FILENO) ? row_room() : MOST_TOKENS;
    if (!s->o->value[LOOK_HEAD].given || n <= most)
        return TERN_OK;
    snprintf(e->text, sizeof e->text,
             "%zu tokens are too many for a map as text, which has at most %zu here: write a page "
             "with -o head.html",
             n, most);
    return e->code = TERN_LIMIT;
}

static enum tern_status show_head(const struct subject *s, const tern_attention *a,
                                  struct tern_error *e)
{
    struct head_map m;
    size_t n = tern_attention_length(a), room = row_room();
    enum tern_status status = head_map_open(&m, s, a, e);
    size_t wide = m.is_signed ? 7 : 6;
    size_t cell = !isatty(STDOUT_FILENO) || n * wide <= room ? wide : n * 2 <= room ? 2 : 1;
    if (!status && cell > 4)
        print_keys(s, n, cell);
    for (size_t i = 0; !status && i < n; i++)
        print_row(&m, i, paint_find(s->o), cell);
    head_map_close(&m);
    return status;
}

/* ---- all heads ------------------------------------------------------------------------------ */

static double cell_at(const struct head_picture *p, size_t i, size_t j)
{
    return i < p->side && j <= i ? p->cells[i * p->side + j] / 255.0 : -1;
}

/* Heads of a layer, side by side: a line has two rows of cells. */
static void print_line(const struct head_picture *p, size_t n, size_t i, enum paint paint)
{
    for (size_t h = 0; h < n; h++) {
        for (size_t j = 0; j < SMALL; j++)
            if (j < p[h].side)
                paint_pair(paint, cell_at(&p[h], i, j), cell_at(&p[h], i + 1, j));
            else
                (void)out_stream(" ", 1);
        (void)out_stream("  ", 2);
    }
    out_print("\n");
}

static void print_heads(const struct head_picture *p, size_t n, enum paint paint)
{
    size_t at_once = (table_width() + 2) / (SMALL + 2);
    for (size_t h = 0, some; h < n; h += some) {
        some = n - h < at_once ? n - h : at_once ? at_once : 1;
        for (size_t k = h; k < h + some; k++) {
            char name[32];
            snprintf(name, sizeof name, "%llu.%llu", (unsigned long long)p[k].layer,
                     (unsigned long long)p[k].head);
            out_print("%-*s", SMALL + 2, name);
        }
        out_print("\n");
        for (size_t i = 0; i < p[h].side; i += 2)
            print_line(p + h, some, i, paint);
    }
}

static enum tern_status show_layer(const struct subject *s, const tern_attention *a, uint64_t layer,
                                   float *row, struct tern_error *e)
{
    struct tern_layer_info info;
    tern_model_layer(s->model, layer, &info);
    struct head_picture *p = calloc(info.n_heads, sizeof *p);
    enum tern_status status = p ? TERN_OK : parser_no_memory_for(e, "the picture of a head");
    for (uint64_t h = 0; !status && h < info.n_heads; h++) {
        p[h].layer = layer, p[h].head = h;
        status = head_picture_take(&p[h], s, a, SMALL, row, e);
    }
    if (!status)
        print_heads(p, info.n_heads, paint_find(s->o));
    for (uint64_t h = 0; p && h < info.n_heads; h++)
        free(p[h].cells);
    free(p);
    return status;
}

static enum tern_status show_all(const struct subject *s, const tern_attention *a,
                                 struct tern_error *e)
{
    unsigned char *layers;
    float *row = malloc(tern_attention_length(a) * sizeof *row);
    enum tern_status status = subject_layers(s, &layers, e);
    if (!row)
        status = parser_no_memory_for(e, "the picture of a head");
    for (uint64_t l = 0; !status && l < s->info.n_layers; l++)
        if (layers[l])
            status = show_layer(s, a, l, row, e);
    if (!status && !s->o->value[LOOK_QUIET].given)
        fprintf(stderr, "look: rows are tokens, columns what they look at; --head 2.3 shows one "
                        "head, -o atlas.html writes a page\n");
    free(row);
    free(layers);
    return status;
}

enum tern_status terminal_map_show(const struct subject *s, const tern_attention *a,
                                   struct tern_error *e)
{
    return (s->o->value[LOOK_HEAD].given ? show_head : show_all)(s, a, e);
}
