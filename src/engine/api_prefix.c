/* tern_prefix_*: what sequences evaluated is found again. */
#include <string.h>

#include "engine/context.h"

uint32_t tern_prefix_find(tern_context *c, uint32_t seq, const tern_token *tokens, size_t n)
{
    (void)tokens, (void)n;
    return tern_seq_keep(c, seq, 0);
}

uint32_t tern_prefix_reach(const tern_context *c, const tern_token *tokens, size_t n)
{
    (void)c, (void)tokens, (void)n;
    return 0;
}

void tern_prefix_keep(tern_context *c, uint32_t seq)
{
    (void)c, (void)seq;
}

void tern_prefix_clear(tern_context *c)
{
    (void)c;
}

void tern_prefix_info(const tern_context *c, struct tern_prefix_info *info)
{
    (void)c;
    memset(info, 0, sizeof *info);
}

enum tern_status tern_prefix_save(tern_context *c, int fd, struct tern_error *e)
{
    (void)c, (void)fd;
    return error_set(e, TERN_USAGE, "the context has no store of prefixes");
}

enum tern_status tern_prefix_load(tern_context *c, int fd, struct tern_error *e)
{
    (void)c, (void)fd;
    return error_set(e, TERN_USAGE, "the context has no store of prefixes");
}
