/* The script of answers that may call tools: free text, and calls as the model's chat template reads them,
 * each bound to a tool and the schema of its parameters. */
#ifndef CONSTRAINT_TOOL_SCRIPT_H
#define CONSTRAINT_TOOL_SCRIPT_H

#include "sample/constraint/spelling.h"
#include "sample/schema/schema.h"
#include "sample/recognize/script.h"
#include "text/chat.h"

struct tool_script_params {
    const char *tools; /* JSON, as a message of role "tools" has it */
    size_t n;
    /* NULL or "auto": text, and calls if the model begins one; "none": text without calls; "required":
     * calls; else the name of a function: a call of that. Thoughts may stand before. */
    const char *choice;
    const char *schema; /* [n_schema] JSON: a text without calls is a value of it. NULL: it is free */
    size_t n_schema;
    bool parallel; /* several calls, where the template knows that */
    bool thinks;   /* the template has begun a thought */
    unsigned schema_flags;
    const struct spelling *spelling; /* of the end tokens, which are in no thought */
};

/* `shapes` and `script` are for json_recognizer_open; there is nothing to close after an error. Budget
 * and notes as of schema_compile. TERN_USAGE where the template calls no tools, a function is not among
 * them, or a schema is refused. */
enum tern_status tool_script_open(struct shapes *shapes, struct script *script,
                                  const struct chat *c, const struct tool_script_params *p,
                                  struct budget *budget, struct schema_notes *notes,
                                  struct tern_error *e);

#endif
