/* Pages: see page.h. */
#include "app/look/page.h"

#include "app/cli/json.h"

#include <math.h>
#include <string.h>

enum tern_status page_check_name(const char *path, struct tern_error *e)
{
    size_t n = path ? strlen(path) : 0;
    if (path && (n < 6 || strcmp(path + n - 5, ".html")))
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
    json_text(put_escaped, f, text, n);
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

static void put_markup(FILE *f, const char *text)
{
    for (; *text; text++)
        if (*text == '<' || *text == '&')
            fputs(*text == '<' ? "&lt;" : "&amp;", f);
        else
            putc(*text, f);
}

/* Nothing but what stands in the file may be loaded or run. */
void page_begin(FILE *f, const char *title)
{
    fputs("<!doctype html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n"
          "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; "
          "script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data: blob:\">\n"
          "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>",
          f);
    put_markup(f, title);
    fprintf(f, "</title>\n<style>\n%s</style>\n<body>\n", page_page_css);
}

void page_data_begin(FILE *f)
{
    fputs("<script type=\"application/json\" id=\"data\">\n{", f);
}

void page_data_end(FILE *f)
{
    fputs("}\n</script>\n", f);
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

void page_end(FILE *f, const char *script)
{
    fprintf(f, "<script>\n\"use strict\";\n%s%s</script>\n</body>\n</html>\n", page_page_js,
            script);
}
