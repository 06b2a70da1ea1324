/* tern_doctor: the machine in one screen. What Linux states is read under base/procfs; what it can do
 * is measured by a tern_meter. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cpu.h"
#include "base/error.h"
#include "base/memory.h"
#include "base/procfs.h"
#include "base/thread_count.h"
#include "kernels/kernels.h"
#include "tern_lab.h"

enum { FILE_BYTES = 4096, LINE_BYTES = 256, MAX_ADVICE = 6 };

struct doctor {
    void (*report)(void *arg, const char *topic, const char *text);
    void *arg;
    char advice[MAX_ADVICE][LINE_BYTES];
    size_t n_advice;
};

#if defined(__GNUC__)
__attribute__((format(printf, 3, 4)))
#endif
static void
say(const struct doctor *d, const char *topic, const char *format, ...)
{
    char text[LINE_BYTES];
    va_list list;
    va_start(list, format);
    vsnprintf(text, sizeof text, format, list);
    va_end(list);
    d->report(d->arg, topic, text);
}

static void advise(struct doctor *d, const char *text)
{
    if (d->n_advice < MAX_ADVICE)
        snprintf(d->advice[d->n_advice++], LINE_BYTES, "%s", text);
}

/* ---- what it is --------------------------------------------------------------------------- */

/* The value behind `key` in a file of lines "key : value"; "" if there is none. */
static void value_of(const char *file, const char *key, char *out, size_t n)
{
    char text[FILE_BYTES];
    *out = '\0';
    if (!procfs_read("", file, text, sizeof text))
        return;
    for (const char *line = text; line; line = strchr(line, '\n') ? strchr(line, '\n') + 1 : NULL)
        if (!strncmp(line, key, strlen(key)) && strchr(line, ':')) {
            const char *value = strchr(line, ':') + 1;
            value += strspn(value, " \t");
            snprintf(out, n, "%.*s", (int)strcspn(value, "\n"), value);
            return;
        }
}

static void processor(struct doctor *d)
{
    static const struct {
        unsigned bit;
        const char *name;
    } sets[] = {{CPU_AVX2, "AVX2"},      {CPU_AVX_VNNI, "AVX-VNNI"},
                {CPU_AVX512, "AVX-512"}, {CPU_AVX512_VNNI, "AVX-512 VNNI"},
                {CPU_NEON, "NEON"},      {CPU_DOTPROD, "dot product"},
                {CPU_I8MM, "matrix multiply"}};
    char name[128], list[128] = "";
    unsigned have = cpu_detect();
    value_of("/proc/cpuinfo", "model name", name, sizeof name);
    for (size_t i = 0; i < sizeof sets / sizeof *sets; i++)
        if (have & sets[i].bit)
            snprintf(list + strlen(list), sizeof list - strlen(list), "%s%s", *list ? ", " : "",
                     sets[i].name);
    say(d, "processor", "%s", *name ? name : "its name is not stated");
    say(d, "has", "%s", *list ? list : "no vector instructions that tern knows");
    if (!have)
        advise(d, "only plain C runs here, which is slow; a build for x86-64 or AArch64 is faster");
}

/* The target in use, and why no other. Its kernels have proved themselves on known answers. */
static enum tern_status targets(struct doctor *d, struct tern_error *e)
{
    struct kernels k;
    enum tern_status s = kernels_init(&k, NULL, e);
    if (s)
        return s;
    say(d, "kernels", "%s of %s: the widest that this processor and this build have", k.name,
        tern_cpu_names());
    say(d, "self-test", "the kernels give the known answers, bit for bit");
    return TERN_OK;
}

static void threads(struct doctor *d)
{
    char why[LINE_BYTES], load[64];
    const char *at = load;
    uint64_t whole, hundredths;
    int best = thread_count_best(why, sizeof why);
    say(d, "threads", "%s", why);
    if (!procfs_read("", "/proc/loadavg", load, sizeof load) || !procfs_u64(&at, &whole) ||
        *at++ != '.' || !procfs_u64(&at, &hundredths))
        return;
    double busy = (double)whole + (double)hundredths / 100;
    say(d, "load", "%.2f: %s", busy, busy > 0.5 ? "other programs run" : "quiet");
    if (busy > 0.5 * best)
        advise(d, "other programs use the processor; without them tern is faster and steadier");
}

/* ---- memory ------------------------------------------------------------------------------- */

static void memory(struct doctor *d)
{
    char text[64];
    const char *at = text;
    uint64_t kib, now = memory_available();
    double gib = 1 << 30;
    value_of("/proc/meminfo", "MemTotal", text, sizeof text);
    if (now == UINT64_MAX || !procfs_u64(&at, &kib))
        say(d, "memory", "the system does not state it");
    else
        say(d, "memory", "%.1f GiB can be taken now, of %.1f GiB", (double)now / gib,
            (double)kib * 1024 / gib);
    if ((double)now < 2 * gib)
        advise(d, "little memory is free: close programs, or choose a smaller model or --ctx-size");
}

static void huge_pages(struct doctor *d)
{
    char text[LINE_BYTES];
    if (!procfs_read("", "/sys/kernel/mm/transparent_hugepage/enabled", text, sizeof text)) {
        say(d, "huge pages", "this system has none");
        return;
    }
    bool never = strstr(text, "[never]");
    say(d, "huge pages",
        never ? "switched off" : "on for the cache, and for weights with --load copy");
    if (never)
        advise(d, "huge pages are off; as root: echo madvise > "
                  "/sys/kernel/mm/transparent_hugepage/enabled");
}

static void frequency(struct doctor *d)
{
    char text[64];
    if (!procfs_read("", "/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", text,
                     sizeof text))
        return;
    text[strcspn(text, "\n")] = '\0';
    say(d, "frequency", "governed by '%s'", text);
    if (!strcmp(text, "powersave") || !strcmp(text, "conservative"))
        advise(d, "the processor saves power; as root: cpupower frequency-set -g performance");
}

/* ---- what it can do ----------------------------------------------------------------------- */

static enum tern_status speed(struct doctor *d, struct tern_error *e)
{
    static const enum tern_type types[] = {TERN_Q8, TERN_Q4, TERN_F32};
    const char *topics[] = {"q8, q4c", "q4", "f32, f16"}, *instruction[3];
    tern_meter *meter;
    enum tern_status s = tern_meter_open(&meter, NULL, e);
    if (s)
        return s;
    double reads = tern_meter_read(meter);
    say(d, "reads", "%.1f GB/s: weights of 1 GB give at most %.0f tokens/s", reads, reads);
    double peak[3];
    for (size_t i = 0; i < 3; i++)
        peak[i] = tern_meter_peak(meter, types[i], &instruction[i]);
    if (!strcmp(instruction[0], instruction[1])) /* one loop for all integer types */
        topics[0] = "q8, q4", peak[1] = 0;
    for (size_t i = 0; i < 3; i++)
        if (peak[i] > 0)
            say(d, topics[i], "%.0f billion multiply-adds a second (%s)", peak[i], instruction[i]);
    tern_meter_close(meter);
    return TERN_OK;
}

enum tern_status tern_doctor(void (*report)(void *arg, const char *topic, const char *text),
                             void *arg, struct tern_error *e)
{
    struct doctor d = {.report = report, .arg = arg};
    say(&d, "tern", "%s, %s", tern_version(), tern_build_info());
    processor(&d);
    enum tern_status s = targets(&d, e);
    if (s)
        return s;
    threads(&d);
    memory(&d);
    huge_pages(&d);
    frequency(&d);
    if ((s = speed(&d, e)))
        return s;
    if (!d.n_advice)
        advise(&d, "none: nothing here could be set better");
    for (size_t i = 0; i < d.n_advice; i++)
        d.report(arg, "advice", d.advice[i]);
    return TERN_OK;
}
