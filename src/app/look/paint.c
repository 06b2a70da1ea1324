/* Colours in a terminal: see paint.h. */
#include "app/look/paint.h"

#include "app/cli/out.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char shades[] = " .:-=+*#%@";

struct color {
    int r, g, b;
};

enum paint paint_find(const struct look_options *o)
{
    const char *asked = o->value[LOOK_COLOR].text, *term = getenv("TERM");
    const char *depth = getenv("COLORTERM"), *no = getenv("NO_COLOR");
    if (asked && strcmp(asked, "auto"))
        return *asked == 't' ? PAINT_TRUE : *asked == '2' ? PAINT_256 : PAINT_NONE;
    if (!isatty(STDOUT_FILENO) || (no && *no) || !term || !strcmp(term, "dumb"))
        return PAINT_NONE;
    if (depth && (!strcmp(depth, "truecolor") || !strcmp(depth, "24bit")))
        return PAINT_TRUE;
    return strstr(term, "256color") ? PAINT_256 : PAINT_NONE;
}

/* From black to yellow over purple; negative values to orange, over black. */
static struct color color_of(double x, bool is_signed)
{
    static const struct color steps[] = {
        {16, 16, 20}, {60, 30, 100}, {150, 50, 110}, {230, 110, 70}, {253, 231, 140}};
    static const struct color ends[] = {{235, 130, 40}, {16, 16, 20}, {80, 160, 255}};
    const struct color *list = is_signed ? ends : steps;
    double at = is_signed ? x + 1 : 4 * x, most = is_signed ? 2 : 4;
    at = fmin(fmax(at, 0), most);
    int i = at < most ? (int)at : (int)most - 1;
    at -= i;
    return (struct color){(int)lrint(list[i].r + at * (list[i + 1].r - list[i].r)),
                          (int)lrint(list[i].g + at * (list[i + 1].g - list[i].g)),
                          (int)lrint(list[i].b + at * (list[i + 1].b - list[i].b))};
}

/* The nearest of the 6 x 6 x 6 colours */
static int nearest_256(struct color c)
{
    int r = (c.r < 48 ? 0 : c.r < 115 ? 1 : (c.r - 35) / 40);
    int g = (c.g < 48 ? 0 : c.g < 115 ? 1 : (c.g - 35) / 40);
    int b = (c.b < 48 ? 0 : c.b < 115 ? 1 : (c.b - 35) / 40);
    return 16 + 36 * r + 6 * g + b;
}

/* The start of a colour: 38 of the text, 48 of the background */
static void begin(enum paint p, int ground, struct color c)
{
    char text[32];
    int n = p == PAINT_TRUE
                ? snprintf(text, sizeof text, "\033[%d;2;%d;%d;%dm", ground, c.r, c.g, c.b)
                : snprintf(text, sizeof text, "\033[%d;5;%dm", ground, nearest_256(c));
    (void)out_stream(text, (size_t)n);
}

static void put(const char *text, size_t width)
{
    char padded[32];
    int n = snprintf(padded, sizeof padded, "%*s", (int)width, text);
    (void)out_stream(padded, (size_t)n);
}

static void end(enum paint p)
{
    if (p != PAINT_NONE)
        (void)out_stream("\033[0m", 4);
}

static char shade_of(double x)
{
    int i = (int)lrint(fabs(x) * 9);
    return shades[i < 0 ? 0 : i > 9 ? 9 : i];
}

/* Colours of text and its ground */
static void begin_on(enum paint p, struct color ground)
{
    bool is_light = 3 * ground.r + 6 * ground.g + ground.b > 1300;
    if (p == PAINT_NONE)
        return;
    begin(p, 48, ground);
    begin(p, 38, is_light ? (struct color){0, 0, 0} : (struct color){255, 255, 255});
}

void paint_cell(enum paint p, double x, bool is_signed, const char *text, size_t width)
{
    char shade[2] = {shade_of(x), 0};
    begin_on(p, color_of(x, is_signed));
    put(text ? text : p == PAINT_NONE ? shade : "", width);
    end(p);
}

void paint_text(enum paint p, double x, const char *text, size_t n)
{
    begin_on(p, color_of(x, false));
    (void)out_text(text, n);
    end(p);
}

void paint_masked(enum paint p, size_t width)
{
    if (p != PAINT_NONE)
        begin(p, 38, (struct color){110, 110, 110});
    put("/", width);
    end(p);
}

void paint_pair(enum paint p, double top, double bottom)
{
    static const char upper[] = "\xe2\x96\x80"; /* upper half block */
    char shade = shade_of(fmax(top, bottom));
    if (p == PAINT_NONE) {
        (void)out_stream(top < 0 && bottom < 0 ? " " : &shade, 1);
        return;
    }
    if (top < 0 && bottom < 0) {
        (void)out_stream(" ", 1);
        return;
    }
    begin(p, 38, color_of(fmax(top, 0), false));
    if (bottom >= 0)
        begin(p, 48, color_of(bottom, false));
    (void)out_stream(upper, sizeof upper - 1);
    end(p);
}
