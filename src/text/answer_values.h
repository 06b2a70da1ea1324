/* Arguments of calls, from whatever notation a model wrote them in, as JSON. */
#ifndef TEXT_ANSWER_VALUES_H
#define TEXT_ANSWER_VALUES_H

#include "text/buffer.h"
#include "text/thoughts.h"
#include "text/tools.h"

/* What a schema says of a value that stands without quotes */
enum answer_type { ANSWER_ANY_TYPE, ANSWER_IS_TEXT, ANSWER_NO_TEXT };

/* Of argument `key` of a tool; `tools` may be NULL. */
enum answer_type answer_type_of(const struct tools *tools, const char *tool, struct mark key);

/* Appends a value in JSON's, Python's or Gemma 4's notation as JSON; `quote`: Gemma's quote as it is
 * spelled, or empty. False, and nothing appended: it is none, or there is no memory. */
bool answer_put_value(struct mark value, struct mark quote, struct buffer *out);

/* Appends what a text without quotes stands for. False: no memory. */
bool answer_put_bare(struct mark value, enum answer_type type, struct buffer *out);

/* Is it a JSON object, and nothing else? */
bool answer_is_object(struct mark text);

#endif
