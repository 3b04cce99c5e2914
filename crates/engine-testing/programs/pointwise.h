/* The functions of pointwise nodes, as the project's text on operations tells them. */
#ifndef POINTWISE_H
#define POINTWISE_H

#include "graph.h"

/* Number of inputs of a pointwise mode, 0 for one that is not executed here. */
int pointwise_arity(int mode);
double pointwise_apply(const struct node *node, double a, double b, double c);

#endif
