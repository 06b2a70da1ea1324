/* Does a JSON value match a node of shapes? As the recognizer should, but on a whole tree of values, by
 * trying. Slow where shapes are many; for tests. */
#ifndef SUPPORT_SHAPE_CHECK_H
#define SUPPORT_SHAPE_CHECK_H

#include "sample/schema/shape.h"
#include "text/json_read.h"

/* `any_order`: the members may come in any order. */
bool shape_check(const struct shapes *s, uint32_t node, const struct json *j, uint32_t value,
                 bool any_order);

#endif
