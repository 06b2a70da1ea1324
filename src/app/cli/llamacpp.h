/* Options of llama.cpp's programs that mean nothing here. */
#ifndef CLI_LLAMACPP_H
#define CLI_LLAMACPP_H

/* What to tell a person who gives `argument` ("-ngl", "--flash-attn=on"), or NULL. */
const char *llamacpp_hint(const char *argument);

#endif
