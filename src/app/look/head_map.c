/* One head as a matrix: see head_map.h. */
#include "app/look/head_map.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "app/cli/output_file.h"

enum { SVG_TOKENS = 256, CELL = 18, LABELS = 120, TOP = 34 };

static const char *const stages[] = {"raw", "scaled", "masked", "weights", "unmasked"};

static enum tern_attention_stage stage_of(const struct subject *s)
{
    const char *text = s->o->value[LOOK_STAGE].text;
    for (int i = 0; text && i < TERN_N_ATTENTION_STAGES; i++)
        if (!strcmp(text, stages[i]))
            return (enum tern_attention_stage)i;
    return TERN_ATTENTION_WEIGHTS;
}

enum tern_status head_map_open(struct head_map *m, const struct subject *s, const tern_attention *a,
                               struct tern_error *e)
{
    *m = (struct head_map){.s = s, .stage = stage_of(s), .most = 1};
    enum tern_status status = subject_head(s, s->o->value[LOOK_HEAD].text, &m->layer, &m->head, e);
    if (status)
        return status;
    subject_layer(s, m->layer, &m->info);
    m->n = tern_attention_length(a);
    m->is_signed = m->stage < TERN_ATTENTION_WEIGHTS;
    m->values = malloc(m->n * m->n * sizeof *m->values);
    if (!m->values)
        return parser_no_memory_for(e, "%zu x %zu cells", m->n, m->n);
    status =
        tern_attention_rows(a, m->layer, m->head, m->stage, 0, (uint32_t)m->n, m->values, m->n, e);
    float most = 1e-30f;
    for (size_t i = 0; !status && i < m->n * m->n; i++)
        if (isfinite(m->values[i]))
            most = fmaxf(most, fabsf(m->values[i]));
    m->most = m->is_signed ? most : 1;
    return status;
}

void head_map_close(struct head_map *m)
{
    free(m->values);
}

bool head_map_hides(const struct head_map *m, size_t i, size_t j)
{
    if (m->stage != TERN_ATTENTION_MASKED && m->stage != TERN_ATTENTION_WEIGHTS)
        return false;
    size_t far = j > i ? j - i : i - j, w = m->info.window;
    bool apart = w && (m->info.chunked ? j / w != i / w : far >= w);
    return j >= subject_sees_to(m->s, i) || apart;
}

/* ---- SVG ------------------------------------------------------------------------------------ */

static void put_text(FILE *f, const char *text)
{
    for (; *text; text++)
        switch (*text) {
        case '<':
            fputs("&lt;", f);
            break;
        case '&':
            fputs("&amp;", f);
            break;
        default:
            putc(*text, f);
        }
}

/* White to dark blue; negative values to dark orange */
static void put_color(FILE *f, double x)
{
    static const double blue[] = {8, 48, 107}, orange[] = {166, 54, 3};
    const double *end = x < 0 ? orange : blue;
    double t = fmin(fabs(x), 1);
    fprintf(f, "#%02x%02x%02x", (unsigned)lrint(255 + t * (end[0] - 255)),
            (unsigned)lrint(255 + t * (end[1] - 255)), (unsigned)lrint(255 + t * (end[2] - 255)));
}

static void put_labels(FILE *f, const struct head_map *m, size_t i)
{
    char label[128];
    double at = (double)i * CELL + CELL / 2.0 + 4;
    subject_label(m->s, m->s->tokens[i], 14, label, sizeof label);
    fprintf(f, "<text x=\"%d\" y=\"%.1f\" text-anchor=\"end\">", LABELS - 5, LABELS + TOP + at);
    put_text(f, label);
    fprintf(f, "</text>\n<text transform=\"translate(%.1f %d) rotate(-90)\">", LABELS + at,
            LABELS + TOP - 5);
    put_text(f, label);
    fputs("</text>\n", f);
}

static void put_cell(FILE *f, const struct head_map *m, size_t i, size_t j)
{
    double x = (double)m->values[i * m->n + j];
    bool hides = head_map_hides(m, i, j);
    fprintf(f, "<rect x=\"%zu\" y=\"%zu\" fill=\"", LABELS + j * CELL, LABELS + TOP + i * CELL);
    if (hides)
        fputs("url(#hatch)", f);
    else
        put_color(f, x / (double)m->most);
    if (hides)
        fputs("\"/>\n", f);
    else
        fprintf(f, "\"><title>%.4g</title></rect>\n", x);
}

static void put_svg(FILE *f, const struct head_map *m)
{
    size_t wide = LABELS + m->n * CELL + 10, high = wide + TOP;
    fprintf(f,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %zu %zu\" width=\"%zu\" "
            "height=\"%zu\" font-family=\"DejaVu Sans Mono, Menlo, Consolas, monospace\" "
            "font-size=\"12\">\n<title>Attention of layer %llu, head %llu: %s</title>\n"
            "<defs><pattern id=\"hatch\" width=\"6\" height=\"6\" patternUnits=\"userSpaceOnUse\">"
            "<path d=\"M-1 7 7 -1\" stroke=\"#bbb\"/></pattern></defs>\n"
            "<style>rect{width:%dpx;height:%dpx;stroke:#e4e4e4;stroke-width:.5}</style>\n"
            "<path fill=\"#fff\" d=\"M0 0H%zuV%zuH0z\"/>\n"
            "<text x=\"%d\" y=\"20\" font-size=\"14\">layer %llu, head %llu: %s</text>\n",
            wide, high, wide, high, (unsigned long long)m->layer, (unsigned long long)m->head,
            stages[m->stage], CELL, CELL, wide, high, 10, (unsigned long long)m->layer,
            (unsigned long long)m->head, stages[m->stage]);
    for (size_t i = 0; i < m->n; i++) {
        put_labels(f, m, i);
        for (size_t j = 0; j < m->n; j++)
            put_cell(f, m, i, j);
    }
    fputs("</svg>\n", f);
}

enum tern_status head_map_check_svg(size_t n, struct tern_error *e)
{
    if (n <= SVG_TOKENS)
        return TERN_OK;
    snprintf(e->text, sizeof e->text,
             "a picture of %zu tokens would have %zu cells; at most %d tokens: write a page with "
             "-o head.html",
             n, n * n, SVG_TOKENS);
    return e->code = TERN_LIMIT;
}

enum tern_status head_map_write_svg(const struct head_map *m, const char *path,
                                    struct tern_error *e)
{
    struct output_file out;
    enum tern_status status = output_file_open(&out, path, e);
    if (status)
        return status;
    put_svg(out.stream, m);
    return output_file_close(&out, TERN_OK, e);
}
