/* Which shapes the operands of a node may have. */
#ifndef SHAPES_H
#define SHAPES_H

#include "graph.h"

/* Null, or why the operands do not fit each other. */
const char *node_fits(const struct graph *graph, const struct node *node);
/* Whether every node can be executed, with the shapes of the graph. */
bool graph_is_supported(const struct graph *graph);
/* Derives the extents of virtual tensors from those of their nodes' inputs, after others were changed. Strides stay. Null, or what is
 * wrong. */
const char *derive_shapes(struct graph *graph);

#endif
