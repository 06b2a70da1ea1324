/* Fields and their forms: see bench_fields.h. */
#include "app/bench/bench_fields.h"

#include "app/cli/json.h"
#include "app/cli/out.h"
#include "app/cli/signals.h"
#include "app/cli/visible.h"

#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* ---- lists in JSON -------------------------------------------------------------------------- */

static const char end_of_list[] = "\n]\n";
static volatile sig_atomic_t is_open[2]; /* on standard output, and on standard error */

/* At the deadline after a signal the program ends where it is: a list ends there, too. */
static void end_lists(void)
{
    for (int i = 0; i < 2; i++)
        if (is_open[i])
            (void)!write(i ? STDERR_FILENO : STDOUT_FILENO, end_of_list, sizeof end_of_list - 1);
}

/* The deadline waits while a part of a list is written; but standard error may block for long. */
static void begin_part(const struct bench_printer *p)
{
    sigset_t deadline;
    sigemptyset(&deadline);
    sigaddset(&deadline, SIGALRM);
    if (!p->to_stderr)
        sigprocmask(SIG_BLOCK, &deadline, NULL);
}

static void end_part(const struct bench_printer *p, bool more)
{
    sigset_t deadline;
    out_write("", 0); /* what is held */
    is_open[p->to_stderr] = more;
    sigemptyset(&deadline);
    sigaddset(&deadline, SIGALRM);
    sigprocmask(SIG_UNBLOCK, &deadline, NULL);
}

/* ---- all forms ------------------------------------------------------------------------------ */

void bench_say(const struct bench_printer *p, const char *format, ...)
{
    char text[2048];
    va_list ap;
    va_start(ap, format);
    size_t n = visible_format(text, sizeof text, format, ap);
    va_end(ap);
    if (p->to_stderr)
        visible_error(text, n);
    else
        out_text(text, n);
}

void bench_add(struct bench_fields *f, const char *name, enum bench_field_kind kind,
               const char *format, ...)
{
    struct bench_field *to = &f->list[f->n++];
    va_list ap;
    va_start(ap, format);
    to->name = name, to->kind = kind;
    vsnprintf(to->text, sizeof to->text, format, ap);
    va_end(ap);
}

void bench_add_u64(struct bench_fields *f, const char *name, uint64_t value)
{
    bench_add(f, name, FIELD_NUMBER, "%llu", (unsigned long long)value);
}

void bench_add_real(struct bench_fields *f, const char *name, double value)
{
    bench_add(f, name, FIELD_NUMBER, "%.6f", value);
}

static void print_csv(const struct bench_printer *p, const struct bench_fields *f)
{
    for (size_t i = 0; !p->n && i < f->n; i++)
        bench_say(p, "%s%s", f->list[i].name, i + 1 < f->n ? "," : "\n");
    for (size_t i = 0; i < f->n; i++) {
        char text[2 * sizeof f->list[i].text];
        size_t n = 0;
        for (const char *c = f->list[i].text; *c; c++) {
            if (*c == '"')
                text[n++] = '"';
            text[n++] = *c;
        }
        bench_say(p, "\"%.*s\"%s", (int)n, text, i + 1 < f->n ? "," : "\n");
    }
}

static void put(void *arg, const char *text, size_t n)
{
    bench_say(arg, "%.*s", (int)n, text);
}

static void print_string(struct bench_printer *p, const char *value)
{
    bench_say(p, "\"");
    json_text(put, p, value, strlen(value));
    bench_say(p, "\"");
}

/* One object; `gap` between its fields. */
static void print_object(struct bench_printer *p, const char *gap, const struct bench_fields *f,
                         bench_more_fn more, const void *arg)
{
    for (size_t i = 0; i < f->n; i++) {
        bench_say(p, "%s%s\"%s\": ", i ? "," : "{", i || *gap == '\n' ? gap : "", f->list[i].name);
        if (f->list[i].kind == FIELD_STRING)
            print_string(p, f->list[i].text);
        else
            bench_say(p, "%s", f->list[i].text);
    }
    if (more)
        more(p, gap, arg);
}

void bench_fields_begin(const struct bench_printer *p)
{
    if (p->form && !strcmp(p->form, "json")) {
        signals_at_end(end_lists);
        begin_part(p);
        bench_say(p, "[");
        end_part(p, true);
    }
}

void bench_fields_print(struct bench_printer *p, const struct bench_fields *f, bench_more_fn more,
                        const void *arg)
{
    if (!strcmp(p->form, "csv")) {
        print_csv(p, f);
    } else if (!strcmp(p->form, "json")) {
        begin_part(p);
        bench_say(p, p->n ? ",\n  " : "\n  ");
        print_object(p, "\n    ", f, more, arg);
        bench_say(p, "\n  }");
        end_part(p, true);
    } else if (!strcmp(p->form, "jsonl")) {
        print_object(p, " ", f, more, arg);
        bench_say(p, "}\n");
    }
}

void bench_fields_end(const struct bench_printer *p)
{
    if (p->form && !strcmp(p->form, "json")) {
        begin_part(p);
        bench_say(p, "%s", end_of_list);
        end_part(p, false);
    }
}
