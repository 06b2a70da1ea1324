/* Nodes: conjunctions of literals, each known by its set. */
#ifndef SCHEMA_SCHEMA_NODE_H
#define SCHEMA_SCHEMA_NODE_H

#include "sample/schema/schema_parts.h"

bool nodes_open(struct schema *s); /* NODE_NONE, NODE_ANY */
/* The node of literals x[0..n), which it sorts. NODE_NONE where their types alone contradict. */
uint32_t node_of(struct schema *s, literal *x, uint32_t n);
/* No value has its type, or its scalars are empty and it can be neither array nor object. */
bool node_is_plainly_empty(struct schema *s, uint32_t node);
/* Puts a node in the queue of those to expand, once. */
void node_use(struct schema *s, uint32_t node);
/* Expands all nodes that the root needs. */
bool nodes_expand(struct schema *s);

#endif
