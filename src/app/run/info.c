/* Information about a weights file: see info.h. */
#include "app/run/info.h"

#include "app/cli/cache_size.h"
#include "app/cli/number.h"
#include "app/cli/out.h"
#include "app/cli/team.h"
#include "tern_lab.h"

#include <string.h>

typedef unsigned long long ull;

static void show_text(const char *title, const char *text, int verbose)
{
    size_t n = verbose ? strlen(text) : strcspn(text, "\n");
    if (!*text)
        return;
    out_print("%-12s", title);
    for (size_t line; n; n -= line, text += line) { /* its lines below each other */
        const char *end = memchr(text, '\n', n);
        line = end ? (size_t)(end - text) + 1 : n;
        out_text(text, line);
        if (end)
            out_print("%12s", "");
    }
    out_print(*text ? " ... (-v shows all)\n" : "\n");
}

static void show_tokenizer(const tern_model *model, const struct tern_model_info *info)
{
    size_t special = 0, shown = 0;
    out_print("tokenizer   %llu tokens, ", (ull)info->vocab);
    if (info->bos >= 0)
        out_print("BOS %d, ", (int)info->bos);
    out_print("end tokens");
    for (uint64_t i = 0; i < info->vocab; i++) {
        special += tern_token_is_special(model, (tern_token)i) != 0;
        if (tern_token_is_end(model, (tern_token)i) && ++shown <= 16)
            out_print(" %llu", (ull)i);
    }
    out_print("%s, %zu special\n", !shown ? " none" : shown > 16 ? " ..." : "", special);
}

/* Bytes that a position takes in a cache of each type; of a page, for windows need more at first */
static enum tern_status show_cache(const tern_model *model, uint64_t max_seq, struct tern_error *e)
{
    const char *name;
    char size[32];
    uint64_t states = 0;
    for (enum tern_cache_type t = 0; (name = tern_cache_type_name(t)); t++) {
        struct tern_context_params p = {.n_ctx = max_seq < 256 ? (uint32_t)max_seq : 256,
                                        .cache_type = t};
        struct tern_memory plan;
        enum tern_status s = tern_context_plan(model, &p, &plan, e);
        if (s && !plan.cache) {
            out_print(t ? "\n" : "");
            return s;
        }
        out_print("%s%llu (%s)", t ? ", " : "cache       ", (ull)(plan.cache - plan.states) / 256,
                  name);
        states = plan.states;
    }
    out_print(team_is_alone() ? " bytes per token\n" : " bytes per token on rank 0\n");
    if (states)
        out_print("states      %s of recurrent layers, with a log and snapshots\n",
                  number_bytes(states, size, sizeof size));
    return TERN_OK;
}

/* The same written out, beside what other attention would take, at some lengths */
static void show_cache_sizes(const tern_model *model)
{
    struct cache_size sizes[CACHE_SIZES];
    char text[160];
    cache_sizes(model, sizes);
    if (!sizes[0].position)
        return; /* no layer has keys */
    out_print("%12s%s\n%12s%-28s", "", cache_sum(model, text, sizeof text), "", "at a length of");
    for (size_t i = 0; i < CACHE_LENGTHS; i++)
        out_print("%12s", number_grouped(cache_lengths[i], text, sizeof text));
    for (size_t n = 0; n < CACHE_SIZES; n++) {
        out_print("\n%12s%-18s%10s", "", sizes[n].name,
                  number_grouped(sizes[n].position, text, sizeof text));
        for (size_t i = 0; i < CACHE_LENGTHS; i++)
            out_print("%12s", number_bytes(sizes[n].at[i], text, sizeof text));
    }
    out_print("\n");
}

/* Heads; and what the layers mix positions with, where that is not attention alone */
static void show_mixers(const tern_model *model, const struct tern_model_info *info)
{
    static const struct {
        unsigned mixer;
        const char *name;
    } kinds[] = {{1, "attention"},
                 {2, "recurrent"},
                 {3, "attention beside recurrent"},
                 {4, "short convolution"},
                 {0, "none"}};
    enum { KINDS = sizeof kinds / sizeof *kinds };
    size_t layers[KINDS] = {0}, shown = 0;
    uint64_t rank = 0;
    for (uint64_t l = 0; l < info->n_layers; l++) {
        struct tern_layer_info layer;
        tern_model_layer(model, l, &layer);
        rank = rank ? rank : layer.kv_rank;
        for (size_t i = 0; i < KINDS; i++)
            layers[i] += layer.mixer == kinds[i].mixer;
    }
    if (rank)
        out_print("attention   latent: %llu heads read one row of %llu + %llu", (ull)info->n_heads,
                  (ull)rank, (ull)(info->head_dim - rank));
    else if (!info->n_heads)
        out_print("attention   none");
    else
        out_print("attention   %llu heads, %llu KV heads, head dim %llu", (ull)info->n_heads,
                  (ull)info->n_kv_heads, (ull)info->head_dim);
    if (info->window)
        out_print(", window %llu", (ull)info->window);
    out_print("\n");
    for (size_t i = 0; i < KINDS && layers[0] < info->n_layers; i++)
        if (layers[i])
            out_print("%s%zu %s", shown++ ? ", " : "mixers      ", layers[i], kinds[i].name);
    out_print(shown ? "\n" : "");
}

static void show_chat(const tern_model *model)
{
    static const char *const thinking[] = {"", ", thinks by default", ", thinks on request"};
    struct tern_chat_info c;
    if (!tern_chat_info(model, &c)) {
        out_print("chat        no template\n");
        return;
    }
    out_print("chat        template %s%s%s", c.name, thinking[c.thinking],
              c.takes_system ? "" : ", without a system text");
    if (c.end >= 0)
        out_print(", an answer ends with token %d\n", (int)c.end);
    else
        out_print("\n");
}

static void show_tensors(const tern_model *model)
{
    out_print("\n%-24s %-5s %8s %8s %4s %14s  %s\n", "tensor", "type", "rows", "k", "n", "bytes",
              "xxh64");
    for (size_t i = 0; i < tern_model_n_tensors(model); i++) {
        struct tern_tensor_info t;
        tern_model_tensor(model, i, &t);
        out_print("%-24s %-5s %8llu %8llu %4llu %14llu  %016llx\n", t.name, tern_type_name(t.type),
                  (ull)t.rows, (ull)t.k, (ull)t.matrices, (ull)t.bytes, (ull)t.checksum);
    }
}

static void show_machines(const tern_model *model)
{
    struct tern_context_params params = {.n_ctx = 0};
    struct tern_memory plan;
    char line[256];
    for (uint32_t i = 0; team_line(model, i, line, sizeof line); i++) {
        if (!i)
            (void)tern_context_plan(model, &params, &plan, NULL);
        (void)team_line(model, i, line, sizeof line);
        out_print("%-12s%s", i ? "" : "machines", line);
    }
}

enum tern_status info_describe(const tern_model *model, const char *path, int verbose,
                               struct tern_error *e)
{
    struct tern_model_info i;
    char size[32], token[32];
    tern_model_info(model, &i);
    out_print("file        %s, %llu bytes\n", path, (ull)i.file_bytes);
    out_print("content id  %016llx\n", (ull)i.content_id);
    show_text("name", i.name, verbose);
    show_text("source", i.source, verbose);
    show_text("licence", i.licence, verbose);
    show_text("converter", i.converter, verbose);
    out_print("sealed      %s\n", i.is_sealed ? "yes" : "no");
    out_print("weights     %s, %llu parameters, %s; each token reads %s\n", i.type_name,
              (ull)i.n_params, number_bytes(i.file_bytes, size, sizeof size),
              number_bytes(i.token_bytes, token, sizeof token));
    out_print("layers      %llu, dim %llu, hidden %llu\n", (ull)i.n_layers, (ull)i.dim,
              (ull)i.hidden);
    show_mixers(model, &i);
    out_print("positions   %llu\n", (ull)i.max_seq);
    if (i.has_mtp)
        out_print("guesses     a layer more, for --mtp\n");
    enum tern_status s = show_cache(model, i.max_seq, e);
    if (s)
        return s;
    show_cache_sizes(model);
    show_tokenizer(model, &i);
    show_chat(model);
    out_print("machine     %s, %s\n", i.cpu, i.threads_why);
    show_machines(model);
    show_tensors(model);
    return TERN_OK;
}

enum tern_status info_check(tern_model *model, struct tern_error *e)
{
    struct tern_model_info info;
    enum tern_status s = tern_model_check(model, e);
    tern_model_info(model, &info);
    if (!s)
        out_print("ok: %zu tensors, %llu bytes\n", tern_model_n_tensors(model),
                  (ull)info.file_bytes);
    return s;
}

static void show_line(void *arg, const char *line)
{
    (void)arg;
    out_print("%s\n", line);
}

static void show_finding(void *arg, const char *topic, const char *text)
{
    (void)arg;
    out_print("%-11s %s\n", topic, text);
}

enum tern_status info_doctor(struct tern_error *e)
{
    return tern_doctor(show_finding, NULL, e);
}

enum tern_status info_selftest(tern_model *model, struct tern_error *e)
{
    enum tern_status s = tern_model_selftest(model, show_line, NULL, e);
    if (!s)
        out_print("ok\n");
    return s;
}

enum tern_status info_seal(tern_model *model, struct tern_error *e)
{
    uint64_t fingerprint = 0;
    enum tern_status s = tern_model_seal(model, &fingerprint, e);
    if (!s)
        out_print("%016llx\n", (ull)fingerprint);
    return s;
}
