/* The handlers of all routes (routes.c), each in the file that its comment names. */
#ifndef SERVE_HANDLERS_H
#define SERVE_HANDLERS_H

#include "app/serve/server.h"

/* status_pages.c */
void handle_health(struct server *s, struct exchange *x);
void handle_metrics(struct server *s, struct exchange *x);
void handle_slots(struct server *s, struct exchange *x);

/* page_handler.c */
void handle_page(struct server *s, struct exchange *x);

/* chat_completions.c, completions.c, embeddings.c */
void handle_chat(struct server *s, struct exchange *x);
void handle_completions(struct server *s, struct exchange *x);
void handle_embeddings(struct server *s, struct exchange *x);

/* token_pages.c */
void handle_tokenize(struct server *s, struct exchange *x);
void handle_detokenize(struct server *s, struct exchange *x);
void handle_apply_template(struct server *s, struct exchange *x);

/* token_attention.c */
void handle_attention(struct server *s, struct exchange *x);

/* model_pages.c */
void handle_models(struct server *s, struct exchange *x);
void handle_model(struct server *s, struct exchange *x);
void handle_props(struct server *s, struct exchange *x);
void handle_openapi(struct server *s, struct exchange *x);

/* responses.c */
void handle_responses(struct server *s, struct exchange *x);
void handle_input_tokens(struct server *s, struct exchange *x);

/* messages.c */
void handle_messages(struct server *s, struct exchange *x);
void handle_count_tokens(struct server *s, struct exchange *x);

#endif
