/* What holds of the store of prefixes and of the pages that it shares with sequences, whatever was done. */
#ifndef TESTS_PREFIX_CHECK_H
#define TESTS_PREFIX_CHECK_H

#include "engine/context.h"

void prefix_check(const tern_context *c);

#endif
