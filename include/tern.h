/* tern.h: the public interface of tern, an engine for decoder-only language models on CPUs. It is
 * all that a program needs to run models. tern_lab.h adds measuring and looking inside.
 *
 * include/example.c is a complete program.
 *
 * Rules of the whole interface.
 * - Handles are opaque. close(NULL) is allowed.
 * - A function that can fail returns enum tern_status; TERN_OK is 0. When `e` is not NULL, it gets
 *   one sentence.
 * - A returned `const` pointer is borrowed. Its comment says until when.
 * - Text is a pointer and a length. NUL is a character. NULL with length 0 is an empty text.
 * - NULL for a parameter struct means the defaults. A zeroed struct means the same, except for
 *   generate and sample.
 * - An invalid index or token yields empty or zero. A path or role that is NULL is TERN_USAGE.
 *
 * Threads. A tern_context is used by one thread at a time. Contexts of one model may live in
 * different threads; their steps take turns. Every call computes with round-to-nearest and without
 * flush-to-zero, and restores the caller's floating-point state.
 *
 * Exactness. The same file, tokens and options give the same bits for any CPU target, thread count,
 * batch size, cache history and batch mates (README, "Exact"). */
#ifndef TERN_H
#define TERN_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif
#ifdef __GNUC__
/* The shared library exports this header and tern_lab.h, and no more. */
#pragma GCC visibility push(default)
#endif

#define TERN_VERSION "0.1.0"
#define TERN_ARITH 1        /* revision of the canonical arithmetic (README, "Exact") */
#define TERN_FORMAT_MAJOR 1 /* weights file: another major is refused, any minor is read */
#define TERN_FORMAT_MINOR 0
#define TERN_DEFAULT_LOGITS 32 /* tern_context_params.n_logits where that is 0 */

typedef int32_t tern_token;
typedef struct tern_model tern_model;
typedef struct tern_context tern_context;
typedef struct tern_decoder tern_decoder;
typedef struct tern_constraint tern_constraint;
typedef struct tern_constraint_state tern_constraint_state;
typedef struct tern_text tern_text;

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

/* Where the weights are. Both places give the same bits; making a copy delays the start. The system
 * may drop mapped weights and read them again later. TERN_LOAD_LOCK prevents that: opening fails if
 * this user may not lock so much memory. */
enum {
    TERN_LOAD_COPY = 1,
    TERN_LOAD_LOCK = 2,
    TERN_LOAD_MTP = 4, /* with the layer that guesses; TERN_USAGE where the model has none */
};

struct tern_model_params {
    int n_threads;   /* 0: the number of CPU cores you may use (affinity, cpuset, cgroup quota) */
    const char *cpu; /* NULL: the best target; or one of tern_cpu_names */
    unsigned load;   /* 0: mapped from the file; TERN_LOAD_COPY: copied to memory on huge pages by
                        all threads; | TERN_LOAD_LOCK: kept in memory; | TERN_LOAD_MTP: for guesses */
    /* May be NULL. Asked many times a second while tern_model_open copies or locks weights, while
     * tern_model_check reads them, while a long text or conversation is tokenized and while a constraint
     * is compiled, and between the batches of tern_receipt_verify; in the thread that calls, so perhaps in
     * several at once. Non-zero ends that with TERN_CANCELLED. */
    int (*stop)(void *arg);
    void *arg;
    /* What all constraints of the model and the texts in them may take together; 0: no limit. One that finds no
     * room gets TERN_NO_MEMORY; one that is too large alone, TERN_LIMIT. Before that make_room(arg) is asked,
     * unless it is NULL, in any thread: non-zero means that it closed constraints, and that there may be room
     * now. It calls nothing else. */
    size_t constraint_bytes;
    int (*make_room)(void *arg);
#ifdef TERN_MPI
    /* How rows of matrices are shared among the machines: "3,2,1" of three, or "measured": as fast as each
     * one reads weights; NULL: all get as many. That of the first machine counts. */
    const char *share;
#endif
};

#ifdef TERN_MPI
/* ---- several machines (a build with MPI=1, started by mpirun) ----
 *
 * Each process calls tern_machines_start before anything else, then tern_model_open with the same file.
 * The first of these models is then evaluated by all processes together, each its share of every
 * matrix; the bits are those of one machine. Rank 0 goes on as usual. Each other one calls tern_follow,
 * which returns when rank 0 ends. What cannot work on one of them, tern_model_open and tern_context_open
 * say on rank 0, with the host's name. Calls come from one thread at a time.
 *
 * When a machine is lost, or does not begin in time, lost is called with a sentence that says so, from a
 * thread of its own, and ends the process (_exit). NULL: MPI ends all when a machine is lost, and waits for
 * ever for one that does not begin. */
enum tern_status tern_machines_start(void (*lost)(const char *sentence), struct tern_error *e);
uint32_t tern_machines(uint32_t *rank); /* how many */

/* Cuts the file into "PATH.part-1-of-N" and so on, for N machines: each needs its own part alone, which is
 * found where PATH is not. `share` as in tern_model_params, or NULL. */
enum tern_status tern_model_cut(const char *path, uint32_t n, const char *share,
                                struct tern_error *e);
enum tern_status tern_follow(tern_model *model, struct tern_error *e);
#endif

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
    int has_mtp; /* a layer that guesses further tokens; n_layers and token_bytes leave it out */
};

/* Maps the file at `path`, checks its header and finds its tensors. Mapped tensor bytes are not
 * read yet. */
enum tern_status tern_model_open(tern_model **out, const char *path,
                                 const struct tern_model_params *params, struct tern_error *e);
void tern_model_close(tern_model *model); /* close its contexts first */
void tern_model_info(const tern_model *model, struct tern_model_info *info);

/* Verifies the checksum of every tensor, and that f32 values are finite. Reads the whole file. */
enum tern_status tern_model_check(tern_model *model, struct tern_error *e);

/* Tests file, build and machine: the kernels against plain C, and what the file stores of its
 * source (token ids, chats, logits, seal). `report` gets a line per part; it may be NULL. The error
 * names the first failure. */
enum tern_status tern_model_selftest(tern_model *model, void (*report)(void *arg, const char *line),
                                     void *arg, struct tern_error *e);

/* ---- text and tokens ---------------------------------------------------------------------- */

enum {
    TERN_ADD_SPECIAL = 1,   /* add BOS (and EOS) where the model's tokenizer does */
    TERN_PARSE_SPECIAL = 2, /* special tokens spelled out in the text become their ids */
    TERN_MUST_FIT = 4,      /* TERN_LIMIT where a word is so long that it must have more than max
                             * ids, instead of the memory to count them (30 bytes a byte) */
};

/* Writes the ids of text[0..n) to tokens[0..max). *n_tokens gets the full count; if that exceeds
 * max, only the first max ids were written. Bytes that are not UTF-8 become U+FFFD first. */
enum tern_status tern_tokenize(const tern_model *model, const char *text, size_t n, unsigned flags,
                               tern_token *tokens, size_t max, size_t *n_tokens,
                               struct tern_error *e);

/* Streaming decoder: ids in, whole UTF-8 characters out. The returned text is borrowed until the
 * next call on the decoder. push() holds back an incomplete character. finish() returns the rest,
 * with a broken character as U+FFFD, and resets the decoder. Special tokens yield text only with
 * show_special. */
enum tern_status tern_decoder_open(tern_decoder **out, const tern_model *model, int show_special,
                                   struct tern_error *e);
void tern_decoder_close(tern_decoder *d);
const char *tern_decoder_push(tern_decoder *d, tern_token token, size_t *n);
const char *tern_decoder_finish(tern_decoder *d, size_t *n);
/* The bytes that a token stands for within a text; perhaps part of a character. Works for special
 * tokens, too, and leaves the decoder's state alone. Borrowed until the next call on the
 * decoder. */
const char *tern_decoder_bytes(tern_decoder *d, tern_token token, size_t *n);

/* The bytes of a token as the vocabulary stores them. Borrowed from the model. */
const char *tern_token_text(const tern_model *model, tern_token token, size_t *n);
int tern_token_is_special(const tern_model *model, tern_token token);
int tern_token_is_end(const tern_model *model, tern_token token); /* ends a text or a turn */

/* ---- chat --------------------------------------------------------------------------------- */

/* A chat template writes a conversation the way the model learned it. The converter stored one in
 * the file, or you choose a built-in one. Text between special tokens is encoded in plain mode, so
 * no text of a message becomes a special token.
 *
 * Messages: at most one "tools", at most one "system", then "user" and "assistant" in turns, beginning
 * with "user". An assistant's message may have calls; one "tool" message or more follow it, each with
 * the result of a call, and then an assistant's or a user's message. */
struct tern_call {
    const char *id;        /* NULL: none. A template may want a certain form, and then says so */
    const char *name;      /* of the function */
    const char *arguments; /* a JSON object; NULL: without members */
};

struct tern_chat_message {
    const char *role; /* "tools", "system", "user", "assistant" or "tool" */
    /* Of "tools": a JSON array of tools as in OpenAI's API, or of bare functions. Of an assistant: the
     * answer as the model wrote it, with its thoughts, without its calls. Of a tool: the result. */
    const char *text;
    size_t bytes;
    /* Of an assistant, or NULL: the ids of `text` as they were sampled, with the end token if there
     * was one. They are kept if the template repeats the answer unchanged and it has no calls. If it
     * changes the answer (many drop the thoughts of earlier answers), the text is encoded again. */
    const tern_token *tokens;
    size_t n_tokens;
    const struct tern_call *calls; /* [n_calls], of an assistant */
    size_t n_calls;
    /* Of a tool: the id of its call, and the name of its function. NULL: the result is that of the call
     * with that id, or of the first call without a result. */
    const char *call_id, *name;
};

enum {
    TERN_CHAT_GENERATE = 1, /* end with what asks the model for an answer */
    TERN_CHAT_THINK = 2,    /* think first */
    TERN_CHAT_NO_THINK = 4, /* do not; without either flag the template's default applies */
};

struct tern_chat_info {
    const char *name; /* of the template; borrowed until tern_chat_use or close */
    int thinking;     /* 0: there is no choice; 1: thinks by default; 2: thinks when asked */
    int takes_system; /* it has a place for a system text */
    tern_token end;   /* ends an answer, and tern_token_is_end knows it; -1: no single token */
    const char *stop; /* text that ends an answer, for `stop` of tern_generate; or NULL */
    /* What begins and ends a thought in an answer: "<think>" and "</think>"; borrowed as `name` is,
     * and not NUL-terminated */
    const char *thought_begin, *thought_end;
    size_t thought_begin_bytes, thought_end_bytes;
    int takes_tools; /* it lists tools and writes calls: 1 one call an answer, 2 any number */
};

/* The template in use. Returns 0, with *info empty, if the file has none and none was chosen. */
int tern_chat_info(const tern_model *model, struct tern_chat_info *info);

/* Chooses a built-in template by name, or the file's own (NULL). TERN_USAGE if there is no such
 * template. No other thread may use the model meanwhile. */
enum tern_status tern_chat_use(tern_model *model, const char *name, struct tern_error *e);
const char *tern_chat_builtin(size_t i); /* the i-th name; NULL after the last */

/* The conversation as token ids, or as text with special tokens spelled out. At most `max` are
 * written; *n gets the full count. TERN_USAGE if the model has no template, the roles do not
 * alternate, or the template cannot write such a conversation (it may know no system text). */
enum tern_status tern_chat_tokens(const tern_model *model, const struct tern_chat_message *messages,
                                  size_t n_messages, unsigned flags, tern_token *tokens, size_t max,
                                  size_t *n, struct tern_error *e);
enum tern_status tern_chat_text(const tern_model *model, const struct tern_chat_message *messages,
                                size_t n_messages, unsigned flags, char *text, size_t max,
                                size_t *n, struct tern_error *e);

/* What the template itself writes of an answer's thought, behind which the model goes on: "<think>\n".
 * An answer as the model wrote it lacks these bytes; put them before its text. At most `max` are
 * written; returns the full count, which is 0 where it begins no thought. */
size_t tern_chat_opening(const tern_model *model, unsigned flags, char *text, size_t max);

/* ---- answers: text, thoughts and calls -------------------------------------------------------- */

/* Parses an answer while it streams, by the model's chat template. Without a template, all is text. */
typedef struct tern_answer tern_answer;

/* What an answer may be whose form is constrained. */
enum tern_answer_form {
    TERN_ANSWER_ANY,       /* texts, thoughts and calls in any order */
    TERN_ANSWER_ONLY_TEXT, /* a thought may come first; all behind it is text, marks of thoughts and calls too */
    TERN_ANSWER_CALLS_OR_TEXT /* for tools beside a schema: behind the thought come calls or a text, and all behind
                               * the first sign of a text is text */
};

struct tern_answer_params {
    /* The tools of the conversation, as a message of role "tools" has them, or NULL: some models write
     * arguments without quotes, and the schema tells a text from a number. */
    const char *tools;
    size_t tools_bytes;
    unsigned flags; /* with which the answer was asked for: it may begin inside a thought */
    const tern_token
        *prompt;       /* [n_prompt] the prompt, or its last tokens: some tokenizers drop a */
    size_t n_prompt;   /* space at the beginning of a text. NULL: the answer begins one */
    size_t first_call; /* calls of the conversation so far: calls without an id are numbered */
    enum tern_answer_form form;
};

enum tern_answer_kind {
    TERN_ANSWER_NONE,
    TERN_ANSWER_TEXT,
    TERN_ANSWER_THOUGHT,
    TERN_ANSWER_CALL,     /* a call is over: all of it */
    TERN_ANSWER_CUT,      /* the same of one that broke off: its arguments are a beginning. Do not run it */
    TERN_ANSWER_BEGIN,    /* a call begins: its id and name */
    TERN_ANSWER_ARGUMENTS /* more of its arguments */
};

struct tern_answer_event {
    enum tern_answer_kind kind;
    const char *text; /* [bytes]; more text, or thought, or more of arguments */
    size_t bytes;
    struct tern_call call; /* with an id: 9 digits where the model wrote none */
};

/* A call begins, gets its arguments in pieces, and is over or broken off before anything else comes. The pieces add
 * up to its arguments; who needs whole calls passes over BEGIN and ARGUMENTS. Nothing is taken back, so a call
 * begins where its arguments do. Where the template has these as JSON, they come as they are written; else each
 * comes when it is whole, and a text, where the schema or quotes say that it is one, in pieces. A template that
 * writes the id behind the arguments has all at the end. */

enum tern_status tern_answer_open(tern_answer **out, const tern_model *model,
                                  const struct tern_answer_params *params, struct tern_error *e);
void tern_answer_close(tern_answer *a);
/* A token of the answer, or a piece of its text with special tokens spelled out. Tokens are better: what
 * the model only spelled like a special token is then not taken for one. Text behind tokens has no
 * special tokens, such as a part of a token that a stop string cut; no token may follow text. */
enum tern_status tern_answer_push(tern_answer *a, tern_token token, struct tern_error *e);
enum tern_status tern_answer_push_text(tern_answer *a, const char *text, size_t n,
                                       struct tern_error *e);
/* The answer is over. What looked like the beginning of a call is text. A call that has begun breaks off, as it
 * does before where it is malformed; what follows it is text. */
enum tern_status tern_answer_finish(tern_answer *a, struct tern_error *e);
/* The same for an answer that a limit cut off. A call whose name is there comes as TERN_ANSWER_CUT: its
 * arguments are the beginning of a JSON object, or "". Without a name it is dropped where a tag began it,
 * else it is text. tern_answer_message has neither. */
enum tern_status tern_answer_cut(tern_answer *a, struct tern_error *e);
/* Takes the next event; TERN_ANSWER_NONE: no more before the next push. Its text is borrowed until then, its call
 * until close. */
enum tern_answer_kind tern_answer_next(tern_answer *a, struct tern_answer_event *event);
/* All of the answer so far as the message of an assistant; borrowed until the next push. */
void tern_answer_message(const tern_answer *a, struct tern_chat_message *m);

/* ---- context: the KV cache and the memory of one batch ------------------------------------ */

/* q8: each 32 dimensions of a key or value are 32 integers in [-127, 127] and an f16 scale. */
enum tern_cache_type { TERN_CACHE_F16 = 0, TERN_CACHE_F32 = 1, TERN_CACHE_Q8 = 2 };

enum { TERN_ROW_LOGITS = 1, TERN_ROW_HIDDEN = 2 }; /* flags of a batch row: what it asks for */

struct tern_context_params {
    uint32_t n_ctx;   /* positions per sequence; 0: the model's, reduced to fit half the memory */
    uint32_t n_batch; /* rows per batch; 0: 512 */
    uint32_t n_seqs;  /* sequences 0 .. n_seqs - 1; 0: 1 */
    enum tern_cache_type cache_type;
    int fingerprint;       /* hash every row of logits (tern_fingerprint) */
    uint32_t n_logits;     /* rows with logits per batch, at most n_batch; 0: TERN_DEFAULT_LOGITS */
    uint64_t prefix_bytes; /* memory for texts that later sequences may begin with
                            * (tern_prefix_find); 0: none */
};

/* A plan: the parameters as resolved, and the bytes that they take */
struct tern_memory {
    uint64_t weights, cache, batch, available; /* available: what machine or container allows */
    uint32_t n_ctx, n_batch, n_seqs;
    int reduced; /* n_ctx is below the model's, for memory */
    enum tern_cache_type cache_type;
    int fingerprint;
    uint64_t states;      /* of `cache`: of recurrent layers, and their */
    uint32_t n_snapshots; /* snapshots, to which tern_seq_keep goes back */
    uint32_t n_logits;
    uint64_t prefix; /* of `cache`: what the store of prefixes takes, at most prefix_bytes */
};

/* What a context of these parameters takes. Nothing stays allocated. TERN_NO_MEMORY when that is
 * more than is available; the plan then says how much. After any other error `cache` and `batch`
 * are 0. */
enum tern_status tern_context_plan(const tern_model *model,
                                   const struct tern_context_params *params,
                                   struct tern_memory *plan, struct tern_error *e);
#ifdef TERN_MPI
/* What machine `rank` has of the model, and what the context that was planned last takes there. Only rank
 * 0 knows. 0: there is no such machine. */
struct tern_machine {
    const char *host;
    uint64_t share, shares;    /* of the rows: so many of so many */
    struct tern_memory memory; /* weights: its own, without embeddings that only tokens read */
    /* Of all processes that share its memory, itself included; `first` is their first one. */
    uint32_t first, beside;
    uint64_t weights_beside, others_beside; /* others: caches and batches */
    uint64_t for_files;                     /* what is available, with all pages that hold files */
};
int tern_machine(const tern_model *model, uint32_t rank, struct tern_machine *out);
#endif
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

/* Adds a row to the batch being built. Its position is the length of the sequence plus the rows of
 * the sequence already added. The rows of a sequence must be neighbours. A row that does not fit is
 * refused, and the batch stays as it was: context full, batch full, more than n_logits rows
 * with logits, invalid token. */
enum tern_status tern_batch_add(tern_context *ctx, uint32_t seq, tern_token token, unsigned flags,
                                struct tern_error *e);
void tern_batch_clear(tern_context *ctx);

/* Evaluates the batch and empties it. Allocates nothing and cannot fail, but it can be cancelled:
 * tern_cancel, from another thread or a signal handler, ends it between two layers. It then returns
 * TERN_CANCELLED, and every sequence is as it was. A cancel issued between two calls cancels the
 * next call; tern_generate ignores a cancel issued before it began. */
enum tern_status tern_forward(tern_context *ctx);
void tern_cancel(tern_context *ctx);

/* Logits [vocab] of the i-th row of the last tern_forward that asked for them. Borrowed until the
 * next one. */
const float *tern_logits(const tern_context *ctx, size_t i);
size_t tern_n_logits(const tern_context *ctx);

/* The hidden state [dim] of the i-th row of the last batch that asked for it: what the head
 * reads, after the final norm. Any number of rows may ask; a row that asks for this alone does
 * without the head. Not with TERN_LOAD_MTP. Borrowed until the context is used again. */
const float *tern_hidden(const tern_context *ctx, size_t i);
size_t tern_n_hidden(const tern_context *ctx);

/* TERN_LIMIT, naming layer and step, if in any batch of this context a value was not finite or a
 * key or value was too large for the cache type; else TERN_OK. */
enum tern_status tern_numeric_status(const tern_context *ctx, struct tern_error *e);

/* XXH64 over (position u64, logits f32 [vocab], little-endian) of every row of logits so far; *rows
 * (may be NULL) gets their number. Both are 0 for an altered context (tern_lab.h). */
uint64_t tern_fingerprint(const tern_context *ctx, uint64_t *rows);

uint32_t tern_seq_length(const tern_context *ctx, uint32_t seq);

/* Truncates a sequence to its first n tokens and returns how many are left: at most n. Evaluate the
 * others again. It is 0 if a sliding window has already freed what these tokens need. With
 * recurrent layers it is n if at most 64 tokens go, and else the nearest kept state at or below n:
 * states are kept at page ends, every 256 tokens, and at the end of each prompt, the older ones
 * thinned out (tern_memory.n_snapshots). Drops the batch being built, as tern_seq_fork does. */
uint32_t tern_seq_keep(tern_context *ctx, uint32_t seq, uint32_t n);

/* Makes `to` a copy of the first n tokens of `from`. They share memory. Returns what tern_seq_keep
 * returns. */
uint32_t tern_seq_fork(tern_context *ctx, uint32_t from, uint32_t to, uint32_t n);

/* Some models (LongRoPE) rotate all keys with a second set of frequencies once a text is longer
 * than a limit. When a text crosses the limit, in either direction, it is evaluated again with the
 * other set; a tern_cancel waits for the end of that. If you know that the sequence will grow to n
 * tokens in several batches, say so here: it then begins with the right set. It holds until the
 * next call. 0: nothing is known. */
void tern_seq_expect(tern_context *ctx, uint32_t seq, uint32_t n);

/* The tokens of a sequence, tern_seq_length of them. Borrowed until the context is used again. */
const tern_token *tern_seq_tokens(const tern_context *ctx, uint32_t seq);

/* Keeps the beginning that the sequence has in common with tokens[0..n), but never all n: the last
 * token must be evaluated for its logits. Returns how many tokens are kept; evaluate the others. */
uint32_t tern_seq_reuse(tern_context *ctx, uint32_t seq, const tern_token *tokens, size_t n);

/* Session files hold a sequence, so that you can continue it another time, bit for bit. Model,
 * cache type and TERN_ARITH must be the same; context size, batch size and threads may differ.
 * Mirostat's mu is not in the file. Saving replaces the file in one step and keeps its mode; a new
 * file gets 0600. Loading verifies every byte first (TERN_BAD_FILE) and needs memory for the whole
 * file meanwhile. After an error the sequence is as it was. An altered context (tern_lab.h) saves
 * nothing. */
enum tern_status tern_session_save(tern_context *ctx, uint32_t seq, const char *path,
                                   struct tern_error *e);
enum tern_status tern_session_load(tern_context *ctx, uint32_t seq, const char *path,
                                   struct tern_error *e);

/* ---- prefixes: what was evaluated is found again ------------------------------------------- */

/* A context can keep what its sequences evaluated (tern_context_params.prefix_bytes), and find it again
 * for another sequence by its tokens. Sequences and store share pages of 256 positions, so a beginning
 * that many texts have in common is stored once. The bits are those of a fresh run. When the memory is
 * full, what was used least recently leaves. All of this works on the sequences of one context and,
 * like them, is used by one thread at a time. */

/* The sequence becomes the longest kept beginning of tokens[0..n), but never all n: the last token must
 * be evaluated for its logits. Returns its length; evaluate the others. 0 without a store. With
 * recurrent layers it ends where a state was kept: where keep was called, at page ends, and at and
 * shortly before ends of prompts; and where an earlier text branched off. Drops the batch being built. */
uint32_t tern_prefix_find(tern_context *ctx, uint32_t seq, const tern_token *tokens, size_t n);

/* What tern_prefix_find would return; changes nothing. */
uint32_t tern_prefix_reach(const tern_context *ctx, const tern_token *tokens, size_t n);

/* Keeps what the sequence holds. Call it after batches in which the sequence passed a multiple of 256
 * tokens, and when the text is finished: sliding windows and recurrent layers forget what lies
 * farther back. It costs little: pages are shared, and only what is new is looked at; recurrent layers
 * copy a state. Drops what is on trial and the batch being built. Does nothing without a store, in an
 * altered context (tern_lab.h), and for a sequence in which a value was not finite. */
void tern_prefix_keep(tern_context *ctx, uint32_t seq);

void tern_prefix_clear(tern_context *ctx); /* forgets all; sequences stay */

struct tern_prefix_info {
    uint64_t bytes, max_bytes;  /* in use, and tern_memory.prefix */
    uint64_t n_tokens, n_pages; /* tokens of all pages; pages, perhaps not full */
    uint64_t hits, misses;      /* calls of find that found something, and nothing */
    uint64_t evicted;           /* pages that left for others */
};
void tern_prefix_info(const tern_context *ctx, struct tern_prefix_info *info);

/* Writes the store to a file, and reads it back, at its beginning. `fd` is seekable; an fsync and a
 * rename are the caller's. What is saved belongs to the model, the cache type and TERN_ARITH; the
 * size of the store and of the context may differ, and what does not fit is left out. Loading forgets
 * what the store held, and verifies every byte: after TERN_BAD_FILE the store is empty. After an error
 * of saving, the store is as it was. */
enum tern_status tern_prefix_save(tern_context *ctx, int fd, struct tern_error *e);
enum tern_status tern_prefix_load(tern_context *ctx, int fd, struct tern_error *e);

/* ---- sampling ----------------------------------------------------------------------------- */

/* Stages of sampling, in the default order */
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
    float value; /* added to its logit; -INFINITY: never this token; INFINITY: always */
};

/* First the constraint, then the bias, then the stages in `order`, then the draw. src/sample/sampler.h has the formulas.
 * Random numbers are a function of seed, token index and draw; there is no hidden state.
 * Temperature 0 takes the largest logit, the lowest id on ties. With temperature 0 or mirostat,
 * only penalties, DRY and temperature apply. */
struct tern_sampler_params {
    float temperature;      /* 0: greedy */
    uint32_t top_k;         /* 0: off */
    float top_p;            /* 1: off */
    float min_p;            /* 0: off */
    float repeat_penalty;   /* 0, 1: off */
    uint32_t repeat_last_n; /* how far the three penalties look back, in tokens */
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
    float *mu; /* mirostat's state, begun as 2 * tau; NULL: always that, but tern_generate keeps its
                * own */
    const struct tern_bias *bias; /* [n_bias] */
    size_t n_bias;
    unsigned char order[TERN_N_STAGES]; /* enum tern_stage, 0 after the last; all 0: the default */
    /* Only tokens that may come in this state are chosen, whatever the bias says. NULL: any token. While a text
     * runs, the state may be ahead of it by tokens that must come. */
    tern_constraint_state *constraint;
};

/* The defaults that the model file states; for the rest, tern's: temperature 0.8, top_k 40, top_p
 * 0.95, min_p 0.05, repeat_last_n 64, and the other stages off. If you turn them on: xtc_threshold
 * 0.1, dry_base 1.75, dry_allowed_length 2, dry_last_n all, mirostat_tau 5, mirostat_eta 0.1. */
struct tern_sampler_params tern_sampler_defaults(const tern_model *model);

/* Sets the order from a text such as "top_k;penalties;temperature". The names are penalties, dry,
 * top_n_sigma, top_k, typ_p, top_p, min_p, xtc and temperature, each at most once. A stage that is
 * not named is off. TERN_USAGE names the first mistake. */
enum tern_status tern_sampler_order(struct tern_sampler_params *params, const char *text,
                                    struct tern_error *e);

/* Picks a token from `logits` [vocab]. `history`: the tokens so far, for penalties. `index`: the
 * number of the token being chosen. -1: the constraint allows none, or its budget is gone
 * (tern_constraint_mask says which). The state stays where it is. */
tern_token tern_sample(tern_context *ctx, const struct tern_sampler_params *params,
                       const float *logits, const tern_token *history, size_t n_history,
                       uint64_t index);

struct tern_choice {
    tern_token token;
    double logprob; /* what tern_logprob returns */
};

/* Writes the `max` most probable tokens, most probable first, the lower id on ties. Returns how
 * many: `max` or the whole vocabulary, whichever is less. */
size_t tern_top(tern_context *ctx, const float *logits, struct tern_choice *top, size_t max);

/* log softmax(logits)[token], natural logarithm; -inf for an invalid token. Its bits are exact,
 * too. */
double tern_logprob(const tern_model *model, const float *logits, tern_token token);

/* ---- constraints: output that is valid by construction ------------------------------------ */

/* What the text must be. A constraint is compiled for one model's tokens, never changes, and may be
 * shared by threads. What it cannot enforce exactly is refused. */
enum tern_constraint_kind {
    TERN_CONSTRAINT_JSON,    /* any JSON object; no text */
    TERN_CONSTRAINT_SCHEMA,  /* a JSON value of this JSON schema */
    TERN_CONSTRAINT_REGEX,   /* the whole text matches this regular expression (ECMA-262) */
    TERN_CONSTRAINT_GRAMMAR, /* llama.cpp's GBNF */
    TERN_CONSTRAINT_CHOICE,  /* "yes|no": one of these texts, in which \| is | and \\ is \ */
    TERN_CONSTRAINT_TOOLS, /* an answer that may call tools: their JSON, as a message of role "tools"
                                has it. Calls are written as the model's chat template writes them, and
                                bound to the schemas of the tools; text and thoughts are free. Or {"tools":
                                that, "schema": a JSON schema}: an answer without calls is a value of it */
};
enum {                                    /* flags; the first four are for JSON and schemas */
       TERN_CONSTRAINT_COMPACT = 1,       /* no blanks between tokens of JSON */
       TERN_CONSTRAINT_ANNOTATE = 2,      /* `format` is not enforced */
       TERN_CONSTRAINT_LAX = 4,           /* tern_constraint_left_out lists what is not enforced */
       TERN_CONSTRAINT_ANY_ORDER = 8,     /* of properties; else the schema's */
       TERN_CONSTRAINT_FROM_TRIGGER = 16, /* the trigger begins the bound text, not the free one */
       TERN_CONSTRAINT_MUST_TRIGGER = 32, /* the text does not end before the trigger */
       TERN_CONSTRAINT_PARALLEL =
           64, /* tools: several calls, if the template has a form for that */
};
struct tern_constraint_params {
    enum tern_constraint_kind kind;
    const char *text;
    size_t bytes;
    unsigned flags;
    size_t max_bytes;   /* that compiling and later its automata may take; when these have filled it, it
                         * is compiled anew, and texts are read again there; 0: 64 MiB */
    uint64_t max_steps; /* of about 100 instructions, for compiling and for each mask; 0: 1e8 */
    /* Not empty: the text is free until it has these bytes, then bound. 0xFF and a name in it stand
     * for a special token. */
    const char *trigger;
    size_t trigger_bytes;
    /* Of tools. NULL or "auto": text, then calls if the model begins one; "none": no calls; "required":
     * calls, behind a thought at most; else the function that must be called. */
    const char *tool_choice;
    unsigned chat_flags; /* with which the answer is asked for: it may begin inside a thought */
};
/* TERN_USAGE: the text has a mistake, or needs what is not supported; `e` names keyword and place.
 * TERN_LIMIT: it does not fit the budget. Close constraints before their model. */
enum tern_status tern_constraint_open(tern_constraint **out, const tern_model *model,
                                      const struct tern_constraint_params *params,
                                      struct tern_error *e);
void tern_constraint_close(tern_constraint *c); /* after its states */
/* What it was made of, with texts of its own. Borrowed. */
const struct tern_constraint_params *tern_constraint_made_of(const tern_constraint *c);
/* What all constraints of the model and the texts in them take now; *most, unless NULL: the most that they took. */
size_t tern_constraint_bytes(const tern_model *model, size_t *most);
/* The i-th thing that TERN_CONSTRAINT_LAX left to the caller; NULL after the last. Borrowed. */
const char *tern_constraint_left_out(const tern_constraint *c, size_t i);

/* Where a text is; used by one thread at a time. A text ends with an end token of the model, which
 * is allowed where the text may end. */
enum tern_status tern_constraint_state_open(tern_constraint_state **out, const tern_constraint *c,
                                            struct tern_error *e);
enum tern_status tern_constraint_state_copy(tern_constraint_state *to, /* of the same constraint */
                                            const tern_constraint_state *from,
                                            struct tern_error *e);
void tern_constraint_state_close(tern_constraint_state *s);
/* Bit t % 32 of word t / 32 says whether token t may come. [(vocab + 31) / 32] words, borrowed until
 * the next call on the state. TERN_LIMIT: the budget is gone. */
enum tern_status tern_constraint_mask(tern_constraint_state *s, const uint32_t **mask,
                                      struct tern_error *e);
/* The text goes on with the token. After an error, TERN_USAGE if it may not come, nothing changed. */
enum tern_status tern_constraint_accept(tern_constraint_state *s, tern_token token,
                                        struct tern_error *e);
/* Takes back the last n tokens accepted, all or at least 1024 of them; returns how many. */
size_t tern_constraint_rollback(tern_constraint_state *s, size_t n);
int tern_constraint_can_end(tern_constraint_state *s); /* the text may end here */
int tern_constraint_is_over(tern_constraint_state *s); /* and nothing else can follow */
/* The tokens that must come next, at most max, without the last, which free text may extend
 * (src/sample/constraint/forced.h). Accepts none of them. A function of the tokens accepted. */
enum tern_status tern_constraint_forced(tern_constraint_state *s, tern_token *tokens, size_t max,
                                        size_t *n, struct tern_error *e);

/* ---- generation --------------------------------------------------------------------------- */

struct tern_generate_params {
    uint32_t seq;
    const char *prompt; /* text ... */
    size_t prompt_bytes;
    unsigned tokenize_flags;  /* defaults: TERN_ADD_SPECIAL */
    const tern_token *tokens; /* ... or ids, used when not NULL */
    size_t n_tokens;
    int64_t n_predict; /* at most so many tokens; -1: to an end token or a full context */
    int ignore_end;    /* go on after end tokens; not with a constraint */
    int logits_all;    /* compute the logits of every prompt row (for the fingerprint) */
    int fingerprint;   /* hash the logits that tokens are chosen from: the result has the hash */
    /* What happens when the context is full. 0: the text ends. 1: the context shifts. The first
     * `keep` tokens (at most half of the context) and the newer half of the others become the
     * prompt of a new text and are evaluated afresh, with the random numbers of their new places
     * and a new mu. A tern_cancel waits until the shift is finished. */
    int shift;
    uint32_t keep;
    const struct tern_sampler_params *sampler; /* NULL: tern_sampler_defaults */
    /* What the text behind the prompt must be. It is begun anew, and shifts of the context leave it
     * alone. Or `sampler` has a state of yours, behind which the text goes on; it moves with the
     * text. A stop string ends the text, finished or not.
     * Where only one continuation is left, its tokens are not sampled: tern_constraint_forced. They
     * are evaluated in one batch and count like others, as n_generated and in the random index. */
    const tern_constraint *constraint;
    int no_force; /* sample those tokens, too, under the mask; the text may have other tokens then */
    /* Steps (tern_constraint_params.max_steps) that the constraint may take in a tern_step; 0: as many as it
     * needs. A text that needs more is late (tern_text_is_late). */
    uint64_t constraint_steps;
    /* Speculation: several tokens are guessed and evaluated in one batch, as many as the clock
     * shows to be worth it. It changes the speed and nothing else: no bit and no callback. */
    uint32_t lookup; /* guess at most so many from repetitions in the text; 0: off */
    /* guess with a smaller model of the same tokens, in a sequence of its context; NULL: off */
    tern_context *draft;
    uint32_t draft_seq;
    uint32_t draft_max; /* at most so many guesses of the draft at a time; 0: 16 */
    uint32_t mtp; /* guess at most so many with the model's own layer (TERN_LOAD_MTP); 0: off */
    const char *const *stop; /* strings that end the text; they are not passed on */
    size_t n_stop;
    /* Called with every piece of text as it is made: whole UTF-8 characters, and the token they
     * came with; -1 for text that was held back. Non-zero stops. May be NULL. */
    int (*on_text)(void *arg, tern_token token, const char *text, size_t n);
    /* Called with every token that is chosen, also an end token, and with the logits [vocab] that
     * it was chosen from, NULL for a forced one; before on_text. Non-zero stops. May be NULL. */
    int (*on_token)(void *arg, tern_token token, const float *logits);
    /* Called after each batch of the prompt. Non-zero stops. May be NULL. */
    int (*on_prompt)(void *arg, size_t done, size_t total);
    void *arg;
#ifdef TERN_MPI
    /* On several machines: on_token reads no logits. Where few tokens can be chosen (greedy, or top_k of
     * at most 128 before other stages, without constraint and fingerprint), the other machines send
     * those alone: of the rest, logits are -inf. */
    int best_only;
#endif
};

enum tern_stop_reason {
    TERN_STOP_END,
    TERN_STOP_LENGTH,
    TERN_STOP_CONTEXT,
    TERN_STOP_STRING,
    TERN_STOP_CANCELLED,
    TERN_STOP_COMPLETE, /* the text is all that the constraint demands, by an end token or because
                         * nothing can follow. A text that ended otherwise is not finished. */
    TERN_STOP_DEAD_END  /* the constraint allows no token, and TERN_INTERNAL is returned */
};

struct tern_generate_result {
    size_t n_prompt, n_generated; /* tokens evaluated as prompt, tokens chosen */
    double prompt_seconds, generate_seconds;
    enum tern_stop_reason reason;
    size_t n_steps;               /* batches evaluated after the prompt */
    size_t n_drafted, n_accepted; /* guesses that were evaluated; guesses that were right */
    size_t n_shifts, n_shifted;   /* shifts of the context; tokens that they evaluated again */
    double shift_seconds;         /* what shifts took, as a part of generate_seconds */
    size_t n_again;               /* tokens evaluated again for a RoPE limit (tern_seq_expect) */
    tern_token last;              /* the token chosen last, not in the sequence yet; or -1 */
    size_t n_forced;              /* of n_generated, tokens that the constraint left no choice of */
    /* With params.fingerprint: XXH64 over (position u64, logits f32 [vocab], little-endian) of each row
     * that a token was chosen from, in order; and how many there were. Forced tokens have none. Both
     * are 0 for an altered context (tern_lab.h). */
    uint64_t fingerprint, n_fingerprinted;
};

/* The prompt follows what the sequence already holds. If the sequence may hold the beginning of the
 * prompt itself, call tern_seq_reuse first. */
struct tern_generate_params tern_generate_defaults(void);
enum tern_status tern_generate(tern_context *ctx, const struct tern_generate_params *params,
                               struct tern_generate_result *result, struct tern_error *e);

/* The same in steps, and for several texts at a time. Whatever its mates are and however the steps are
 * cut, a text is the one that tern_generate makes of its parameters alone, bit for bit.
 *
 * open begins a text and evaluates nothing yet. What `params` points at must stay until close. Each open
 * text has a sequence to itself, and so does its draft: between steps read and fork them, but leave
 * them as they are. Callbacks open and close no texts. */
enum tern_status tern_text_open(tern_text **out, tern_context *ctx,
                                const struct tern_generate_params *params, struct tern_error *e);

/* Evaluates one batch for texts [n] of one context, none of them over, at most n_logits and n_batch of
 * them. Each text whose prompt is read gets its next token, with guesses and forced tokens. At most
 * prompt_rows rows are of prompts (0: as many as fit), of the texts in the order given; a context that
 * shifts counts as a prompt. Then the next tokens are chosen, spread over the threads, and callbacks are
 * called in the order of the texts, in this thread: first on_prompt, then on_token and on_text. Within
 * them tern_logits has the rows of that text alone, and none for a token that came late.
 *
 * Rows that tern_batch_add put into the batch before are evaluated with it, beside prompt_rows; tern_hidden
 * then has their hidden states. They ask for no logits, they are of sequences without a text, and they leave
 * a row for each text. With TERN_OK they are all evaluated, once. Otherwise none is: the batch is empty, so
 * add them again. n = 0 does nothing to them: tern_forward evaluates rows alone.
 *
 * A text that ends or fails is over, and does not disturb the others: tern_text_result has its status. A
 * value that is not finite fails its own text, or none if it is of a row that was added. TERN_CANCELLED,
 * after tern_cancel: nothing changed, and the step may be tried again, with other texts. Any other error is
 * about the arguments. */
enum tern_status tern_step(tern_text *const *texts, size_t n, uint32_t prompt_rows,
                           struct tern_error *e);
int tern_text_is_over(const tern_text *text);
/* Its constraint takes more steps than params.constraint_steps allows: after open or a tern_step, the text has
 * no part in another until tern_text_catch_up has done what is left to do. That may be called in any thread,
 * while steps of other texts run, for one text of a context at a time. It asks tern_model_params.stop;
 * non-zero means that the text fails. Being late does not change what the text becomes. */
int tern_text_is_late(const tern_text *text);
void tern_text_catch_up(tern_text *text);
size_t
tern_text_unread(const tern_text *text); /* tokens of its prompt, or of a shift, to evaluate */

/* What tern_generate returns: so far, or of the whole text when it is over. NULL for what is not wanted. */
enum tern_status tern_text_result(const tern_text *text, struct tern_generate_result *result,
                                  struct tern_error *e);
void tern_text_close(tern_text *text); /* the sequence stays, perhaps without the last tokens */

/* What tern_generate requires of a draft: TERN_USAGE, naming the first token that differs, unless
 * both models have the same tokens. Rows without text at the end of a vocabulary do not count. */
enum tern_status tern_draft_check(const tern_model *model, const tern_model *draft,
                                  struct tern_error *e);

/* ---- receipts: an answer that others can prove ----------------------------------------------- */

/* A receipt states what the answer of a model was: which model, which prompt, which options, which tokens,
 * and a hash of the logits. Whoever has the weights file can prove or refute it, on any machine, at the
 * speed of a prompt. src/engine/RECEIPT.md is the protocol, and says what a receipt does not prove. */
struct tern_receipt_params {
    const tern_token *prompt; /* [n_prompt] all that was before the answer, from position 0 */
    size_t n_prompt;
    const tern_token *answer; /* [n_answer] as chosen, with forced tokens and the end token */
    size_t n_answer;
    /* The options that the answer was made with: sampler (NULL: the model's), stop, n_predict, ignore_end
     * and no_force. The others have no part in it. The sampler has no mu and no constraint of its own. */
    const struct tern_generate_params *generate;
    const struct tern_constraint_params
        *constraint;                           /* what generate->constraint was made of; or NULL */
    const struct tern_generate_result *result; /* of an answer with generate->fingerprint */
    enum tern_cache_type cache_type;
};
/* Writes a receipt, a JSON text of one line, to text[0 .. max). *n gets its full size. TERN_USAGE where
 * there can be none: the context was shifted, or altered (tern_lab.h). */
enum tern_status tern_receipt_write(const tern_model *model,
                                    const struct tern_receipt_params *params, char *text,
                                    size_t max, size_t *n, struct tern_error *e);

struct tern_receipt_verdict {
    int holds;
    size_t
        n_tokens; /* of the answer, that are the model's own: all, or those before the first wrong */
    size_t first_wrong;        /* index in the answer; SIZE_MAX: no token is wrong */
    tern_token claimed, found; /* of first_wrong; -1: the text has ended there */
    double seconds;            /* that the proof took */
    char why[256];             /* one sentence where it does not hold; else "" */
};
/* Evaluates prompt and answer once, in a context of its own, and chooses every token again. text: a
 * receipt, or an answer of the server that has one, as `receipt` of it or of a choice. TERN_OK: the verdict
 * is found. TERN_BAD_FILE: this is not a receipt. TERN_USAGE: the receipt is of another model, arithmetic,
 * tokenizer or chat template than `model` has now; e says of which. TERN_CANCELLED: tern_model_params.stop,
 * which is asked between batches. */
enum tern_status tern_receipt_verify(tern_model *model, const char *text, size_t n,
                                     struct tern_receipt_verdict *verdict, struct tern_error *e);

/* ---- files -------------------------------------------------------------------------------- */

struct tern_quantize_report { /* of one tensor, when it has been written */
    const char *name;
    enum tern_type from, to;
    uint64_t bytes_in, bytes_out, done, total; /* done, total: bytes of the whole job */
    uint64_t weights;                          /* values of the tensor, without padding */
    double rmse, max_error;                    /* against the source tensor */
};

struct tern_quantize_params {
    enum tern_type type; /* of the matrices: TERN_Q8 (also if 0), TERN_Q4, TERN_Q4C */
    int n_threads;       /* 0: all available cores */
    const char *cpu;     /* that runs the model; NULL: the best target; or one of tern_cpu_names */
    /* For TERN_Q4 and TERN_Q4C: matrices that become q8, separated by commas: "head,down,layer.0";
     * or NULL. */
    const char *keep_q8;
    /* For TERN_Q4 and TERN_Q4C: a text like those that the model will see. The model runs over it,
     * and the codes are chosen for the inputs that its matrices get. NULL: for any input. */
    const char *text;
    size_t text_bytes;
    /* May be NULL. Non-zero stops with TERN_CANCELLED and leaves no file behind. */
    int (*report)(void *arg, const struct tern_quantize_report *r);
    void *arg;
    int (*stop)(void *arg); /* the same, asked many times a second */
};

/* Writes the weights file `in` to `out` with smaller matrices. The bytes are the same for any
 * number of threads. A temporary file beside `out` is written, synced and then renamed. */
enum tern_status tern_quantize(const char *in, const char *out,
                               const struct tern_quantize_params *params, struct tern_error *e);

const char *tern_quantize_types(void); /* the types that it makes: "q8|q4|q4c" */

/* For a signal handler that ends the process: removes the unfinished files that tern_quantize and
 * tern_session_save are writing. */
void tern_remove_temporaries(void);

/* ---- odds and ends ------------------------------------------------------------------------ */

const char *tern_version(void);    /* "0.1.0" */
const char *tern_build_info(void); /* compiler, targets built, arithmetic, format */
const char *tern_cpu_names(void);  /* targets built, narrow to wide: "plain|ref|avx2" */
const char *tern_type_name(enum tern_type type);             /* "q8"; NULL: no such type */
const char *tern_cache_type_name(enum tern_cache_type type); /* "f16"; NULL: no such type */

#ifdef __GNUC__
#pragma GCC visibility pop
#endif
#ifdef __cplusplus
}
#endif
#endif
