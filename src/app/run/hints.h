/* What people type who know another program, and what it is called here. */
#ifndef RUN_HINTS_H
#define RUN_HINTS_H

/* The sentence for an argument (`-ngl`, `--chat=x`) that another program knows, or NULL. */
const char *hints_find(const char *argument);

/* The sentence when `value` of the option spelled `spelled` shows that llama2.c's option of the
 * same letter is meant (-t 0.8, -p 0.9, -m chat), or NULL. */
const char *hints_value(const char *spelled, const char *value);

/* --help-llama2c, written to standard output. */
void hints_help_llama2c(void);

#endif
