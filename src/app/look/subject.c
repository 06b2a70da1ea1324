/* What is looked at: see subject.h. */
#include "app/look/subject.h"

#include "app/cli/columns.h"
#include "app/cli/files.h"
#include "app/cli/number.h"
#include "app/cli/signals.h"
#include "app/cli/stopwatch.h"
#include "app/cli/tokens.h"
#include "app/cli/utf8.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { BATCH = 512 };

/* ---- the text ------------------------------------------------------------------------------- */

/* A question as the chat template writes it */
static enum tern_status take_chat(const struct subject *s, const char *text, size_t n,
                                  tern_token **tokens, size_t *n_tokens, struct tern_error *e)
{
    const struct tern_chat_message m = {.role = "user", .text = text, .bytes = n};
    size_t room = 0;
    struct tern_chat_info info;
    if (!tern_chat_info(s->model, &info))
        return parser_usage(e, "the model has no chat template; choose one with --template");
    enum tern_status status =
        tern_chat_tokens(s->model, &m, 1, TERN_CHAT_GENERATE, NULL, 0, &room, e);
    if (status)
        return status;
    *tokens = malloc((room + 1) * sizeof **tokens);
    if (!*tokens)
        return parser_no_memory_for(e, "the tokens");
    return tern_chat_tokens(s->model, &m, 1, TERN_CHAT_GENERATE, *tokens, room, n_tokens, e);
}

enum tern_status subject_tokenize(const struct subject *s, const char *text, size_t n,
                                  tern_token **tokens, size_t *n_tokens, struct tern_error *e)
{
    *tokens = NULL;
    return s->o->value[LOOK_CHAT].given
               ? take_chat(s, text, n, tokens, n_tokens, e)
               : tokens_take(s->model, text, n, TERN_ADD_SPECIAL, 0, tokens, n_tokens, e);
}

/* The tokens of the text; a text that has none begins with BOS. */
static enum tern_status take_tokens(struct subject *s, struct tern_error *e)
{
    char *text = NULL;
    size_t n = 0;
    const struct option_value *ids = &s->o->value[LOOK_PROMPT_IDS];
    enum tern_status status =
        ids->given ? tokens_take_ids(s->model, ids->text, &s->tokens, &s->n_prompt, e)
                   : files_take_prompt(s->o->prompt, s->o->value[LOOK_FILE].text, &text, &n, e);
    if (!status && !ids->given)
        status = subject_tokenize(s, text, n, &s->tokens, &s->n_prompt, e);
    free(text);
    if (!status && !s->n_prompt && s->info.bos >= 0)
        s->tokens[s->n_prompt++] = s->info.bos; /* there is room for one */
    if (!status && !s->n_prompt)
        return parser_usage(e, "there is no text to look at: give one after the model");
    s->n = s->n_prompt;
    return status;
}

static size_t most_heads(const struct subject *s)
{
    struct tern_layer_info w;
    size_t most = 1;
    for (uint64_t l = 0; l < s->info.n_layers; l++) {
        tern_model_layer(s->model, l, &w);
        most = w.n_heads > most ? (size_t)w.n_heads : most;
    }
    return most;
}

enum tern_status subject_open_model(struct subject *s, const struct look_options *o,
                                    struct tern_error *e)
{
    struct tern_model_params params = {.n_threads = (int)o->value[LOOK_THREADS].integer,
                                       .cpu = o->value[LOOK_CPU].text};
    *s = (struct subject){.o = o};
    signals_init("look", o->model);
    enum tern_status status = tern_model_open(&s->model, o->model, &params, e);
    if (status)
        return status;
    tern_model_info(s->model, &s->info);
    s->no_scores = calloc(most_heads(s), sizeof *s->no_scores);
    if (!s->no_scores)
        return parser_no_memory_for(e, "the sinks");
    if (o->value[LOOK_TEMPLATE].given)
        status = tern_chat_use(s->model, o->value[LOOK_TEMPLATE].text, e);
    if (!status && tokens_have_text(s->model))
        status = tern_decoder_open(&s->decoder, s->model, 1, e);
    return status;
}

enum tern_status subject_open(struct subject *s, const struct look_options *o, struct tern_error *e)
{
    enum tern_status status = subject_open_model(s, o, e);
    if (o->job == LOOK_SURPRISE || o->value[LOOK_LINES].given) /* the text is in a file */
        return status;
    return status ? status : take_tokens(s, e);
}

void subject_close(struct subject *s)
{
    signals_watch(NULL);
    tern_context_close(s->ctx);
    tern_decoder_close(s->decoder);
    tern_model_close(s->model);
    free(s->tokens);
    free(s->no_scores);
}

const char *subject_name(const struct subject *s)
{
    return *s->info.name ? s->info.name : s->o->model;
}

/* ---- labels --------------------------------------------------------------------------------- */

const char *subject_bytes(const struct subject *s, tern_token token, char *id, size_t *n)
{
    if (s->decoder)
        return tern_decoder_bytes(s->decoder, token, n);
    *n = (size_t)snprintf(id, 16, "%d", (int)token);
    return id;
}

/* A character of 3 bytes that has no picture, but turns, joins or breaks what stands around it:
 * U+200B, marks and overrides of direction, separators of lines, U+2060 to U+206F, U+FEFF. Not
 * U+200C and U+200D, which scripts and emoji are made of. */
static bool is_format(unsigned c)
{
    return c == 0x200b || c == 0x200e || c == 0x200f || (c >= 0x2028 && c <= 0x202e) ||
           (c >= 0x2060 && c <= 0x206f) || c == 0xfeff;
}

size_t subject_piece(const char *text, size_t n, char piece[16])
{
    size_t bytes = utf8_character(text, n);
    const unsigned char *u = (const unsigned char *)text;
    unsigned char c = u[bytes > 1]; /* of C1: the second */
    bool is_control = bytes == 1 ? c < 32 || c == 127 : *u == 0xc2 && c < 0xa0;
    unsigned wide = bytes == 3 ? (*u & 15u) << 12 | (c & 63u) << 6 | (u[2] & 63u) : 0;
    if (bytes == 1 && c == '\n')
        memcpy(piece, "\\n", 3);
    else if (bytes == 1 && c == '\t')
        memcpy(piece, "\\t", 3);
    else if (!bytes || is_control)
        snprintf(piece, 16, "\\x%02x", bytes ? c : *u);
    else if (is_format(wide))
        snprintf(piece, 16, "\\u%04x", wide);
    else
        snprintf(piece, 16, "%.*s", (int)bytes, text);
    return bytes ? bytes : 1;
}

const char *subject_label(const struct subject *s, tern_token token, size_t columns, char *label,
                          size_t room)
{
    char id[16];
    size_t n, at = 0, wide = 0;
    const char *text = subject_bytes(s, token, id, &n);
    for (size_t i = 0, bytes; i < n; i += bytes) {
        char piece[16];
        bytes = subject_piece(text + i, n - i, piece);
        if (text[i] == ' ')
            memcpy(piece, "\xc2\xb7", 3);
        size_t length = strlen(piece);
        for (size_t c = 0, one; c < length; c += one)
            wide += columns_of(piece + c, length - c, &one);
        if (wide > columns || at + length + 1 > room)
            break;
        memcpy(label + at, piece, length);
        at += length;
    }
    label[at] = 0;
    return label;
}

/* ---- layers and heads ----------------------------------------------------------------------- */

bool subject_take_layers(const struct subject *s, const char **text, uint64_t *from, uint64_t *to)
{
    size_t n = strcspn(*text, ","), dash = strcspn(*text, "-,");
    bool is_good = number_u64(*text, dash, from);
    *to = *from;
    if (is_good && dash < n)
        is_good = number_u64(*text + dash + 1, n - dash - 1, to);
    *text += n + ((*text)[n] == ',');
    return is_good && *from <= *to && *to < s->info.n_layers;
}

enum tern_status subject_layers(const struct subject *s, unsigned char **layers,
                                struct tern_error *e)
{
    const char *text = s->o->value[LOOK_LAYERS].text;
    uint64_t from, to;
    *layers = calloc(s->info.n_layers, 1);
    if (!*layers)
        return parser_no_memory_for(e, "the layers");
    memset(*layers, !text, s->info.n_layers);
    for (bool more = text; more; more = *text) { /* an empty list is no list, either */
        const char *word = text;
        if (!subject_take_layers(s, &text, &from, &to))
            return parser_usage(e,
                                "--layers: '%.*s' is not a layer from 0 to %llu, nor a range of "
                                "them",
                                (int)strcspn(word, ","), word,
                                (unsigned long long)s->info.n_layers - 1);
        memset(*layers + from, 1, to - from + 1);
    }
    return TERN_OK;
}

enum tern_status subject_head(const struct subject *s, const char *text, uint64_t *layer,
                              uint64_t *head, struct tern_error *e)
{
    struct tern_layer_info info;
    size_t n = strcspn(text, ".");
    if (!number_u64(text, n, layer) || !text[n] ||
        !number_u64(text + n + 1, strlen(text + n + 1), head))
        return parser_usage(e, "--head: '%.100s' is not a layer and a head, as in 5.3", text);
    if (*layer >= s->info.n_layers)
        return parser_usage(e, "--head %.100s: the model has layers 0 to %llu", text,
                            (unsigned long long)s->info.n_layers - 1);
    tern_model_layer(s->model, *layer, &info);
    if (*head >= info.n_heads)
        return parser_usage(e, "--head %.100s: layer %llu has heads 0 to %llu", text,
                            (unsigned long long)*layer, (unsigned long long)info.n_heads - 1);
    return TERN_OK;
}

enum tern_status subject_positions(const struct subject *s, size_t n, uint32_t *first,
                                   uint32_t *last, struct tern_error *e)
{
    const char *text = s->o->value[LOOK_POSITIONS].text;
    uint64_t from = 0, to = n - 1;
    size_t dash = text ? strcspn(text, "-") : 0;
    if (text && (!number_u64(text, dash, &from) ||
                 (text[dash] && !number_u64(text + dash + 1, strlen(text + dash + 1), &to))))
        return parser_usage(e, "--positions: '%.100s' is not a position or a range as in 3-7",
                            text);
    if (text && !text[dash])
        to = from;
    if (from > to || to >= n)
        return parser_usage(e, "--positions %.100s: the text has positions 0 to %zu", text, n - 1);
    *first = (uint32_t)from, *last = (uint32_t)to;
    return TERN_OK;
}

/* ---- running the model ---------------------------------------------------------------------- */

static enum tern_cache_type cache_type_of(const struct look_options *o)
{
    const char *text = o->value[LOOK_CACHE_TYPE].text;
    for (enum tern_cache_type t = 0; text && tern_cache_type_name(t); t++)
        if (!strcmp(text, tern_cache_type_name(t)))
            return t;
    return TERN_CACHE_F16;
}

enum tern_status subject_context(struct subject *s, uint32_t n_ctx, uint32_t n_seqs,
                                 struct tern_error *e)
{
    const struct option_value *v = s->o->value;
    struct tern_context_params p = {
        .n_ctx = n_ctx,
        .n_seqs = n_seqs,
        .n_batch = v[LOOK_BATCH_SIZE].given ? (uint32_t)v[LOOK_BATCH_SIZE].integer : BATCH,
        .cache_type = cache_type_of(s->o)};
    if (p.n_batch > p.n_ctx * (uint64_t)n_seqs)
        p.n_batch = p.n_ctx * n_seqs;
    if (n_ctx > s->info.max_seq && !v[LOOK_QUIET].given)
        fprintf(stderr, "context: %u positions, but the model was made for %llu\n", n_ctx,
                (unsigned long long)s->info.max_seq);
    if (v[LOOK_ATTN].given) /* a bidirectional text is one batch */
        p.n_batch = p.n_ctx;
    enum tern_status status = tern_context_open(&s->ctx, s->model, &p, e);
    if (!status && v[LOOK_ATTN].given)
        status = tern_attention_use(s->ctx, v[LOOK_ATTN].text, e);
    if (!status)
        signals_watch(s->ctx);
    return status || !s->edit ? status : tern_edit(s->ctx, s->edit, s->edit_arg, e);
}

static bool is_attn(const struct subject *s, const char *name)
{
    const char *attn = s->o->value[LOOK_ATTN].text;
    return attn && !strcmp(attn, name);
}

bool subject_is_bidirectional(const struct subject *s)
{
    return is_attn(s, "bidirectional");
}

bool subject_has_weights(const struct subject *s)
{
    return !is_attn(s, "linear") && !is_attn(s, "delta");
}

/* The text is one batch, whose tokens see one another; what -n adds sees only what came before. */
size_t subject_sees_to(const struct subject *s, size_t i)
{
    return subject_is_bidirectional(s) && i < s->n_prompt ? s->n_prompt : i + 1;
}

/* N of --attn window=N, or 0 */
static uint64_t window_of(const struct subject *s)
{
    const char *attn = s->o->value[LOOK_ATTN].text;
    uint64_t window = 0;
    if (attn && !strncmp(attn, "window=", 7))
        (void)number_u64(attn + 7, strlen(attn + 7), &window);
    return window;
}

void subject_mask(const struct subject *s, struct tern_attention_params *p)
{
    p->window = window_of(s), p->bidirectional = subject_is_bidirectional(s);
    p->sinks = is_attn(s, "sinks");
}

void subject_layer(const struct subject *s, uint64_t layer, struct tern_layer_info *info)
{
    uint64_t window = window_of(s);
    tern_model_layer(s->model, layer, info);
    if (window && (!info->window || window < info->window))
        info->window = window;
    if (is_attn(s, "sinks") && !info->sinks)
        info->sinks = s->no_scores;
}

size_t subject_length(const struct subject *s)
{
    return s->n_prompt + (size_t)s->o->value[LOOK_N_PREDICT].integer;
}

enum tern_status subject_begin(struct subject *s, struct tern_error *e)
{
    const struct option_value *v = s->o->value;
    size_t needed = subject_length(s);
    uint32_t n_ctx = v[LOOK_CTX_SIZE].given ? (uint32_t)v[LOOK_CTX_SIZE].integer : (uint32_t)needed;
    if (needed > UINT32_MAX || needed > n_ctx) {
        snprintf(e->text, sizeof e->text,
                 "the text and what follows need %zu positions, but the context has %u: use a "
                 "larger -c",
                 needed, n_ctx);
        return e->code = TERN_LIMIT;
    }
    tern_token *more = realloc(s->tokens, needed * sizeof *more);
    if (!more)
        return parser_no_memory_for(e, "the tokens");
    s->tokens = more;
    return subject_context(s, n_ctx, 1, e);
}

struct progress {
    double start;
    bool shown;
};

static void show_progress(struct progress *p, const struct subject *s, size_t done, size_t total)
{
    if (s->o->value[LOOK_QUIET].given || !isatty(STDERR_FILENO) || stopwatch_now() - p->start < 0.5)
        return;
    p->shown = done < total;
    if (p->shown)
        fprintf(stderr, "\rlook: %zu of %zu tokens ", done, total);
    else
        fprintf(stderr, "\r%40s\r", "");
}

/* Evaluates tokens from .. to - 1 of the subject as one batch */
static enum tern_status evaluate(struct subject *s, size_t from, size_t to, bool all_logits,
                                 struct tern_error *e)
{
    enum tern_status status = TERN_OK;
    for (size_t i = from; !status && i < to; i++)
        status = tern_batch_add(s->ctx, 0, s->tokens[i],
                                all_logits || i + 1 == to ? TERN_ROW_LOGITS : 0, e);
    if (!status && (status = tern_forward(s->ctx)))
        e->code = status;
    return status ? status : tern_numeric_status(s->ctx, e);
}

static tern_token choose(const struct subject *s)
{
    const struct option_value *v = s->o->value;
    struct tern_sampler_params p = tern_sampler_defaults(s->model);
    p.temperature = (float)v[LOOK_TEMP].real;
    p.seed = v[LOOK_SEED].seed;
    if (p.temperature == 0) /* the most probable one, whatever came before */
        p.repeat_penalty = 1, p.frequency_penalty = p.presence_penalty = 0, p.dry_multiplier = 0;
    return tern_sample(s->ctx, &p, tern_logits(s->ctx, tern_n_logits(s->ctx) - 1), s->tokens, s->n,
                       s->n);
}

enum tern_status subject_run(struct subject *s, subject_logits_fn fn, void *arg,
                             struct tern_error *e)
{
    struct tern_memory plan;
    struct progress p = {.start = stopwatch_now()};
    size_t total = subject_length(s), from = 0;
    enum tern_status status = TERN_OK;
    tern_context_memory(s->ctx, &plan);
    size_t step = fn ? plan.n_logits : plan.n_batch;
    s->n = s->n_prompt;
    while (!status && from < total) {
        if (from == s->n) {
            tern_token token = choose(s);
            if (tern_token_is_end(s->model, token))
                break;
            s->tokens[s->n++] = token;
        }
        size_t to = s->n - from < step ? s->n : from + step;
        status = evaluate(s, from, to, fn != NULL, e);
        if (!status && fn && fn(arg, from, to - from))
            status = e->code = TERN_CANCELLED;
        from = to;
        show_progress(&p, s, from, total);
    }
    if (p.shown)
        fprintf(stderr, "\r%40s\r", "");
    return status;
}
