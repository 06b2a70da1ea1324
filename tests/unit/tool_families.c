/* Chat sections of the families of templates that call tools: see tool_families.h. */
#include "tool_families.h"

#include "suite.h"

const char tool_family_tools[] =
    "[{\"type\":\"function\",\"function\":{\"name\":\"get_weather\",\"description\":\"Caf\\u00e9 "
    "<b>\","
    "\"parameters\":{\"type\":\"object\",\"properties\":{\"city\":{\"type\":\"string\","
    "\"description\":\"A "
    "city\"},\"days\":{\"type\":\"integer\",\"default\":1.50}},\"required\":[\"city\"]}}},"
    "{\"name\":\"stop\",\"description\":\"Ends\"}]";

#define TOOL_1                                                                             \
    "{\"type\": \"function\", \"function\": {\"name\": \"get_weather\", \"description\": " \
    "\"Caf\xC3\xA9 "                                                                       \
    "<b>\", \"parameters\": {\"type\": \"object\", \"properties\": {\"city\": {\"type\": " \
    "\"string\", "                                                                         \
    "\"description\": \"A city\"}, \"days\": {\"type\": \"integer\", \"default\": 1.5}}, " \
    "\"required\": "                                                                       \
    "[\"city\"]}}}"
#define TOOL_2 \
    "{\"type\": \"function\", \"function\": {\"name\": \"stop\", \"description\": \"Ends\"}}"

static const struct tern_call calls[] = {
    {"abcdefgh1", "get_weather", "{\"city\":\"Bonn\\n\\u00fc\",\"days\":2e0}"},
    {"abcdefgh2", "stop", NULL}};

const struct tern_chat_message tool_family_talk[FAMILY_TALK] = {
    {.role = "tools", .text = tool_family_tools, .bytes = sizeof tool_family_tools - 1},
    {.role = "user", .text = "Hi", .bytes = 2},
    {.role = "assistant", .calls = calls, .n_calls = 2},
    {.role = "tool", .text = "4 \"C\"", .bytes = 5, .call_id = "abcdefgh1"},
    {.role = "tool", .text = "ok", .bytes = 2},
    {.role = "assistant", .text = "Cold.", .bytes = 5},
};

enum { TOOLS = 1 << 17, CALLS = 1 << 18, AFTER = 1 << 19, BEFORE = 1 << 20, MANY = 1 << 25 };
enum { FIRST = 4, LAST = 8, STRING = 16, ARRAY = 256, OBJECT = 512 };

#define SPECIAL(name) "\1" name "\1"
#define TOOL_CALLS SPECIAL("<repo_name>")

const struct tool_family tool_families[TOOL_FAMILIES] = {
    {.name = "qwen",
     .rules = {{TOOLS | 7, TOOLS | 4,
                START "system\n\5# Tools\n<tools>\016"
                      "0\n</tools>" STOP START "user\n\2" STOP},
               {3, 0, START "user\n\2" STOP},
               {CALLS | 64 | 3, CALLS | 64 | 1,
                START "assistant\n\016"
                      "1" STOP},
               {CALLS | 3, CALLS | 1,
                START "assistant\n\2\n\016"
                      "1" STOP},
               {3, 1, START "assistant\n\3" STOP},
               {AFTER | BEFORE | 3, AFTER | BEFORE | 3, "\n<tool_response>\n\2\n</tool_response>"},
               {AFTER | 3, AFTER | 3, "\n<tool_response>\n\2\n</tool_response>" STOP},
               {BEFORE | 3, BEFORE | 3, START "user\n<tool_response>\n\2\n</tool_response>"},
               {3, 3, START "user\n<tool_response>\n\2\n</tool_response>" STOP},
               {0x803, 0x802, START "assistant\n"},
               {3, 2, ""}},
     .parts = {{3, 0, "\n\017t0"},
               {FIRST | 3, FIRST | 1,
                "<tool_call>\n{\"name\": \"\017n-\", \"arguments\": \017a0}\n</tool_call>"},
               {3, 1,
                "\n<tool_call>\n{\"name\": \"\017n-\", \"arguments\": \017a0}\n</tool_call>"}},
     .styles = {0},
     .n_styles = 1,
     .forms = {{"<tool_call>", "",
                "<tool_call>\n{\"name\": \"\017n-\", \"arguments\": \017a0}\n</tool_call>", "\n",
                ""}},
     .thought = {"<think>", "</think>"},
     .written =
         "<|im_start|>system\n# Tools\n<tools>\n" TOOL_1 "\n" TOOL_2 "\n</tools><|im_end|>\n"
         "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n<tool_call>\n{\"name\": "
         "\"get_weather\", "
         "\"arguments\": {\"city\": \"Bonn\\n\xC3\xBC\", \"days\": "
         "2.0}}\n</tool_call>\n<tool_call>\n"
         "{\"name\": \"stop\", \"arguments\": {}}\n</tool_call><|im_end|>\n<|im_start|>user\n"
         "<tool_response>\n4 "
         "\"C\"\n</tool_response>\n<tool_response>\nok\n</tool_response><|im_end|>\n"
         "<|im_start|>assistant\nCold.<|im_end|>\n",
     .answers = {"<think>\nhm <tool_call></think>\n\nSee: <tool \n<tool_call>\n{\"name\": "
                 "\"get_weather\", \"arguments\": "
                 "{\"city\": "
                 "\"}\\\"{\"}}\n</tool_call>\n<tool_call>{\"name\":\"stop\",\"arguments\":{}}</"
                 "tool_call>\n",
                 "a <tool_call>\n{\"nam\": 1} \n<tool_call>\n{\"name\": \"b c\"",
                 "x\n\n<tool_call>\n{\"name\": \"stop\", \"arguments\": {}}"},
     .events = {"H[\nhm <tool_call>]T[\n\nSee: <tool]C[000000007|get_weather|{\"city\": "
                "\"}\\\"{\"}]C[000000008|stop|{}]",
                "T[a <tool_call>\n{\"nam\": 1} \n<tool_call>\n{\"name\": \"b c\"]",
                "T[x]C[000000007|stop|{}]"}},
    {.name = "llama",
     .rules = {{TOOLS | 7, TOOLS | 4,
                "H\n\5E\nH\n\016"
                "0\6\2\0078E"},
               {3, 0, "U\6\2\0078E"},
               {CALLS | 3, CALLS | 1,
                "A\016"
                "1E"},
               {3, 1, "A\6\2\0078E"},
               {3, 3, "I\017w0E"},
               {0x803, 0x802, "A"},
               {3, 2, ""}},
     .parts = {{3, 0, "\017t1\n\n"}, {3, 1, "{\"name\": \"\017n-\", \"parameters\": \017a0}"}},
     .styles = {0, 4 << 16},
     .n_styles = 2,
     .forms = {{"{\"name\":", "", "{\"name\": \"\017n-\", \"parameters\": \017a0}", "", ""}},
     .flags = 3,
     .written = "H\nE\nH\n{\n    \"type\": \"function\",\n    \"function\": {\n        \"name\": "
                "\"get_weather\",\n"
                "        \"description\": \"Caf\xC3\xA9 <b>\",\n        \"parameters\": {\n        "
                "    \"type\": \"object\",\n"
                "            \"properties\": {\n                \"city\": {\n                    "
                "\"type\": \"string\",\n"
                "                    \"description\": \"A city\"\n                },\n             "
                "   \"days\": {\n"
                "                    \"type\": \"integer\",\n                    \"default\": "
                "1.5\n                }\n"
                "            },\n            \"required\": [\n                \"city\"\n           "
                " ]\n        }\n    }\n}\n\n"
                "{\n    \"type\": \"function\",\n    \"function\": {\n        \"name\": \"stop\",\n"
                "        \"description\": \"Ends\"\n    }\n}\n\nHiEA{\"name\": \"get_weather\", "
                "\"parameters\": {\"city\": "
                "\"Bonn\\n\xC3\xBC\", \"days\": 2.0}}{\"name\": \"stop\", \"parameters\": {}}EI\"4 "
                "\\\"C\\\"\"EI\"ok\"EACold.E",
     .answers = {" {\"name\": \"get_weather\", \"parameters\": {\"city\": \"Bonn\"}}",
                 "See {\"name\": \"stop\", \"parameters\": {}}", "{\"name\": \"x\"}"},
     .events = {"C[000000007|get_weather|{\"city\": \"Bonn\"}]",
                "T[See {\"name\": \"stop\", \"parameters\": {}}]", "T[{\"name\": \"x\"}]"}},
    {.name = "mistral",
     .rules = {{TOOLS | 19, TOOLS | 16,
                "[AVAILABLE_TOOLS][\016"
                "0][/AVAILABLE_TOOLS][INST]\2[/INST]"},
               {3, 0, "[INST]\2[/INST]"},
               {CALLS | 3, CALLS | 1,
                TOOL_CALLS "[\016"
                           "1]" SPECIAL("<|im_end|>")},
               {3, 1, "\2" SPECIAL("<|im_end|>")},
               {3, 3, "[TOOL_RESULTS]{\"content\": \2, \"call_id\": \"\017i-\"}[/TOOL_RESULTS]"},
               {3, 2, ""}},
     .parts = {{LAST | 3, LAST | 0,
                "{\"type\": \"function\", \"function\": {\016"
                "3}}"},
               {3, 0,
                "{\"type\": \"function\", \"function\": {\016"
                "3}}, "},
               {LAST | STRING | 3, LAST | STRING | 3, "\"\017k-\": \"\017v-\""},
               {STRING | 3, STRING | 3, "\"\017k-\": \"\017v-\", "},
               {LAST | 3, LAST | 3, "\"\017k-\": \017v0"},
               {3, 3, "\"\017k-\": \017v0, "},
               {LAST | 3, LAST | 1,
                "{\"name\": \"\017n-\", \"arguments\": \017a0, \"id\": \"\017i-\"}"},
               {3, 1, "{\"name\": \"\017n-\", \"arguments\": \017a0, \"id\": \"\017i-\"}, "}},
     .styles = {0},
     .n_styles = 1,
     .forms = {{TOOL_CALLS, TOOL_CALLS "[",
                "{\"name\": \"\017n-\", \"arguments\": \017a0, \"id\": \"\017i-\"}", ", ", "]"}},
     .id_length = 9,
     .written = "[AVAILABLE_TOOLS][" TOOL_1 ", " TOOL_2
                "][/AVAILABLE_TOOLS][INST]Hi[/INST]<repo_name>[{\"name\": "
                "\"get_weather\", \"arguments\": {\"city\": \"Bonn\\n\xC3\xBC\", \"days\": 2.0}, "
                "\"id\": \"abcdefgh1\"}, "
                "{\"name\": \"stop\", \"arguments\": {}, \"id\": "
                "\"abcdefgh2\"}]<|im_end|>[TOOL_RESULTS]{\"content\": "
                "4 \"C\", \"call_id\": \"abcdefgh1\"}[/TOOL_RESULTS][TOOL_RESULTS]{\"content\": "
                "ok, \"call_id\": "
                "\"abcdefgh2\"}[/TOOL_RESULTS]Cold.<|im_end|>",
     .answers = {"<repo_name>[{\"name\": \"stop\", \"arguments\": {\"a\": [1, {}]}, \"id\": "
                 "\"AbCdEfGh9\"},\n {\"name\":\"stop\", "
                 "\"arguments\": {}, \"id\": \"AbCdEfGh8\"}] ok",
                 "<repo_name>[1]", "<repo_name>[{\"name\": \"stop\", \"arguments\": {\"a\":"},
     .events = {"C[AbCdEfGh9|stop|{\"a\": [1, {}]}]C[AbCdEfGh8|stop|{}]T[ ok]", "T[<repo_name>[1]]",
                "T[<repo_name>[{\"name\": \"stop\", \"arguments\": {\"a\":]"}},
    {.name = "qwen-xml",
     .rules = {{TOOLS | 7, TOOLS | 4,
                START "system\n\016"
                      "0" STOP START "user\n\2" STOP},
               {3, 0, START "user\n\2" STOP},
               {CALLS | 3, CALLS | 1,
                START "assistant\n\2\016"
                      "1" STOP},
               {3, 1, START "assistant\n\2" STOP},
               {3, 3, START "user\n\2" STOP},
               {3, 2, ""}},
     .parts = {{3, 0, "\n\017t0"},
               {FIRST | 3, FIRST | 1,
                "<tool_call>\n<function=\017n->\n\016"
                "2</function>\n</tool_call>"},
               {3, 1,
                "\n<tool_call>\n<function=\017n->\n\016"
                "2</function>\n</tool_call>"},
               {ARRAY | 3, ARRAY | 2, "<parameter=\017k->\n\017v0\n</parameter>\n"},
               {OBJECT | 3, OBJECT | 2, "<parameter=\017k->\n\017v0\n</parameter>\n"},
               {3, 2, "<parameter=\017k->\n\017v-\n</parameter>\n"}},
     .styles = {0},
     .n_styles = 1,
     .forms = {{"<tool_call>", "",
                "<tool_call>\n<function=\017n->\n\016"
                "2</function>\n</tool_call>",
                "\n", ""}},
     .written = "<|im_start|>system\n\n" TOOL_1 "\n" TOOL_2
                "<|im_end|>\n<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n"
                "<tool_call>\n<function=get_weather>\n<parameter=city>\nBonn\n\xC3\xBC\n</"
                "parameter>\n<parameter=days>\n2.0\n"
                "</parameter>\n</function>\n</tool_call>\n<tool_call>\n<function=stop>\n</"
                "function>\n</tool_call><|im_end|>\n"
                "<|im_start|>user\n4 "
                "\"C\"<|im_end|>\n<|im_start|>user\nok<|im_end|>\n<|im_start|>assistant\nCold.<|im_"
                "end|>\n",
     .answers = {"<tool_call>\n<function=get_weather>\n<parameter=city>\n12 < "
                 "\n\n</parameter>\n<parameter=days>\n3\n</parameter>\n"
                 "<parameter=x>\n{\"a\": "
                 "[true]}\n</parameter>\n<parameter=y>\nTrue\n</parameter>\n<parameter=z>\nfree "
                 "text\n</parameter>\n"
                 "</function>\n</tool_call>",
                 "<tool_call><function=stop></function></tool_call> then\n",
                 "<tool_call>\n<function=stop>\n<parameter"},
     .events = {"C[000000007|get_weather|{\"city\": \"12 < \\n\", \"days\": 3, \"x\": {\"a\": "
                "[true]}, \"y\": true, \"z\": \"free text\"}]",
                "C[000000007|stop|{}]T[ then]", "T[<tool_call>\n<function=stop>\n<parameter]"}},
    {.name = "pythonic",
     .rules = {{3, 0, START "user\n\2" STOP},
               {CALLS | 3, CALLS | 1,
                START "assistant\n\2" TOOL_CALLS "[\016"
                      "1]" SPECIAL("<|endoftext|>") STOP},
               {3, 1, START "assistant\n\2" STOP},
               {3, 3, START "tool\n\2" STOP},
               {3, 2, ""}},
     .parts = {{LAST | 3, LAST | 1,
                "\017n-(\016"
                "2)"},
               {3, 1,
                "\017n-(\016"
                "2), "},
               {LAST | STRING | 3, LAST | STRING | 2, "\017k-='\017v-'"},
               {STRING | 3, STRING | 2, "\017k-='\017v-', "},
               {LAST | 3, LAST | 2, "\017k-=\017v1"},
               {3, 2, "\017k-=\017v1, "}},
     .styles = {0, 2},
     .n_styles = 2,
     .forms = {{TOOL_CALLS, TOOL_CALLS "[",
                "\017n-(\016"
                "2)",
                ", ", "]" SPECIAL("<|endoftext|>")}},
     .written = "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n<repo_name>[get_weather("
                "city='Bonn\n\xC3\xBC', days=2.0), "
                "stop()]<|endoftext|><|im_end|>\n<|im_start|>tool\n4 "
                "\"C\"<|im_end|>\n<|im_start|>tool\nok<|im_end|>\n<|im_start|>assistant\n"
                "Cold.<|im_end|>\n",
     .answers = {"<repo_name>[get_weather(city='a, b)', days=2, x=[1, {'k': None}], y=True), "
                 "stop()]<|endoftext|>done",
                 "<repo_name>[stop(), f", "<repo_name>[stop(), f<repo_<repo_name>[stop(),x"},
     .events = {"C[000000007|get_weather|{\"city\": \"a, b)\", \"days\": 2, \"x\": [1, {\"k\": "
                "null}], \"y\": true}]C[000000008|stop|{}]T[done]",
                "C[000000007|stop|{}]T[, f]",
                "C[000000007|stop|{}]T[, f<repo_]C[000000008|stop|{}]T[,x]"}},
    {.name = "harmony",
     .rules = {{TOOLS | 7, TOOLS | 4,
                SPECIAL("<repo_name>") "developer\n\016"
                                       "0} // namespace functions" STOP START "user\2" STOP},
               {3, 0, START "user\2" STOP},
               {CALLS | 3, CALLS | 1,
                START "assistant to=functions.\016"
                      "1"},
               {3, 1,
                START
                "assistant" SPECIAL("<repo_name>") "final" SPECIAL("<|endoftext|>") "\3" STOP},
               {3, 3,
                START "functions.\017n- to=assistant" SPECIAL("<repo_name>") "commentary" SPECIAL(
                    "<|endoftext|>") "\017w0" STOP},
               {0x803, 0x802, START "assistant"},
               {3, 2, ""}},
     .parts = {{3, 0, "\017t1"},
               {3, 1,
                "\017n-" SPECIAL("<repo_name>") "commentary json" SPECIAL(
                    "<|endoftext|>") "\017a0"
                                     "<call>"}},
     .styles = {0, 3},
     .n_styles = 2,
     .forms = {{SPECIAL("<repo_name>") "commentary to=", "",
                SPECIAL("<repo_name>") "commentary to=functions.\017n- "
                                       "<constrain>"
                                       "json" SPECIAL("<|endoftext|>") "\017a0"
                                                                       "<call>",
                "", ""},
               {"to=", "",
                "to=functions.\017n-" SPECIAL("<repo_name>") "commentary json" SPECIAL(
                    "<|endoftext|>") "\017a0"
                                     "<call>",
                "", ""}},
     .skip = {"<|im_start|>assistant", "<repo_name>final<|endoftext|>",
              "<repo_name>commentary<|endoftext|>"},
     .thought = {"<repo_name>analysis<|endoftext|>", "<|im_end|>"},
     .written = "<repo_name>developer\n// Caf\xC3\xA9 <b>\ntype get_weather = (_: {\n// A "
                "city\ncity: string,\ndays?: number, // default: 1.5,\n"
                "}) => any;\n\n// Ends\ntype stop = () => any;\n\n} // namespace "
                "functions<|im_end|>\n<|im_start|>userHi<|im_end|>\n"
                "<|im_start|>assistant to=functions.get_weather<repo_name>commentary "
                "json<|endoftext|>{\"city\": \"Bonn\\n\xC3\xBC\", "
                "\"days\": 2.0}<call>stop<repo_name>commentary "
                "json<|endoftext|>{}<call><|im_start|>functions.get_weather "
                "to=assistant<repo_name>commentary<|endoftext|>\"4 "
                "\\\"C\\\"\"<|im_end|>\n<|im_start|>functions.stop to=assistant<repo_name>"
                "commentary<|endoftext|>\"ok\"<|im_end|>\n<|im_start|>assistant<repo_name>"
                "final<|endoftext|>Cold.<|im_end|>\n",
     .answers = {"<repo_name>analysis<|endoftext|>We "
                 "call.<|im_end|><|im_start|>assistant<repo_name>commentary<|endoftext|>Wait.<|"
                 "im_end|>"
                 "<|im_start|>assistant<repo_name>commentary to=functions.stop "
                 "<constrain>json<|endoftext|>{\"a\":1}<call>",
                 "<repo_name>analysis<|endoftext|>t<|im_end|><|im_start|>assistant<repo_name>"
                 "final<|endoftext|>Hello there",
                 " to=functions.stop<repo_name>commentary json<|endoftext|>{}"},
     .events = {"H[We call.]T[Wait.]C[000000007|stop|{\"a\":1}]", "H[t]T[Hello there]",
                "C[000000007|stop|{}]"}},
};

static void add_texts(struct keywriter *k, const char *lengths_key, const char *text_key,
                      const char *const *list, size_t n)
{
    struct buffer text = {0};
    uint32_t lengths[16];
    for (size_t i = 0; i < n; i++) {
        lengths[i] = (uint32_t)strlen(list[i]);
        ck_assert(buffer_add(&text, list[i], lengths[i]));
    }
    keywriter_add(k, lengths_key, true, KEY_U32, lengths, n);
    keywriter_add(k, text_key, true, KEY_TEXT, text.p ? text.p : "", text.n);
    buffer_close(&text);
}

static void add_parts(struct keywriter *k, const struct rule *parts)
{
    uint32_t when[2 * FAMILY_PARTS];
    const char *texts[FAMILY_PARTS];
    size_t n = 0;
    for (; n < FAMILY_PARTS && parts[n].text; n++) {
        when[2 * n] = parts[n].mask, when[2 * n + 1] = parts[n].value;
        texts[n] = parts[n].text;
    }
    keywriter_add(k, "parts.when", true, KEY_U32, when, 2 * n);
    add_texts(k, "parts.lengths", "parts.text", texts, n);
}

struct keywriter tool_family_section(const struct tool_family *f)
{
    size_t n = 0, forms = 0, skip = 0, behind = 0;
    while (n < FAMILY_RULES && f->rules[n].text)
        n++;
    while (forms < 2 && f->forms[forms][0])
        forms++;
    while (skip < 4 && f->skip[skip])
        skip++;
    while (behind < 4 && f->behind[behind])
        behind++;
    struct keywriter k = rules_section(f->rules, n, 0);
    keywriter_u64(&k, "tools", 1);
    add_parts(&k, f->parts);
    keywriter_add(&k, "styles", true, KEY_U32, f->styles, f->n_styles);
    add_texts(&k, "answer.calls.lengths", "answer.calls.text", f->forms[0], 5 * forms);
    add_texts(&k, "answer.skip.lengths", "answer.skip.text", f->skip, skip);
    if (behind)
        add_texts(&k, "answer.behind.lengths", "answer.behind.text", f->behind, behind);
    keywriter_u64(&k, "answer.calls.flags", f->flags);
    keywriter_u64(&k, "calls.id", f->id_length);
    if (f->thought[0]) {
        keywriter_text(&k, "thought.begin", f->thought[0]);
        keywriter_text(&k, "thought.end", f->thought[1]);
    }
    ck_assert(!k.failed);
    return k;
}

struct chat *tool_family_open(const struct tool_family *f, struct keywriter *k)
{
    struct chat *c;
    struct tern_error e = {0};
    *k = tool_family_section(f);
    ck_assert_msg(chat_open(&c, rules_vocabulary.t, k->data, k->bytes, &e) == TERN_OK, "%s: %s",
                  f->name, e.text);
    return c;
}
