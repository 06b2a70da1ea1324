/* Arguments that stand one by one in an answer, bound to the members of a schema's object. */
#ifndef CONSTRAINT_TOOL_ARGUMENTS_H
#define CONSTRAINT_TOOL_ARGUMENTS_H

#include "sample/recognize/script.h"
#include "text/answer_form.h"
#include "text/tools.h"

struct tool_arguments {
    const struct shapes *shapes;
    struct script *script;
    const struct answer_list *list;
    const struct tools *tools;
    const char *tool; /* its name */
};

/* Edges from state `from` to state `to` that write the members of `node`, an object: named ones in the
 * schema's order (or sorted, where the list is). Others are not written.
 *
 * A text without quotes holds nothing that would end it. Where the schema allows a text and other values, it is
 * no text that looks like another value, and no array or object. TERN_USAGE: the notation has no form for
 * what the schema demands. */
enum tern_status tool_arguments_put(const struct tool_arguments *a, uint32_t node, uint32_t from,
                                    uint32_t to, struct tern_error *e);

#endif
