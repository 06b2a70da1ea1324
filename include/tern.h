/* tern.h: the public interface of tern, an engine for decoder-only language models on CPUs. It is all
 * that a program needs to run models; tern_lab.h adds what measures them and looks inside.
 *
 * A complete program (tests/cli/install.sh compiles and runs exactly these lines):
 *
 * EXAMPLE
 *   #include <stdio.h>
 *   #include <tern.h>
 *
 *   static int print(void *arg, tern_token token, const char *text, size_t n)
 *   {
 *       (void)arg, (void)token;
 *       fwrite(text, 1, n, stdout);
 *       return 0; // anything else stops
 *   }
 *
 *   int main(int argc, char **argv)
 *   {
 *       struct tern_error e = {0};
 *       tern_model *model = NULL;
 *       tern_context *ctx = NULL;
 *       struct tern_generate_params p = tern_generate_defaults();
 *       p.prompt = "The cat sat", p.prompt_bytes = 11, p.n_predict = 64, p.on_text = print;
 *       if (argc < 2 || tern_model_open(&model, argv[1], NULL, &e) ||
 *           tern_context_open(&ctx, model, NULL, &e) || tern_generate(ctx, &p, NULL, &e))
 *           fprintf(stderr, "%s\n", argc < 2 ? "usage: example MODEL" : e.text);
 *       tern_context_close(ctx);
 *       tern_model_close(model);
 *       return (int)e.code;
 *   }
 * END
 *
 * Rules of the whole interface. Handles are opaque; close(NULL) is allowed. A function that can
 * fail returns enum tern_status (TERN_OK is 0) and, when `e` is not NULL, writes one sentence into
 * it. A returned `const` pointer is borrowed; its comment says until when. Text is pointer and
 * length; NUL is a character. NULL for a parameter struct means the defaults; so does a zeroed one,
 * but to generate and sample. The answer about an index or token that is none is empty or zero.
 *
 * Threads. One tern_context may be used by one thread at a time. Contexts of one model may live in
 * different threads; the model's pool serves one step at a time. Every call runs with
 * round-to-nearest and without flush-to-zero and restores the caller's floating-point state.
 *
 * Exactness. Same file, tokens and options give the same bits for any CPU target, thread count,
 * batch size, cache history and batch mates (README, "Exact"). */
#ifndef TERN_H
#define TERN_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif
#ifdef __GNUC__
#pragma GCC visibility push( \
    default) /* the shared library exports this header, tern_lab.h and no more */
#endif

#define TERN_VERSION "0.1.0"
#define TERN_ARITH 1        /* revision of the canonical arithmetic (README, "Exact") */
#define TERN_FORMAT_MAJOR 1 /* weights file: another major is refused, any minor is read */
#define TERN_FORMAT_MINOR 0
#define TERN_MAX_LOGITS 32 /* logit rows that one batch may ask for */

typedef int32_t tern_token;
typedef struct tern_model tern_model;
typedef struct tern_context tern_context;
typedef struct tern_decoder tern_decoder;

/* ---- status and errors ------------------------------------------------------------------- */

/* The values are the programs' exit codes. */
enum tern_status {
    TERN_OK = 0,
    TERN_INTERNAL = 1, /* a bug in tern */
    TERN_USAGE = 2,    /* wrong argument or option */
    TERN_BAD_FILE = 3, /* invalid weights file */
    TERN_IO = 4,       /* the operating system refused to read or write */
    TERN_NO_MEMORY = 5,
    TERN_LIMIT = 6,     /* a stated limit was reached, or a value was not finite */
    TERN_CANCELLED = 7, /* tern_cancel or a callback asked to stop */
};

struct tern_error {
    enum tern_status code;
    char text[512]; /* one sentence: what, which numbers, what to do */
};

/* ---- model -------------------------------------------------------------------------------- */

/* Numbered from 0, as in a weights file */
enum tern_type { TERN_F32, TERN_F16, TERN_BF16, TERN_Q8, TERN_Q4, TERN_Q4C };

/* Where the weights are. Both give the same bits; a copy starts later. Without TERN_LOAD_LOCK the
 * system may drop mapped weights and read them again; with it, opening fails where they do not fit
 * into what this user may lock. */
enum { TERN_LOAD_COPY = 1, TERN_LOAD_LOCK = 2 };

struct tern_model_params {
    int n_threads;   /* 0: chosen from affinity, cpuset, cgroup quota and physical cores */
    const char *cpu; /* NULL: the best target; or one of tern_cpu_names */
    unsigned load;   /* 0: mapped from the file; TERN_LOAD_COPY: in memory on huge pages, read by
                        all threads; | TERN_LOAD_LOCK: kept in memory */
};

struct tern_model_info {
    uint64_t n_layers, dim, vocab, n_heads, n_kv_heads, head_dim, hidden; /* of the first layer */
    uint64_t max_seq;     /* positions that the model was made for */
    uint64_t window;      /* of the narrowest layer; 0: none */
    uint64_t n_params;    /* weights, without padding; a tied head counts once */
    uint64_t file_bytes;  /* the whole weights file */
    uint64_t token_bytes; /* bytes of weights that one decoded token reads */
    uint64_t content_id;
    enum tern_type type;                                         /* of the largest tensor */
    const char *type_name, *name, *source, *licence, *converter; /* borrowed; "" if absent */
    const char *cpu;                                             /* target in use */
    int n_threads;
    const char *threads_why; /* one line: what was chosen and why */
    tern_token bos;          /* -1: none */
    int has_chat, is_sealed;
};

/* Maps the file at `path`, checks its header and binds it. Mapped tensor bytes are not touched. */
enum tern_status tern_model_open(tern_model **out, const char *path,
                                 const struct tern_model_params *params, struct tern_error *e);
void tern_model_close(tern_model *model); /* every context must be closed before */
void tern_model_info(const tern_model *model, struct tern_model_info *info);

/* Verifies the checksum of every tensor; reads the whole file. */
enum tern_status tern_model_check(tern_model *model, struct tern_error *e);

/* Proves file, build and machine: kernels against ref.c, tokenizer vectors, golden logits of the
 * source, seal. `report` (may be NULL) gets a line per part; the error names the first failure. */
enum tern_status tern_model_selftest(tern_model *model, void (*report)(void *arg, const char *line),
                                     void *arg, struct tern_error *e);

/* ---- text and tokens ---------------------------------------------------------------------- */

enum {
    TERN_ADD_SPECIAL = 1,   /* add BOS (and EOS) where the model's tokenizer does */
    TERN_PARSE_SPECIAL = 2, /* special tokens written in the text become their ids */
};

/* Ids of text[0..n) into tokens[0..max). *n_tokens gets the full count, which may exceed max:
 * then only the first max were written. Bytes that are not UTF-8 are first replaced by U+FFFD. */
enum tern_status tern_tokenize(const tern_model *model, const char *text, size_t n, unsigned flags,
                               tern_token *tokens, size_t max, size_t *n_tokens,
                               struct tern_error *e);

/* Streaming decoder: ids in, whole UTF-8 characters out. The returned text is borrowed until the
 * next call on the decoder. push() holds back an incomplete character; finish() gives the rest
 * (broken tails as U+FFFD) and resets the decoder. Special tokens give no text unless asked. */
enum tern_status tern_decoder_open(tern_decoder **out, const tern_model *model, int show_special,
                                   struct tern_error *e);
void tern_decoder_close(tern_decoder *d);
const char *tern_decoder_push(tern_decoder *d, tern_token token, size_t *n);
const char *tern_decoder_finish(tern_decoder *d, size_t *n);
/* A token's own bytes, as they stand within a text (part of a character perhaps), also of special
 * tokens; the decoder's state stays. Borrowed until the next call on the decoder. */
const char *tern_decoder_bytes(tern_decoder *d, tern_token token, size_t *n);

/* Stored bytes of a token as they stand in the vocabulary; borrowed from the model. */
const char *tern_token_text(const tern_model *model, tern_token token, size_t *n);
int tern_token_is_special(const tern_model *model, tern_token token);
int tern_token_is_end(const tern_model *model, tern_token token); /* an end-of-text/turn token */

/* ---- chat --------------------------------------------------------------------------------- */

/* A conversation is written the way that the model learned it, by the template that the converter
 * stored in the file or by a built-in one: special tokens, and between them runs of text, joined
 * and then encoded in plain mode, so that no text of a message becomes a special token.
 * Messages: at most one "system" first, then "user" and "assistant" in turns, "user" first. */
struct tern_chat_message {
    const char *role; /* "system", "user" or "assistant" */
    const char *text; /* an answer with its thoughts, if any, as the model wrote them */
    size_t bytes;
    /* Of an assistant, or NULL: the ids of `text` as they were sampled, with the end token if there
     * was one. They are kept as they are where the template writes the text whole behind what asked
     * for it; where it does not (it drops the thoughts of earlier answers), the text is encoded. */
    const tern_token *tokens;
    size_t n_tokens;
};

enum {
    TERN_CHAT_GENERATE = 1, /* end with what asks the model for an answer */
    TERN_CHAT_THINK = 2,    /* with thinking, or without; neither: the template's default */
    TERN_CHAT_NO_THINK = 4,
};

struct tern_chat_info {
    const char *name; /* of the template; borrowed until tern_chat_use or close */
    int thinking;     /* 0: it knows no choice; 1: thinks by default; 2: does so when asked */
    int takes_system; /* it has a place for a system text */
    tern_token end;   /* ends an answer, and counts for tern_token_is_end; -1: no single token */
    const char *stop; /* what ends an answer as text, for `stop` of tern_generate, or NULL */
};

/* What is used now; 0, and *info zero, when the file has no template and none was chosen. */
int tern_chat_info(const tern_model *model, struct tern_chat_info *info);

/* Chooses a built-in template by name, or the file's own (NULL). TERN_USAGE when there is none of
 * that name. Not while another thread uses the model. */
enum tern_status tern_chat_use(tern_model *model, const char *name, struct tern_error *e);
const char *tern_chat_builtin(size_t i); /* names, 0 upwards; NULL: no more */

/* The conversation as token ids, or as text with special tokens spelled out. At most `max` are
 * written, *n gets the full count. TERN_USAGE when the model has no template, when the roles do not
 * alternate, or when the template has no form for such a conversation (no system text, ...). */
enum tern_status tern_chat_tokens(const tern_model *model, const struct tern_chat_message *messages,
                                  size_t n_messages, unsigned flags, tern_token *tokens, size_t max,
                                  size_t *n, struct tern_error *e);
enum tern_status tern_chat_text(const tern_model *model, const struct tern_chat_message *messages,
                                size_t n_messages, unsigned flags, char *text, size_t max,
                                size_t *n, struct tern_error *e);

/* ---- context: the KV cache and the memory of one batch ------------------------------------ */

/* q8: a group of 32 dims of a key or value is 32 integers in [-127, 127] and an f16 scale */
enum tern_cache_type { TERN_CACHE_F16 = 0, TERN_CACHE_F32 = 1, TERN_CACHE_Q8 = 2 };

enum { TERN_ROW_LOGITS = 1 }; /* flags of a batch row */

struct tern_context_params {
    uint32_t n_ctx;   /* positions per sequence; 0: the model's, reduced to half the free memory */
    uint32_t n_batch; /* rows per batch; 0: 512 */
    uint32_t n_seqs;  /* sequences 0 .. n_seqs - 1; 0: 1 */
    enum tern_cache_type cache_type;
    int fingerprint; /* hash the logits of every logit row (tern_fingerprint) */
};

/* A plan: the parameters as resolved, and the bytes that they take */
struct tern_memory {
    uint64_t weights, cache, batch, available; /* available: what machine or container allows */
    uint32_t n_ctx, n_batch, n_seqs;
    int reduced; /* n_ctx is below the model's, for memory */
    enum tern_cache_type cache_type;
    int fingerprint;
};

/* What a context of these parameters takes. Nothing stays allocated. TERN_NO_MEMORY when that is
 * more than is available; the plan then says how much. After any other error `cache` and `batch`
 * are 0. */
enum tern_status tern_context_plan(const tern_model *model,
                                   const struct tern_context_params *params,
                                   struct tern_memory *plan, struct tern_error *e);
/* Opens exactly what tern_context_plan found for this model. */
enum tern_status tern_context_open_plan(tern_context **out, tern_model *model,
                                        const struct tern_memory *plan, struct tern_error *e);
/* Both: plans and opens. */
enum tern_status tern_context_open(tern_context **out, tern_model *model,
                                   const struct tern_context_params *params, struct tern_error *e);
void tern_context_close(tern_context *ctx);
void tern_context_memory(const tern_context *ctx, struct tern_memory *plan);
tern_model *tern_context_model(const tern_context *ctx);

/* ---- batch: the one way to evaluate tokens ------------------------------------------------ */

/* Adds a row to the batch being built. Its position is the sequence's length plus the rows of the
 * sequence already added; the rows of a sequence must be neighbours. A row that does not fit
 * (context full, batch full, more than TERN_MAX_LOGITS logit rows, wrong token) is refused here,
 * and the batch stays as it was. */
enum tern_status tern_batch_add(tern_context *ctx, uint32_t seq, tern_token token, unsigned flags,
                                struct tern_error *e);
void tern_batch_clear(tern_context *ctx);

/* Evaluates the batch and empties it. Allocates nothing and cannot fail, except that tern_cancel
 * (callable from another thread or a signal handler) ends it between layers with TERN_CANCELLED,
 * leaving every sequence as it was. A cancel between two calls ends the next one; tern_generate
 * forgets one that came before it. */
enum tern_status tern_forward(tern_context *ctx);
void tern_cancel(tern_context *ctx);

/* Logits [vocab] of the i-th logit row of the last tern_forward; borrowed until the next one. */
const float *tern_logits(const tern_context *ctx, size_t i);
size_t tern_n_logits(const tern_context *ctx);

/* TERN_LIMIT, naming layer and step, when a logit was not finite or a K/V value left the cache
 * type's range in any batch since the context was opened; else TERN_OK. */
enum tern_status tern_numeric_status(const tern_context *ctx, struct tern_error *e);

/* XXH64 over (position u64, logits f32 [vocab], little-endian) of every logit row so far. */
uint64_t tern_fingerprint(const tern_context *ctx, uint64_t *rows);

uint32_t tern_seq_length(const tern_context *ctx, uint32_t seq);

/* Truncates a sequence to its first n tokens and returns how many could be kept: n, or less where
 * a sliding window has freed what they need (then 0). Feed the rest again. A batch that is being
 * built is dropped, here and in tern_seq_fork. */
uint32_t tern_seq_keep(tern_context *ctx, uint32_t seq, uint32_t n);

/* Makes `to` the first n tokens of `from`, sharing its pages; returns as tern_seq_keep does. */
uint32_t tern_seq_fork(tern_context *ctx, uint32_t from, uint32_t to, uint32_t n);

/* Some models (LongRoPE) turn all keys by other frequencies when a text is longer than a limit. The
 * batch that takes a sequence over it (or back, after tern_seq_keep) evaluates the tokens before it
 * again, all of them, and only then heeds a tern_cancel. With `n` (until the next call; 0: none)
 * positions expected, a text that comes in several batches is evaluated so from the beginning. */
void tern_seq_expect(tern_context *ctx, uint32_t seq, uint32_t n);

/* The tokens of a sequence, tern_seq_length of them; borrowed until the context is used again. */
const tern_token *tern_seq_tokens(const tern_context *ctx, uint32_t seq);

/* Keeps what the sequence already holds of tokens[0..n), its longest common beginning but for the
 * last token, whose logits are wanted, and returns how many: evaluate the others. */
uint32_t tern_seq_reuse(tern_context *ctx, uint32_t seq, const tern_token *tokens, size_t n);

/* Session files: a sequence, to go on with another time, bit for bit (mirostat's mu is yours to
 * keep), with its model, cache type and TERN_ARITH; context, batch and threads may be others.
 * Saving replaces the file in one step, with the mode that it has (a new one: 0600). Loading
 * verifies every byte first (TERN_BAD_FILE); until then, and after an error, the sequence is as it
 * was. It needs the file's size in memory for as long as it takes. */
enum tern_status tern_session_save(tern_context *ctx, uint32_t seq, const char *path,
                                   struct tern_error *e);
enum tern_status tern_session_load(tern_context *ctx, uint32_t seq, const char *path,
                                   struct tern_error *e);

/* ---- sampling ----------------------------------------------------------------------------- */

/* Steps of the choice of a token, in the default order. */
enum tern_stage {
    TERN_STAGE_PENALTIES = 1,
    TERN_STAGE_DRY,
    TERN_STAGE_TOP_N_SIGMA,
    TERN_STAGE_TOP_K,
    TERN_STAGE_TYPICAL,
    TERN_STAGE_TOP_P,
    TERN_STAGE_MIN_P,
    TERN_STAGE_XTC,
    TERN_STAGE_TEMPERATURE,
    TERN_N_STAGES
};

struct tern_bias {
    tern_token token;
    float value; /* added to its logit; -INFINITY: never this token */
};

/* First bias, then the stages in `order`, then the draw. Formulas: src/sample/sampler.h. Random
 * numbers are u(seed, index, draw), never a state. temperature 0 (the largest, the lowest id on
 * ties) and mirostat know no stages but penalties, DRY and temperature. */
struct tern_sampler_params {
    float temperature;      /* 0: greedy */
    uint32_t top_k;         /* 0: off */
    float top_p;            /* 1: off */
    float min_p;            /* 0: off */
    float repeat_penalty;   /* 0, 1: off */
    uint32_t repeat_last_n; /* tokens that the three penalties look back on */
    uint64_t seed;
    float frequency_penalty, presence_penalty; /* 0: off */
    float typical_p;                           /* 0, 1: off */
    float top_n_sigma;                         /* 0 and below: off */
    float xtc_probability, xtc_threshold;      /* probability 0: off */
    float dry_multiplier, dry_base;            /* multiplier 0: off */
    uint32_t dry_allowed_length, dry_last_n;
    const char *const *dry_breakers; /* [n_dry_breakers]; NULL: "\n", ":", "\"" and "*" */
    size_t n_dry_breakers;
    uint32_t mirostat; /* 0: off; 2 */
    float mirostat_tau, mirostat_eta;
    float *mu; /* mirostat's state, begun as 2 * tau; NULL: that (tern_generate: one of its own) */
    const struct tern_bias *bias; /* [n_bias] */
    size_t n_bias;
    unsigned char order[TERN_N_STAGES]; /* enum tern_stage, 0 after the last; order[0] 0: default */
};

/* The model's own defaults (its generation section) over tern's: 0.8, top_k 40, top_p 0.95, min_p
 * 0.05, last_n 64, xtc 0.1, dry 1.75, 2, all, mirostat 5, 0.1, the rest off. */
struct tern_sampler_params tern_sampler_defaults(const tern_model *model);

/* Sets the order to what a text such as "top_k;penalties;temperature" names: penalties, dry,
 * top_n_sigma, top_k, typ_p, top_p, min_p, xtc, temperature, each at most once. A stage that is not
 * named is off. TERN_USAGE names what is wrong. */
enum tern_status tern_sampler_order(struct tern_sampler_params *params, const char *text,
                                    struct tern_error *e);

/* Picks a token for `logits` [vocab]. `history` are the tokens so far (for penalties), `index` the
 * number of the token being chosen. */
tern_token tern_sample(tern_context *ctx, const struct tern_sampler_params *params,
                       const float *logits, const tern_token *history, size_t n_history,
                       uint64_t index);

struct tern_choice {
    tern_token token;
    double logprob; /* as tern_logprob gives it */
};

/* The `max` most probable tokens, most probable first, the lower id on ties; returns how many:
 * `max`, or the whole vocabulary. */
size_t tern_top(tern_context *ctx, const float *logits, struct tern_choice *top, size_t max);

/* log softmax(logits)[token], natural log, -inf of no token; lane sum and logarithm canonical. */
double tern_logprob(const tern_model *model, const float *logits, tern_token token);

/* ---- generation --------------------------------------------------------------------------- */

struct tern_generate_params {
    uint32_t seq;
    const char *prompt; /* text ... */
    size_t prompt_bytes;
    unsigned tokenize_flags;  /* defaults: TERN_ADD_SPECIAL */
    const tern_token *tokens; /* ... or ids, used when not NULL */
    size_t n_tokens;
    int64_t n_predict; /* -1: to an end token or a full context */
    int ignore_end;    /* end tokens are text like any other */
    int logits_all;    /* ask for the logits of every prompt row (fingerprint) */
    /* When the context is full, 0: the text ends; 1: its first `keep` tokens (at most half of the
     * context) and the newest half of the others go on as the prompt of a new text would, evaluated
     * afresh (all, also after a tern_cancel), with random numbers of their places and a new mu. */
    int shift;
    uint32_t keep;
    const struct tern_sampler_params *sampler; /* NULL: tern_sampler_defaults */
    /* Speculation: tokens are guessed and evaluated several in a batch, as many as the clock shows
     * to be worth it, or none. It changes the speed and nothing else: not a bit, not a callback. */
    uint32_t lookup;     /* guess at most so many from repetitions in the text; 0: off */
    tern_context *draft; /* guess by a smaller model with the same tokens; NULL: off. Its sequence 0
                          * follows the text */
    uint32_t draft_max;  /* guesses of the draft at a time; 0: 16 */
    const char *const *stop; /* strings that end the text; they are not emitted */
    size_t n_stop;
    /* Called with every piece of text as it is made (whole UTF-8 characters; token -1 for text
     * that was held back); non-zero stops. May be NULL. */
    int (*on_text)(void *arg, tern_token token, const char *text, size_t n);
    /* Called with every token that is chosen, a last end token included, before its text, and with
     * the logits [vocab] that it was chosen from; non-zero stops. May be NULL. */
    int (*on_token)(void *arg, tern_token token, const float *logits);
    /* Called after each prompt chunk; non-zero stops. May be NULL. */
    int (*on_prompt)(void *arg, size_t done, size_t total);
    void *arg;
};

enum tern_stop_reason {
    TERN_STOP_END,
    TERN_STOP_LENGTH,
    TERN_STOP_CONTEXT,
    TERN_STOP_STRING,
    TERN_STOP_CANCELLED
};

struct tern_generate_result {
    size_t n_prompt, n_generated; /* tokens evaluated as prompt, tokens chosen */
    double prompt_seconds, generate_seconds;
    enum tern_stop_reason reason;
    size_t n_steps;               /* batches evaluated after the prompt */
    size_t n_drafted, n_accepted; /* tokens guessed and tried; of them, tokens of the text */
    size_t n_shifts, n_shifted;   /* shifts; tokens that they evaluated again, */
    double shift_seconds;         /* as a part of generate_seconds */
    size_t n_again;               /* tokens evaluated again, as tern_seq_expect explains */
    tern_token last;              /* the last one chosen, which the sequence does not hold; or -1 */
};

/* The prompt goes behind what the sequence holds: tern_seq_reuse first, where it may hold some of
 * the prompt itself. */
struct tern_generate_params tern_generate_defaults(void);
enum tern_status tern_generate(tern_context *ctx, const struct tern_generate_params *params,
                               struct tern_generate_result *result, struct tern_error *e);

/* TERN_USAGE, naming the first token that differs, unless `draft` has the tokens of `model`, but
 * for rows without text at the end of a vocabulary: what tern_generate asks of a draft. */
enum tern_status tern_draft_check(const tern_model *model, const tern_model *draft,
                                  struct tern_error *e);

/* ---- files -------------------------------------------------------------------------------- */

struct tern_quantize_report { /* one per tensor, as it is written */
    const char *name;
    enum tern_type from, to;
    uint64_t bytes_in, bytes_out, done, total; /* done, total: bytes of the whole job */
    uint64_t weights;                          /* values of the tensor, without padding */
    double rmse, max_error;                    /* of the values, against the source tensor */
};

struct tern_quantize_params {
    enum tern_type type; /* of the matrices: TERN_Q8 (also if 0), TERN_Q4, TERN_Q4C */
    int n_threads;       /* 0: as many as this machine has for us */
    /* TERN_Q4 only: matrices that become q8, separated by commas: "head,down,layer.0"; or NULL */
    const char *keep_q8;
    /* TERN_Q4 only: a text like those that the model will see. The model is run over it, and codes
     * are chosen for the inputs that its matrices then get; NULL: for any input. */
    const char *text;
    size_t text_bytes;
    /* May be NULL; non-zero stops with TERN_CANCELLED and leaves nothing behind. */
    int (*report)(void *arg, const struct tern_quantize_report *r);
    void *arg;
};

/* Writes the weights file `in` to `out` with smaller matrices; the same bytes for any thread
 * count. Written to a temporary file beside `out`, synced, then renamed. */
enum tern_status tern_quantize(const char *in, const char *out,
                               const struct tern_quantize_params *params, struct tern_error *e);

/* ---- odds and ends ------------------------------------------------------------------------ */

const char *tern_version(void);    /* "0.1.0" */
const char *tern_build_info(void); /* compiler, targets built, arithmetic, format */
const char *tern_cpu_names(void);  /* targets built, narrow to wide: "ref|avx2|avx512" */
const char *tern_type_name(enum tern_type type); /* "q8"; NULL: there is no such */
const char *tern_cache_type_name(enum tern_cache_type type); /* "f16"; NULL: there is no such */

#ifdef __GNUC__
#pragma GCC visibility pop
#endif
#ifdef __cplusplus
}
#endif
#endif
