/* --chat: a conversation, from a terminal or as one question from a pipe. */
#ifndef RUN_CHAT_LOOP_H
#define RUN_CHAT_LOOP_H

#include "app/run/run_options.h"

/* True when the options ask for a chat, or leave nothing else to do at a terminal. */
bool chat_loop_wanted(const tern_model *model, const struct run_options *o);

enum tern_status chat_loop_run(tern_model *model, struct run_options *o, double load_seconds,
                               struct tern_error *e);

#endif
