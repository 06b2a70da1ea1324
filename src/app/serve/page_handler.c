/* The page: the files of src/app/serve/page as one answer that needs no others. Its policy allows only
 * the script and the style that carry this answer's nonce, so nothing that a text brings can run. */
#include "app/serve/http/exchange.h"
#include "app/serve/handlers.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>

/* Made into strings by the Makefile: NAME.EXT is page_NAME_EXT. */
extern const char page_head_html[];
extern const char page_chat_css[];
extern const char page_body_html[];
extern const char page_dom_js[];
extern const char page_tree_js[];
extern const char page_store_js[];
extern const char page_api_js[];
extern const char page_markdown_js[];
extern const char page_flow_js[];
extern const char page_card_js[];
extern const char page_message_js[];
extern const char page_settings_js[];
extern const char page_attention_js[];
extern const char page_chat_js[];

enum { NONCE_BYTES = 16 };

static bool make_nonce(char text[2 * NONCE_BYTES + 1])
{
    unsigned char bytes[NONCE_BYTES];
    if (getrandom(bytes, sizeof bytes, 0) != (ssize_t)sizeof bytes)
        return false;
    for (int i = 0; i < NONCE_BYTES; i++)
        snprintf(text + 2 * i, 3, "%02x", bytes[i]);
    return true;
}

/* The page, malloced; NULL: no memory */
static char *write_page(const char *nonce, size_t *n)
{
    const char *const scripts[] = {page_dom_js,      page_tree_js, page_store_js, page_api_js,
                                   page_markdown_js, page_flow_js, page_card_js,  page_message_js,
                                   page_settings_js, page_attention_js, page_chat_js};
    char *text = NULL;
    FILE *f = open_memstream(&text, n);
    if (!f)
        return NULL;
    fprintf(f, "%s<style nonce=\"%s\">\n%s</style>\n<body>\n%s", page_head_html, nonce,
            page_chat_css, page_body_html);
    fprintf(f, "<script nonce=\"%s\">\n\"use strict\";\n", nonce);
    for (size_t i = 0; i < sizeof scripts / sizeof *scripts; i++)
        fputs(scripts[i], f);
    fputs("</script>\n</body>\n</html>\n", f);
    if (fclose(f)) {
        free(text);
        return NULL;
    }
    return text;
}

void handle_page(struct server *s, struct exchange *x)
{
    char nonce[2 * NONCE_BYTES + 1], policy[512];
    size_t n = 0;
    char *text = make_nonce(nonce) ? write_page(nonce, &n) : NULL;
    (void)s;
    if (!text) {
        struct fault f = {0};
        fault_set(&f, 500, NULL, NULL, NULL, "There is no memory for the page.");
        exchange_fault(x, &f);
        return;
    }
    snprintf(policy, sizeof policy,
             "default-src 'none'; script-src 'nonce-%s'; style-src 'nonce-%s'; img-src data:; "
             "connect-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'; "
             "require-trusted-types-for 'script'; trusted-types 'none'",
             nonce, nonce);
    exchange_add_header(x, "Content-Security-Policy", policy);
    exchange_add_header(x, "X-Content-Type-Options", "nosniff");
    exchange_add_header(x, "Referrer-Policy", "no-referrer");
    exchange_add_header(x, "Cross-Origin-Opener-Policy", "same-origin");
    exchange_add_header(x, "Cache-Control", "no-store"); /* a nonce serves once */
    exchange_reply(x, 200, "text/html; charset=utf-8", text, n);
    free(text);
}
