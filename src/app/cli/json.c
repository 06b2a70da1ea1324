/* JSON: see json.h. */
#include "app/cli/json.h"

#include "app/cli/utf8.h"

#include <stdio.h>

void json_text(json_put put, void *arg, const char *text, size_t n)
{
    for (size_t i = 0, bytes; i < n; i += bytes) {
        char escape[8];
        unsigned char c = (unsigned char)text[i];
        bytes = utf8_character(text + i, n - i);
        if (bytes && c >= 32 && c != '"' && c != '\\') {
            put(arg, text + i, bytes);
            continue;
        }
        put(arg, escape, (size_t)snprintf(escape, sizeof escape, "\\u%04x", bytes ? c : 0xfffdu));
        bytes += !bytes;
    }
}
