/* The weights files while the server uses them. They are mapped, so a file that somebody cuts or writes
 * again changes the weights of the running model: every answer after that would be wrong. */
#ifndef SERVE_MODEL_FILES_H
#define SERVE_MODEL_FILES_H

#include "app/serve/model/model_thread.h"

/* Watches the file from before the model is opened; TERN_IO when it cannot be opened. */
enum tern_status model_files_watch(struct scheduler *s, const char *path, struct tern_error *e);
/* From now on a file that is cut does not end the program. Call when the context is open. */
void model_files_outlive(struct scheduler *s);
/* One of the files has changed since. Then s->error says so, no new jobs are taken, and the model thread
 * will end all others. Ask after a step, before anything that came of it is shown. Any thread. */
bool model_files_changed(struct scheduler *s);
void model_files_close(struct scheduler *s);

#endif
