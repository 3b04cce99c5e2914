/* An op graph, read from hipDNN's bytes. Numbers of slots, tags and enumerators are those of the project's notes on the wire format. */
#ifndef GRAPH_H
#define GRAPH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { MAX_RANK = 8, MAX_OPERANDS = 7, MAX_SPATIAL = 3, NO_TENSOR = -1 };

enum data_type {
    TYPE_FLOAT = 1,
    TYPE_HALF = 2,
    TYPE_BFLOAT16 = 3,
    TYPE_DOUBLE = 4,
    TYPE_UINT8 = 5,
    TYPE_INT32 = 6,
    TYPE_INT8 = 7,
    TYPE_INT64 = 15,
    TYPE_BOOLEAN = 16
};

enum op_tag {
    OP_BATCHNORM_INFERENCE = 1,
    OP_POINTWISE = 2,
    OP_CONVOLUTION_FWD = 5,
    OP_BATCHNORM_INFERENCE_VARIANCE = 8,
    OP_MATMUL = 9
};

struct tensor {
    int64_t uid;
    int type;
    size_t rank;
    int64_t dims[MAX_RANK], strides[MAX_RANK];
    bool is_virtual;
    /* A host scalar that may come with each execution. */
    bool is_runtime;
    /* The graph has a value: a constant's, or a default. It stands in `value` as an element of `type`. */
    bool has_value;
    uint8_t value[8];
};

struct node {
    int tag;
    /* Positions of tensors in the graph, in the order of the op's slots, outputs too; NO_TENSOR for one that is left out. */
    int operands[MAX_OPERANDS];
    /* Pointwise: the mode and its parameters. */
    int mode;
    float relu_lower, relu_upper, relu_slope, swish_beta, elu_alpha, softplus_beta;
    /* Convolution. */
    size_t spatial;
    int64_t pre[MAX_SPATIAL], stride[MAX_SPATIAL], post[MAX_SPATIAL], dilation[MAX_SPATIAL];
    bool flip;
};

struct graph {
    struct tensor *tensors;
    struct node *nodes;
    size_t tensor_count, node_count;
};

/* Reads a graph. Returns null, or why it was not read; then `graph` is empty. The bytes are not needed afterwards. */
const char *graph_read(const void *bytes, size_t size, struct graph *graph);
void graph_free(struct graph *graph);

/* Bytes of one element, 0 for a type that is not supported. */
size_t element_size(int type);
double element_load(int type, const void *at);
void element_store(int type, double value, void *at);
int graph_find(const struct graph *graph, int64_t uid);

#endif
