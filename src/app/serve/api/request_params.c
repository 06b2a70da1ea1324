/* Options of sampling and generation: see request_params.h. */
#include "app/serve/api/request_params.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/random.h>

#include "app/cli/number.h"
#include "app/serve/http/exchange.h"
#include "app/serve/http/json_wide.h"
#include "app/serve/serve_options.h"
#include "app/serve/server.h"

enum { BREAKERS_MAX = 16, BREAKER_BYTES = 64, ORDER_BYTES = 256 };

/* ---- defaults ------------------------------------------------------------------------------ */

/* The model file states values of its own. tern.h fills up what it lacks, so a file that states just these is
 * taken for one that states none. */
static bool is_stated(const struct tern_sampler_params *p)
{
    return p->temperature != 0.8f || p->top_k != 40 || p->top_p != 0.95f || p->min_p != 0.05f;
}

static uint64_t random_seed(void)
{
    uint32_t seed = 0; /* short, for people copy it */
    if (getrandom(&seed, sizeof seed, 0) != sizeof seed)
        seed = 1;
    return seed;
}

struct tern_sampler_params request_params_defaults(const tern_model *model)
{
    struct tern_sampler_params p = tern_sampler_defaults(model);
    if (!is_stated(&p)) {
        p.temperature = p.top_p = 1;
        p.top_k = 0, p.min_p = 0;
    }
    return p;
}

/* ---- numbers ------------------------------------------------------------------------------- */

#define REAL(name, member, min, max)                                 \
    {                                                                \
        name, offsetof(struct tern_sampler_params, member), min, max \
    }

/* The limits are those of the sampler. */
static const struct real_field {
    const char *name;
    size_t offset;
    double min, max;
} reals[] = {
    REAL("temperature", temperature, 0, 1000),
    REAL("top_p", top_p, 0, 1),
    REAL("min_p", min_p, 0, 1),
    REAL("typical_p", typical_p, 0, 1),
    REAL("top_n_sigma", top_n_sigma, -1, 1000),
    REAL("repetition_penalty", repeat_penalty, 0, 1000),
    REAL("repeat_penalty", repeat_penalty, 0, 1000),
    REAL("frequency_penalty", frequency_penalty, -1000, 1000),
    REAL("presence_penalty", presence_penalty, -1000, 1000),
    REAL("xtc_probability", xtc_probability, 0, 1),
    REAL("xtc_threshold", xtc_threshold, 0, 1),
    REAL("dry_multiplier", dry_multiplier, 0, 1000),
    REAL("dry_base", dry_base, 0, 1000),
    REAL("mirostat_tau", mirostat_tau, 0, 1000),
    REAL("mirostat_eta", mirostat_eta, 0, 1),
};

static bool read_reals(struct request_params *p, struct fields *f)
{
    for (size_t i = 0; i < sizeof reals / sizeof *reals; i++) {
        float value;
        char *at = (char *)&p->sampler + reals[i].offset;
        memcpy(&value, at, sizeof value);
        double v = (double)value;
        if (!fields_real(f, reals[i].name, reals[i].min, reals[i].max, &v))
            return false;
        value = (float)v;
        memcpy(at, &value, sizeof value);
    }
    return true;
}

/* Below zero: off, or all */
static bool read_count(struct fields *f, const char *name, uint32_t below, uint32_t *v)
{
    int64_t value = *v;
    if (!fields_integer(f, name, -1, UINT32_MAX, &value))
        return false;
    *v = value < 0 ? below : (uint32_t)value;
    return true;
}

static bool read_seed(struct request_params *p, const struct serve_options *o, struct fields *f)
{
    int64_t seed = -1; /* for llama.cpp: a random one */
    if (!fields_integer(f, "seed", INT64_MIN, INT64_MAX, &seed))
        return false;
    if (seed != -1)
        p->sampler.seed = (uint64_t)seed;
    else if (o->value[SERVE_SEED].given && !fields_has(f, "seed"))
        p->sampler.seed = o->value[SERVE_SEED].seed;
    else
        p->sampler.seed = random_seed();
    return true;
}

static bool read_integers(struct request_params *p, struct fields *f)
{
    struct tern_sampler_params *s = &p->sampler;
    int64_t mirostat = s->mirostat;
    if (!read_count(f, "top_k", 0, &s->top_k) ||
        !read_count(f, "repeat_last_n", UINT32_MAX, &s->repeat_last_n) ||
        !read_count(f, "dry_allowed_length", 0, &s->dry_allowed_length) ||
        !read_count(f, "dry_penalty_last_n", UINT32_MAX, &s->dry_last_n) ||
        !fields_integer(f, "mirostat", 0, 2, &mirostat))
        return false;
    if (mirostat == 1)
        return fields_fault(f, "mirostat", "invalid_value", "must be 0 (off) or 2; it is 1");
    s->mirostat = (uint32_t)mirostat;
    return true;
}

/* Header x-tern-receipt: 1, true, yes; 0, false, no */
static bool read_header(struct request_params *p, const struct exchange *x, struct fault *f)
{
    static const char name[] = "x-tern-receipt";
    static const char *const words[] = {"0", "false", "no", "1", "true", "yes"};
    const char *value = exchange_header(x, name);
    size_t i = 0, n = sizeof words / sizeof *words;
    while (value && i < n && strcasecmp(value, words[i]) != 0)
        i++;
    if (i == n)
        fault_set(f, 400, FAULT_INVALID, "invalid_value", name,
                  "the header %s must be 1, true or yes, or 0, false or no; it is '%.60s'", name,
                  value);
    p->receipt = value && i >= 3;
    return i < n;
}

static bool read_flags(struct request_params *p, struct exchange *x, struct fields *f)
{
    p->end_field = fields_has(f, "ignore_end") ? "ignore_end" : "ignore_eos";
    return read_header(p, x, f->fault) && fields_bool(f, "cache_prompt", &p->cache_prompt) &&
           fields_bool(f, "ignore_eos", &p->ignore_end) &&
           fields_bool(f, "ignore_end", &p->ignore_end) &&
           fields_bool(f, "no_force", &p->no_force) && fields_bool(f, "receipt", &p->receipt) &&
           fields_bool(f, "return_tokens", &p->return_tokens) &&
           fields_bool(f, "timings_per_token", &p->timings);
}

/* ---- lists --------------------------------------------------------------------------------- */

/* samplers: "top_k;temperature", or an array of such names */
static bool read_order(struct request_params *p, struct fields *f)
{
    json_t *v = fields_any(f, "samplers");
    char text[ORDER_BYTES] = "";
    struct tern_error e = {0};
    if (!v)
        return true;
    for (size_t i = 0; i < (json_is_array(v) ? json_array_size(v) : 1); i++) {
        const char *name = json_string_value(json_is_array(v) ? json_array_get(v, i) : v);
        size_t n = strlen(text);
        if (!name || n + strlen(name) + 2 > sizeof text)
            return fields_fault(f, "samplers", "invalid_type",
                                "must be names with semicolons between, or an array of names");
        snprintf(text + n, sizeof text - n, "%s%s", n ? ";" : "", name);
    }
    return !tern_sampler_order(&p->sampler, text, &e) ||
           fields_fault(f, "samplers", "invalid_value", "is wrong: %s", e.text);
}

static bool read_breakers(struct request_params *p, struct fields *f)
{
    json_t *v = NULL;
    if (!fields_array(f, "dry_sequence_breakers", BREAKERS_MAX, &v) || !v)
        return !v && !f->fault->status;
    char **list = calloc(json_array_size(v) + 1, sizeof *list);
    if (!list)
        return fault_no_memory(f->fault, "the request");
    p->sampler.dry_breakers = (const char *const *)list;
    for (size_t i = 0; i < json_array_size(v); i++) {
        const char *text = json_string_value(json_array_get(v, i));
        if (!text || !*text || strlen(text) > BREAKER_BYTES)
            return fields_fault(f, "dry_sequence_breakers", "invalid_type",
                                "must hold strings of 1 to %d bytes", BREAKER_BYTES);
        if (!(list[i] = strdup(text)))
            return fault_no_memory(f->fault, "the request");
        p->sampler.n_dry_breakers = i + 1;
    }
    return true;
}

/* ---- logit_bias ------------------------------------------------------------------------------ */

struct biases {
    struct fields *f;
    const struct server *s;
    struct tern_bias *list; /* [n] */
    size_t n;
};

static bool add_bias(struct biases *b, uint64_t token, const json_t *value)
{
    double v = -(double)INFINITY;
    if (!json_is_false(value) && !json_wide_real(value, &v))
        return fields_fault(b->f, "logit_bias", "invalid_type",
                            "must have numbers, or false, as its values");
    if (token >= b->s->info.vocab)
        return fields_fault(b->f, "logit_bias", "invalid_value",
                            "names token %llu, but the vocabulary has %llu tokens",
                            (unsigned long long)token, (unsigned long long)b->s->info.vocab);
    if (b->n == REQUEST_BIAS_MAX)
        return fields_fault(b->f, "logit_bias", "limit_exceeded", "has more than %d entries",
                            REQUEST_BIAS_MAX);
    b->list[b->n++] = (struct tern_bias){(tern_token)token, (float)v};
    return true;
}

/* All tokens of a text, as llama.cpp does. */
static bool add_text_bias(struct biases *b, const json_t *text, const json_t *value)
{
    tern_token tokens[REQUEST_BIAS_MAX];
    size_t n = 0;
    bool ok = !tern_tokenize(b->s->model, json_string_value(text), json_string_length(text), 0,
                             tokens, REQUEST_BIAS_MAX, &n, NULL);
    if (!ok)
        return fault_no_memory(b->f->fault, "the request");
    for (size_t i = 0; i < n && ok; i++)
        ok = i < REQUEST_BIAS_MAX ? add_bias(b, (uint64_t)tokens[i], value)
                                  : fields_fault(b->f, "logit_bias", "limit_exceeded",
                                                 "has more than %d entries", REQUEST_BIAS_MAX);
    return ok;
}

/* [[id or text, bias], ...] */
static bool read_bias_list(struct biases *b, const json_t *v)
{
    bool ok = true;
    for (size_t i = 0; i < json_array_size(v) && ok; i++) {
        const json_t *pair = json_array_get(v, i), *who = json_array_get(pair, 0);
        int64_t id = 0;
        if (json_array_size(pair) != 2 || !(fields_whole(who, &id) || json_is_string(who)))
            ok = fields_fault(b->f, "logit_bias", "invalid_type",
                              "must be an object, or an array of [token, bias]");
        else if (json_is_string(who))
            ok = add_text_bias(b, who, json_array_get(pair, 1));
        else
            ok = add_bias(b, (uint64_t)id, json_array_get(pair, 1));
    }
    return ok;
}

/* {"id": bias, ...} */
static bool read_bias_object(struct biases *b, json_t *v)
{
    const char *name;
    json_t *value;
    uint64_t id;
    json_object_foreach(v, name, value)
    {
        if (!number_u64(name, strlen(name), &id))
            return fields_fault(b->f, "logit_bias", "invalid_value",
                                "has the name '%.40s', which is no token id", name);
        if (!add_bias(b, id, value))
            return false;
    }
    return true;
}

static bool read_bias(struct request_params *p, const struct server *s, struct fields *f)
{
    json_t *v = fields_any(f, "logit_bias");
    struct biases b = {.f = f, .s = s};
    if (!v)
        return true;
    if (!json_is_members(v) && !json_is_array(v))
        return fields_fault(f, "logit_bias", "invalid_type",
                            "must be an object, or an array of [token, bias]");
    p->sampler.bias = b.list = calloc(REQUEST_BIAS_MAX, sizeof *b.list);
    if (!b.list)
        return fault_no_memory(f->fault, "the request");
    bool ok = json_is_object(v) ? read_bias_object(&b, v) : read_bias_list(&b, v);
    p->sampler.n_bias = b.n;
    return ok;
}

/* ---- the whole ------------------------------------------------------------------------------- */

bool request_params_read(struct request_params *p, const struct server *s, struct exchange *x,
                         struct fields *f)
{
    *p = (struct request_params){.sampler = request_params_defaults(s->model),
                                 .n_predict = serve_number(s->options, SERVE_N_PREDICT),
                                 .cache_prompt = true};
    return read_reals(p, f) && read_integers(p, f) && read_seed(p, s->options, f) &&
           read_flags(p, x, f) && read_order(p, f) && read_breakers(p, f) && read_bias(p, s, f);
}

static void free_list(char **list, size_t n)
{
    for (size_t i = 0; i < n; i++)
        free(list[i]);
}

static void free_sampler(struct tern_sampler_params *s)
{
    free_list((char **)s->dry_breakers, s->n_dry_breakers);
    free((void *)s->dry_breakers);
    free((void *)s->bias);
}

void request_params_close(struct request_params *p)
{
    free_sampler(&p->sampler);
    free_list(p->stop, p->n_stop);
    *p = (struct request_params){0};
}

json_t *request_params_real(float value)
{
    char text[32];
    double real = (double)value;
    for (int digits = 1; digits <= 9; digits++) { /* nine are enough for any */
        (void)snprintf(text, sizeof text, "%.*g", digits, (double)value);
        if (number_real(text, &real) && (float)real == value)
            break;
    }
    return json_real(real);
}

bool request_params_length(struct request_params *p, struct fields *f, const char *name,
                           int64_t min)
{
    int64_t n = p->n_predict;
    if (!fields_integer(f, name, -1, INT32_MAX, &n))
        return false;
    if (fields_has(f, name) && n < min && n != -1)
        return fields_fault(f, name, "invalid_value", "must be at least %lld; it is %lld",
                            (long long)min, (long long)n);
    p->n_predict = n;
    return true;
}

/* ---- stop strings ---------------------------------------------------------------------------- */

static bool add_stop(struct request_params *p, struct fields *f, const char *name, const json_t *v)
{
    const char *text = json_string_value(v);
    if (!text)
        return fields_fault(f, name, "invalid_type", "must be a string or an array of strings");
    size_t n = json_string_length(v);
    if (n == 0) /* llama.cpp skips it, too: clients send the field of a form that nobody filled in */
        return true;
    if (n > REQUEST_STOP_BYTES || strlen(text) != n)
        return fields_fault(f, name, n > REQUEST_STOP_BYTES ? "limit_exceeded" : "invalid_value",
                            "has a string of %zu bytes; at most %d are allowed, without U+0000", n,
                            REQUEST_STOP_BYTES);
    if (!(p->stop[p->n_stop] = strdup(text)))
        return fault_no_memory(f->fault, "the request");
    p->n_stop++;
    return true;
}

bool request_params_stop(struct request_params *p, struct fields *f, const char *name, size_t max)
{
    json_t *v = fields_any(f, name);
    bool ok = true;
    if (!v)
        return true;
    if (!json_is_array(v))
        return add_stop(p, f, name, v);
    if (json_array_size(v) > max)
        return fields_fault(f, name, "limit_exceeded", "has %zu strings; at most %zu are allowed",
                            json_array_size(v), max);
    for (size_t i = 0; i < json_array_size(v) && ok; i++)
        ok = add_stop(p, f, name, json_array_get(v, i));
    return ok;
}

bool request_params_chat_stop(struct request_params *p, const tern_model *model)
{
    struct tern_chat_info info;
    if (!tern_chat_info(model, &info) || !info.stop)
        return true;
    if (!(p->stop[p->n_stop] = strdup(info.stop)))
        return false;
    p->n_stop++;
    return true;
}

/* ---- jobs ------------------------------------------------------------------------------------ */

static char **copy_list(const char *const *list, size_t n)
{
    char **out = calloc(n + 1, sizeof *out);
    for (size_t i = 0; out && i < n; i++)
        if (!(out[i] = strdup(list[i]))) {
            free_list(out, i);
            free(out);
            return NULL;
        }
    return out;
}

static bool copy_sampler(const struct tern_sampler_params *from, struct tern_sampler_params *to)
{
    *to = *from;
    to->bias = NULL, to->dry_breakers = NULL;
    to->n_bias = to->n_dry_breakers = 0;
    if (from->dry_breakers) {
        to->dry_breakers = (const char *const *)copy_list(from->dry_breakers, from->n_dry_breakers);
        if (!to->dry_breakers)
            return false;
        to->n_dry_breakers = from->n_dry_breakers;
    }
    if (!from->n_bias)
        return true;
    struct tern_bias *bias = malloc(from->n_bias * sizeof *bias);
    if (!bias)
        return false;
    memcpy(bias, from->bias, from->n_bias * sizeof *bias);
    to->bias = bias, to->n_bias = from->n_bias;
    return true;
}

bool request_params_may_ignore_end(const struct request_params *p, bool constrained,
                                   struct fault *f)
{
    if (!constrained || !p->ignore_end)
        return true;
    fault_set(f, 400, NULL, "invalid_value", p->end_field,
              "%s: an answer with a format or with tools ends where these let it end", p->end_field);
    return false;
}

bool request_params_job(const struct request_params *p, uint64_t i, uint64_t client,
                        struct job_request *r, struct fault *f)
{
    bool ok = copy_sampler(&p->sampler, &r->sampler);
    r->sampler.seed += i;
    r->stop = copy_list((const char *const *)p->stop, p->n_stop);
    r->n_stop = r->stop ? p->n_stop : 0;
    r->n_predict = p->n_predict;
    r->ignore_end = p->ignore_end, r->no_force = p->no_force;
    r->cache_prompt = p->cache_prompt, r->receipt = p->receipt;
    r->logprobs = p->logprobs, r->n_top = p->n_top;
    r->client = client;
    return (ok && r->stop) || fault_no_memory(f, "the request");
}
