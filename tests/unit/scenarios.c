/* What programs do with a model: see scenarios.h. */
#include "scenarios.h"

#include "app/run/conversation.h"
#include "suite.h"
#include "tern_lab.h"
#include "toy.h"
#include "vocabulary.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char model_path[] = "models/fable.bin", text[] = "The cat sat on the mat. The cat";
static const struct tern_model_params one_thread = {.n_threads = 1};
static const struct tern_context_params small = {.n_ctx = 96, .n_batch = 8};
static const char *const vocabularies[] = {"spm", "uni", "gpt2", "hf-words"};
enum { N_VOCABULARIES = 4, N_TYPES = TERN_Q4C + 1 };

static tern_model *model;
static tern_context *context, *draft;
static struct conversation talk;
static tern_token held[64];
static size_t n_held;
static uint64_t next; /* fingerprint of the logits after the tokens held */
static char folder[200];
static size_t n_files;
static int prefixes; /* a file, as a descriptor */
static bool kept; /* what a refused file must leave; Check itself takes memory */

/* The path of a file in the folder; good for the next four calls. */
static const char *in_folder(const char *name)
{
    static char paths[4][256];
    static int n;
    char *p = paths[n = (n + 1) % 4];
    snprintf(p, sizeof *paths, "%s/%s", folder, name);
    return p;
}

static const char *numbered(const char *name, int i)
{
    char file[64];
    snprintf(file, sizeof file, "%s%d.bin", name, i);
    return in_folder(file);
}

/* ---- models and contexts ---- */

static enum tern_status open_and_close(const char *path, const struct tern_model_params *params,
                                       struct tern_error *e)
{
    tern_model *m = NULL;
    tern_context *c = NULL;
    enum tern_status s = tern_model_open(&m, path, params, e);
    if (!s)
        s = tern_context_open(&c, m, &small, e);
    tern_context_close(c);
    tern_model_close(m);
    return s;
}

static enum tern_status open_types(struct tern_error *e)
{
    enum tern_status s = TERN_OK;
    for (int i = 0; !s && i < N_TYPES; i++)
        s = open_and_close(numbered("type", i), &one_thread, e);
    return s;
}

static enum tern_status open_threads(struct tern_error *e)
{
    return open_and_close(model_path, &(struct tern_model_params){.n_threads = 3}, e);
}

static enum tern_status open_copy(struct tern_error *e)
{
    const struct tern_model_params copy = {.n_threads = 1, .load = TERN_LOAD_COPY};
    tern_model *m = NULL;
    enum tern_status s = tern_model_open(&m, numbered("type", TERN_Q8), &copy, e);
    if (!s)
        s = tern_model_check(m, e);
    tern_model_close(m);
    return s;
}

static enum tern_status write_tokens(const tern_model *m, struct tern_error *e)
{
    tern_decoder *d = NULL;
    tern_token ids[64];
    size_t n = 0, len;
    enum tern_status s = tern_tokenize(m, text, strlen(text), 0, ids, 64, &n, e);
    if (!s)
        s = tern_decoder_open(&d, m, 1, e);
    for (size_t i = 0; !s && i < n; i++)
        tern_decoder_push(d, ids[i], &len);
    tern_decoder_close(d);
    return s;
}

static enum tern_status open_tokenizers(struct tern_error *e)
{
    enum tern_status s = TERN_OK;
    for (int i = 0; !s && i < N_VOCABULARIES; i++) {
        tern_model *m = NULL;
        s = tern_model_open(&m, numbered("tokens", i), &one_thread, e);
        if (!s)
            s = write_tokens(m, e);
        tern_model_close(m);
    }
    return s;
}

static enum tern_status tokenize(struct tern_error *e)
{
    return write_tokens(model, e);
}

static enum tern_status open_contexts(struct tern_error *e)
{
    enum tern_status s = TERN_OK;
    for (int type = 0; !s && type <= TERN_CACHE_Q8; type++) {
        struct tern_context_params p = {.n_seqs = 3, .cache_type = (enum tern_cache_type)type};
        struct tern_memory plan;
        tern_context *c = NULL;
        p.n_ctx = 64, p.n_batch = 8, p.fingerprint = 1;
        s = tern_context_plan(model, &p, &plan, e);
        if (!s)
            s = tern_context_open_plan(&c, model, &plan, e);
        tern_context_close(c);
    }
    return s;
}

/* A batch of two sequences, and what may follow it. */
static enum tern_status run_batch(struct tern_error *e)
{
    struct tern_choice top[4];
    enum tern_status s = tern_batch_add(context, 1, held[0], TERN_ROW_LOGITS, e);
    for (size_t i = 0; !s && i < 3; i++)
        s = tern_batch_add(context, 2, held[i], TERN_ROW_LOGITS, e);
    if (!s)
        s = tern_forward(context);
    if (!s) {
        tern_top(context, tern_logits(context, 1), top, 4);
        tern_logprob(model, tern_logits(context, 2), top->token);
        tern_seq_fork(context, 2, 1, 2);
        tern_seq_reuse(context, 2, held, 2);
        s = tern_numeric_status(context, e);
    }
    tern_batch_clear(context);
    tern_seq_keep(context, 1, 0);
    tern_seq_keep(context, 2, 0);
    return s;
}

static void see(void *arg, const struct tern_observation *o)
{
    (void)arg, (void)o;
}

static enum tern_status look_inside(struct tern_error *e)
{
    struct tern_op ops[64];
    enum tern_status s = tern_profile_start(context, e);
    if (!s)
        s = tern_observe(context, see, NULL, e);
    if (!s)
        s = run_batch(e);
    tern_profile(context, ops, 64);
    tern_profile_stop(context);
    tern_observe(context, NULL, NULL, NULL);
    return s;
}

static enum tern_status look_at_time(struct tern_error *e)
{
    struct tern_span spans[64];
    enum tern_status s = tern_timeline_start(context, 64, e);
    if (!s)
        s = run_batch(e);
    tern_timeline(context, spans, 64, NULL);
    tern_profile_stop(context);
    return s;
}

/* ---- generation and chat ---- */

static enum tern_status generate(struct tern_generate_params p, struct tern_error *e)
{
    static const char *const stop[] = {"never written"}, *const breakers[] = {"\n", "Once"};
    static const struct tern_bias bias[] = {{.token = 5, .value = -1}};
    struct tern_sampler_params s = tern_sampler_defaults(model);
    struct tern_generate_result result;
    s.repeat_penalty = 1.1f, s.frequency_penalty = 0.1f, s.presence_penalty = 0.1f;
    s.repeat_last_n = 64;
    s.dry_multiplier = 0.8f, s.dry_base = 1.75f, s.dry_allowed_length = 2, s.dry_last_n = 64;
    s.dry_breakers = breakers, s.n_dry_breakers = 2;
    s.typical_p = 0.9f, s.top_n_sigma = 2, s.xtc_probability = 0.5f, s.xtc_threshold = 0.1f;
    s.bias = bias, s.n_bias = 1;
    p.sampler = &s;
    if (!p.tokens)
        p.prompt = text, p.prompt_bytes = strlen(text);
    p.n_predict = 4, p.stop = stop, p.n_stop = 1, p.seq = 1;
    enum tern_status status = tern_generate(context, &p, &result, e);
    tern_seq_keep(context, 1, 0);
    return status;
}

static enum tern_status generate_alone(struct tern_error *e)
{
    return generate(tern_generate_defaults(), e);
}

static enum tern_status generate_with_lookup(struct tern_error *e)
{
    struct tern_generate_params p = tern_generate_defaults();
    p.lookup = 4;
    return generate(p, e);
}

static enum tern_status generate_with_draft(struct tern_error *e)
{
    struct tern_generate_params p = tern_generate_defaults();
    p.draft = draft;
    return generate(p, e);
}

/* In steps, one with guesses of each kind */
static enum tern_status generate_several(struct tern_error *e)
{
    static const char *const stop[] = {"never written"};
    struct tern_generate_params p = tern_generate_defaults();
    struct tern_generate_result result;
    tern_text *texts[2] = {NULL};
    enum tern_status s = TERN_OK;
    p.prompt = text, p.prompt_bytes = strlen(text), p.n_predict = 4, p.stop = stop, p.n_stop = 1;
    p.lookup = 4, p.draft = draft;
    for (uint32_t i = 0; i < 2 && !s; i++, p.draft = NULL) {
        p.seq = 1 + i;
        s = tern_text_open(&texts[i], context, &p, e);
    }
    for (int i = 0; i < 30 && !s; i++) {
        tern_text *left[2];
        size_t n = 0;
        for (int k = 0; k < 2; k++)
            if (!tern_text_is_over(texts[k]))
                left[n++] = texts[k];
        s = tern_step(left, n, 0, e);
    }
    for (uint32_t i = 0; i < 2; i++) {
        s = s || !texts[i] ? s : tern_text_result(texts[i], &result, e);
        tern_text_close(texts[i]);
        tern_seq_keep(context, 1 + i, 0);
    }
    return s;
}

static enum tern_status generate_bound(enum tern_constraint_kind kind, const char *what,
                                       struct tern_error *e)
{
    struct tern_generate_params p = tern_generate_defaults();
    struct tern_constraint_params c = {.kind = kind, .text = what, .bytes = strlen(what)};
    tern_constraint *made = NULL;
    enum tern_status s = tern_constraint_open(&made, model, &c, e);
    p.constraint = made, p.lookup = 4;
    if (!s)
        s = generate(p, e);
    tern_constraint_close(made);
    return s;
}

static enum tern_status generate_by_schema(struct tern_error *e)
{
    return generate_bound(TERN_CONSTRAINT_SCHEMA,
                          "{\"properties\": {\"a name\": {\"pattern\": \"^[a-z]+$\"}, \"b\": {\"items\": "
                          "{\"minimum\": 5}, \"uniqueItems\": true}}, \"required\": [\"a name\"], "
                          "\"type\": \"object\", \"$defs\": {\"c\": {\"$ref\": \"#\"}}}",
                          e);
}

static enum tern_status generate_by_regex(struct tern_error *e)
{
    return generate_bound(TERN_CONSTRAINT_REGEX, "(the (cat|dog)|[^a-z]{3,7})+ sat", e);
}

static enum tern_status generate_by_grammar(struct tern_error *e)
{
    return generate_bound(TERN_CONSTRAINT_GRAMMAR,
                          "root ::= \"(\" root \")\" | word+\nword ::= [a-z]{1,5} \" \"?\n", e);
}

static enum tern_status render_chat(struct tern_error *e)
{
    tern_token ids[64];
    char written[256];
    size_t n;
    enum tern_status s = tern_chat_use(model, tern_chat_builtin(0), e);
    if (!s)
        s = tern_chat_tokens(model, talk.list + 1, talk.n - 1, 0, ids, 64, &n, e);
    if (!s)
        s = tern_chat_text(model, talk.list + 1, talk.n - 1, 0, written, sizeof written, &n, e);
    return s;
}

/* A question and its answer. */
static enum tern_status chat_turn(struct tern_error *e)
{
    struct tern_generate_params p = tern_generate_defaults();
    tern_token ids[96];
    const size_t before = talk.n;
    enum tern_status s = tern_chat_use(model, tern_chat_builtin(0), e);
    if (!s)
        s = conversation_add(&talk, "user", "And you?", 8, e);
    if (!s)
        s = tern_chat_tokens(model, talk.list + 1, talk.n - 1, TERN_CHAT_GENERATE, ids, 96,
                             &p.n_tokens, e);
    if (!s && p.n_tokens > 80)
        p.n_tokens = 80;
    p.tokens = ids;
    if (!s)
        s = generate(p, e);
    if (!s)
        s = conversation_add(&talk, "assistant", "Well.", 5, e);
    conversation_cut(&talk, before);
    return s;
}

/* ---- files ---- */

static enum tern_status save_session(struct tern_error *e)
{
    return tern_session_save(context, 0, in_folder("saved"), e);
}

static enum tern_status load_session(struct tern_error *e)
{
    return tern_session_load(context, 0, in_folder("session"), e);
}

/* A text that is kept, saved, loaded and found */
static enum tern_status keep_prefixes(struct tern_error *e)
{
    struct tern_context_params p = small;
    tern_context *c = NULL;
    p.prefix_bytes = 16 << 20;
    enum tern_status s = tern_context_open(&c, model, &p, e);
    for (size_t i = 0; i < n_held && !s; i++)
        s = tern_batch_add(c, 0, held[i], 0, e);
    if (!s && !(s = tern_forward(c))) {
        tern_prefix_keep(c, 0);
        if (!(s = tern_prefix_save(c, prefixes, e)) && !(s = tern_prefix_load(c, prefixes, e)))
            ck_assert_uint_eq(tern_prefix_find(c, 0, held, n_held), n_held - 1);
    }
    tern_context_close(c);
    return s;
}

static enum tern_status save_conversation(struct tern_error *e)
{
    return conversation_save(&talk, in_folder("saved"), e);
}

static enum tern_status load_conversation(struct tern_error *e)
{
    struct conversation c;
    enum tern_status s = conversation_open(&c, e);
    if (s)
        return s;
    s = conversation_load(&c, in_folder("talk"), e);
    kept = c.n == (s ? 1 : talk.n);
    conversation_close(&c);
    return s;
}

static enum tern_status quantize_to(enum tern_type type, const char *calibration,
                                    struct tern_error *e)
{
    struct tern_quantize_params p = {.type = type, .n_threads = 1, .text = calibration};
    p.text_bytes = calibration ? strlen(calibration) : 0;
    return tern_quantize(numbered(calibration ? "tokens" : "type", 0), in_folder("saved"), &p, e);
}

static enum tern_status quantize_q8(struct tern_error *e)
{
    return quantize_to(TERN_Q8, NULL, e);
}

static enum tern_status quantize_q4c(struct tern_error *e)
{
    return quantize_to(TERN_Q4C, NULL, e);
}

static enum tern_status calibrate(struct tern_error *e)
{
    return quantize_to(TERN_Q4, text, e);
}

static enum tern_status make_random(struct tern_error *e)
{
    const struct tern_shape shape = {64, 96, 1, 2, 1, 32, 64, 64, 1, 0, NULL};
    return tern_random_model(in_folder("random"), &shape, TERN_Q8, 1, 1, e);
}

static enum tern_status open_meter(struct tern_error *e)
{
    tern_meter *meter = NULL;
    enum tern_status s = tern_meter_open(&meter, model, e);
    tern_meter_close(meter);
    return s;
}

const struct scenario scenarios[N_SCENARIOS] = {
    {.name = "open a model of each type", open_types},
    {.name = "open a model with three threads", open_threads},
    {.name = "open a copy of a model and check it", open_copy},
    {.name = "open each kind of tokenizer", open_tokenizers},
    {.name = "open contexts", open_contexts},
    {.name = "tokenize", tokenize},
    {.name = "run a batch of several sequences", run_batch},
    {.name = "observe and profile", look_inside},
    {.name = "timeline", look_at_time},
    {.name = "generate with all samplers", generate_alone},
    {.name = "generate with lookup", generate_with_lookup},
    {.name = "generate with a draft", generate_with_draft},
    {.name = "generate several texts", generate_several},
    {.name = "generate by a schema", generate_by_schema},
    {.name = "generate by an expression", generate_by_regex},
    {.name = "generate by a grammar", generate_by_grammar},
    {.name = "render a chat", render_chat, .keeps = true},
    {.name = "a turn of a chat", chat_turn, .keeps = true},
    {.name = "save a session", save_session, .writes = "saved"},
    {.name = "load a session", load_session},
    {.name = "keep, save and load prefixes", keep_prefixes},
    {.name = "save a conversation", save_conversation, .writes = "saved"},
    {.name = "load a conversation", load_conversation},
    {.name = "quantize to q8", quantize_q8, .writes = "saved"},
    {.name = "quantize to q4c", quantize_q4c, .writes = "saved"},
    {.name = "calibrate", calibrate, .writes = "saved"},
    {.name = "make a random model", make_random},
    {.name = "open a meter", open_meter, .slow = true},
};

/* ---- around them ---- */

static void must(enum tern_status s, const struct tern_error *e)
{
    ck_assert_msg(!s, "%s", e->text);
}

static size_t count_files(void)
{
    size_t n = 0;
    DIR *d = opendir(folder);
    ck_assert_ptr_nonnull(d);
    while (readdir(d))
        n++;
    closedir(d);
    return n;
}

static void write_text(const char *path, const char *content)
{
    FILE *f = fopen(path, "w");
    ck_assert_ptr_nonnull(f);
    ck_assert_int_ge(fputs(content, f), 0);
    ck_assert_int_eq(fclose(f), 0);
}

/* Evaluates one token more, and forgets it. */
static uint64_t logits_after(void)
{
    struct tern_error e;
    tern_fingerprint_begin(context);
    must(tern_batch_add(context, 0, held[1], TERN_ROW_LOGITS, &e), &e);
    must(tern_forward(context), &e);
    tern_fingerprint_add(context);
    ck_assert_uint_eq(tern_seq_keep(context, 0, (uint32_t)n_held), n_held);
    return tern_fingerprint(context, NULL);
}

static void write_models(void)
{
    struct tern_error e;
    struct toy toy = toy_default();
    toy.n_layers = 1;
    for (int i = 0; i < N_TYPES; i++) {
        toy.type = (enum tern_type)i;
        must(toy_write(numbered("type", i), &toy, &e), &e);
    }
    toy.type = TERN_F32;
    for (int i = 0; i < N_VOCABULARIES; i++) {
        struct vocabulary v;
        vocabulary_open(&v, vocabularies[i]);
        toy.tokenizer = v.section, toy.tokenizer_bytes = v.section_bytes, toy.vocab = v.tokens.n;
        must(toy_write(numbered("tokens", i), &toy, &e), &e);
        vocabulary_close(&v);
    }
}

void scenarios_setup(void)
{
    struct tern_error e;
    struct tern_context_params p = small;
    p.n_seqs = 3;
    toy_path(folder, sizeof folder, "scenarios");
    ck_assert_int_eq(mkdir(folder, 0700), 0);
    write_models();
    must(tern_model_open(&model, model_path, &one_thread, &e), &e);
    must(tern_context_open(&context, model, &p, &e), &e);
    must(tern_context_open(&draft, model, &small, &e), &e);
    must(tern_tokenize(model, text, 12, 0, held, 8, &n_held, &e), &e);
    for (size_t i = 0; i < n_held; i++)
        must(tern_batch_add(context, 0, held[i], 0, &e), &e);
    must(tern_forward(context), &e);
    must(conversation_open(&talk, &e), &e);
    must(conversation_add(&talk, "user", "Hi \xFF \"you\"", 10, &e), &e);
    must(conversation_add(&talk, "assistant", "Hello.", 6, &e), &e);
    must(tern_session_save(context, 0, in_folder("session"), &e), &e);
    must(conversation_save(&talk, in_folder("talk"), &e), &e);
    write_text(in_folder("saved"), "old");
    write_text(in_folder("random"), "");
    write_text(in_folder("prefixes"), "");
    prefixes = open(in_folder("prefixes"), O_RDWR);
    ck_assert_int_ge(prefixes, 0);
    n_files = count_files();
    next = logits_after();
}

void scenarios_teardown(void)
{
    struct dirent *entry;
    DIR *d = opendir(folder);
    while (d && (entry = readdir(d)))
        unlink(in_folder(entry->d_name));
    if (d)
        closedir(d);
    rmdir(folder);
    close(prefixes);
    conversation_close(&talk);
    tern_context_close(draft);
    tern_context_close(context);
    tern_model_close(model);
}

enum tern_status scenario_run(const struct scenario *s, struct tern_error *e)
{
    kept = true;
    *e = (struct tern_error){0};
    return s->run(e);
}

void scenario_must_hold(const struct scenario *s, enum tern_status outcome, const char *when)
{
    char content[4] = "";
    ck_assert_msg(tern_seq_length(context, 0) == n_held &&
                      !memcmp(tern_seq_tokens(context, 0), held, n_held * sizeof *held),
                  "%s, %s: the sequence changed", s->name, when);
    ck_assert_msg(logits_after() == next, "%s, %s: the logits changed", s->name, when);
    ck_assert_msg(kept && talk.n == 3, "%s, %s: the conversation changed", s->name, when);
    ck_assert_msg(count_files() == n_files, "%s, %s: a file is left or gone", s->name, when);
    if (!s->writes)
        return;
    FILE *f = fopen(in_folder(s->writes), "r");
    ck_assert_ptr_nonnull(f);
    ck_assert_uint_eq(fread(content, 1, 3, f), 3);
    fclose(f);
    ck_assert_msg(!strcmp(content, "old") == (outcome != TERN_OK), "%s, %s: the file %s", s->name,
                  when, outcome ? "changed" : "is not there");
    if (!outcome)
        write_text(in_folder(s->writes), "old");
}
