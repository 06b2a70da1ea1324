/* The text that a custom tool gets, out of the arguments of its call: {"input": "the text"}. */
#ifndef SERVE_CUSTOM_INPUT_H
#define SERVE_CUSTOM_INPUT_H

#include <jansson.h>
#include <stdbool.h>

#include "app/cli/growing_text.h"

struct custom_input {         /* zeroed: none yet */
    struct growing_text text; /* what is certain of it */
    size_t read, opening;     /* bytes of the arguments, and of what stands before the text */
    bool over;                /* the text is, or it is not where it should be */
};

/* arguments[0..n) is what there is of them: more of `text` may become certain. */
void custom_input_read(struct custom_input *c, const char *arguments, size_t n);
/* The whole text, which begins with `text`: the member `input`, or all of the arguments if there is none. cut: they
 * are not whole. NULL: no memory. */
json_t *custom_input_end(const struct custom_input *c, const char *arguments, bool cut);
void custom_input_close(struct custom_input *c);

#endif
