/* Naive execution of a graph in host memory. */
#ifndef INTERPRETER_H
#define INTERPRETER_H

#include "graph.h"

/* Executes all nodes, in their order. `memory` has one pointer a tensor, to the first element of a device tensor or of a scalar; those of
 * virtual tensors are null, and stand for memory of this call. Returns null, or what was wrong. */
const char *interpret(const struct graph *graph, void **memory);

#endif
