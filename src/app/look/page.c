/* Pages: see page.h. */
#include "app/look/page.h"

#include "app/cli/json.h"

#include <math.h>
#include <string.h>

bool page_is_named(const char *path)
{
    size_t n = path ? strlen(path) : 0;
    return n > 5 && !strcmp(path + n - 5, ".html");
}

enum tern_status page_check_name(const char *path, struct tern_error *e)
{
    if (path && !page_is_named(path))
        return parser_usage(e, "-o %.200s: the name must end in .html", path);
    return TERN_OK;
}

static void put_escaped(void *arg, const char *text, size_t n)
{
    FILE *f = arg;
    for (size_t i = 0; i < n; i++)
        if (text[i] == '<')
            fputs("\\u003c", f);
        else
            putc(text[i], f);
}

void page_string(FILE *f, const char *text, size_t n)
{
    putc('"', f);
    for (size_t i = 0; i < n;) {
        char piece[16];
        i += subject_piece(text + i, n - i, piece);
        json_text(put_escaped, f, piece, strlen(piece));
    }
    putc('"', f);
}

void page_token(FILE *f, const struct subject *s, tern_token token)
{
    char label[256];
    subject_label(s, token, 64, label, sizeof label);
    page_string(f, label, strlen(label));
}

void page_number(FILE *f, double x)
{
    if (isfinite(x))
        fprintf(f, "%.7g", x);
    else
        fputs("null", f);
}

void page_list(FILE *f, const char *name, const float *x, size_t n)
{
    fprintf(f, ",\"%s\":%s", name, x ? "[" : "null");
    for (size_t i = 0; x && i < n; i++) {
        fputs(i ? "," : "", f);
        page_number(f, (double)x[i]);
    }
    fputs(x ? "]" : "", f);
}

void page_tokens(FILE *f, const char *name, const struct subject *s, const tern_token *tokens,
                 size_t n)
{
    fprintf(f, ",\"%s\":[", name);
    for (size_t i = 0; i < n; i++) {
        fputs(i ? "," : "", f);
        page_token(f, s, tokens[i]);
    }
    putc(']', f);
}

static void put_markup(FILE *f, const char *text)
{
    for (; *text; text++)
        if (*text == '<' || *text == '&')
            fputs(*text == '<' ? "&lt;" : "&amp;", f);
        else
            putc(*text, f);
}

/* Nothing but what stands in the file may be loaded or run. */
static void put_head(FILE *f, const char *title)
{
    fputs("<!doctype html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n"
          "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; "
          "script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data: blob:\">\n"
          "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>",
          f);
    put_markup(f, title);
    fprintf(f, "</title>\n<style>\n%s</style>\n<body>\n", page_page_css);
}

enum tern_status page_open(struct page *p, const char *kind, const char *title,
                           const struct subject *s, const char *path, struct tern_error *e)
{
    const char *model = subject_name(s);
    *p = (struct page){.in_data = true};
    enum tern_status status = output_file_open(&p->file, path, e);
    if (status)
        return status;
    p->f = p->file.stream;
    put_head(p->f, title);
    fprintf(p->f,
            "<script type=\"application/json\" id=\"data\">\n{\"kind\":\"%s\",\"model\":", kind);
    page_string(p->f, model, strlen(model));
    return TERN_OK;
}

void page_data_end(struct page *p)
{
    fputs("}\n</script>\n", p->f);
    p->in_data = false;
}

enum tern_status page_close(struct page *p, const char *script, enum tern_status status,
                            struct tern_error *e)
{
    if (p->in_data)
        page_data_end(p);
    fprintf(p->f, "<script>\n\"use strict\";\n%s%s%s</script>\n</body>\n</html>\n", page_dom_js,
            page_page_js, script);
    return output_file_close(&p->file, status, e);
}

void page_base64(FILE *f, const void *bytes, size_t n)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const unsigned char *p = bytes;
    for (size_t i = 0; i < n; i += 3) {
        size_t left = n - i;
        unsigned x = (unsigned)p[i] << 16 | (left > 1 ? (unsigned)p[i + 1] << 8 : 0) |
                     (left > 2 ? p[i + 2] : 0);
        putc(digits[x >> 18], f);
        putc(digits[x >> 12 & 63], f);
        putc(left > 1 ? digits[x >> 6 & 63] : '=', f);
        putc(left > 2 ? digits[x & 63] : '=', f);
    }
}

void page_blob(FILE *f, const char *id, const void *bytes, size_t n)
{
    fprintf(f, "<script type=\"text/plain\" id=\"%s\">", id);
    page_base64(f, bytes, n);
    fputs("</script>\n", f);
}

void page_script(FILE *f, const char *script)
{
    fprintf(f, "<script>\n\"use strict\";\n%s</script>\n", script);
}
