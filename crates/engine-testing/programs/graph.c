#include "graph.h"
#include "flat.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Slots of a pointwise node's uids: two inputs of three may be left out, and then so is the field. */
static const uint8_t POINTWISE_UIDS[] = {5, 6, 7, 8};

int graph_find(const struct graph *graph, int64_t uid) {
    for (size_t i = 0; i < graph->tensor_count; i++)
        if (graph->tensors[i].uid == uid)
            return (int)i;
    return NO_TENSOR;
}

void graph_free(struct graph *graph) {
    free(graph->tensors);
    free(graph->nodes);
    *graph = (struct graph){0};
}

/* Copies at most `max` numbers of a vector, and returns how many it has; `max + 1` if it has more. */
static size_t numbers(struct flat *f, struct table t, unsigned slot, int64_t *to, size_t max) {
    struct vector v = flat_vector(f, t, slot, 8);
    if (v.count > max)
        return max + 1;
    for (size_t i = 0; i < v.count; i++)
        to[i] = flat_i64_at(f, v.at + 8 * i);
    return v.count;
}

/* The value of a tensor, as an element of the tensor's type. Halves are written as floats on the wire. */
static const char *read_value(struct flat *f, struct table t, struct tensor *tensor) {
    static const uint8_t SIZES[] = {0, 4, 4, 4, 1, 4, 8, 8, 1};
    static const uint8_t TYPES[] = {0, TYPE_FLOAT, TYPE_FLOAT, TYPE_FLOAT, TYPE_UINT8, TYPE_INT32, TYPE_DOUBLE, TYPE_INT64, TYPE_BOOLEAN};
    unsigned tag = flat_u8(f, t, 6);
    if (tag == 0)
        return NULL;
    if (tag >= sizeof SIZES)
        return "bad graph: a value of an unknown kind";
    size_t at = flat_target(f, t, 7, SIZES[tag]);
    if (!at)
        return "bad graph: a kind of value without a value";
    tensor->has_value = true;
    if (TYPES[tag] == tensor->type)
        memcpy(tensor->value, f->data + at, SIZES[tag]);
    else
        element_store(tensor->type, element_load(TYPES[tag], f->data + at), tensor->value);
    return NULL;
}

static const char *read_tensor(struct flat *f, struct table t, struct tensor *tensor) {
    tensor->uid = flat_i64(f, t, 0);
    tensor->type = flat_u8(f, t, 2);
    tensor->rank = numbers(f, t, 4, tensor->dims, MAX_RANK);
    size_t strides = numbers(f, t, 3, tensor->strides, MAX_RANK);
    tensor->is_virtual = flat_u8(f, t, 5) != 0;
    tensor->is_runtime = flat_u8(f, t, 8) != 0;
    if (tensor->rank > MAX_RANK || strides != tensor->rank)
        return "unsupported graph: a tensor of too many dimensions, or of other strides than dimensions";
    if (element_size(tensor->type) == 0)
        return "unsupported graph: a tensor of a type that this plugin does not know";
    int64_t reach = 1;
    for (size_t i = 0; i < tensor->rank; i++) {
        int64_t way;
        if (tensor->dims[i] < 1 || tensor->strides[i] < 0)
            return "bad graph: an extent below 1 or a negative stride";
        if (__builtin_mul_overflow(tensor->dims[i] - 1, tensor->strides[i], &way) || __builtin_add_overflow(reach, way, &reach))
            return "bad graph: a tensor larger than the address space";
    }
    if (reach > INT64_MAX / 16)
        return "bad graph: a tensor larger than the address space";
    return read_value(f, t, tensor);
}

static const char *operand(const struct graph *graph, struct flat *f, struct table t, unsigned slot, bool may_be_absent, int *to) {
    *to = NO_TENSOR;
    if (may_be_absent && !flat_field(f, t, slot, 8))
        return NULL;
    *to = graph_find(graph, flat_i64(f, t, slot));
    return *to == NO_TENSOR ? "bad graph: a node names a uid that no tensor has" : NULL;
}

static const char *read_convolution(struct flat *f, struct table t, const struct graph *graph, struct node *node) {
    int mode = flat_u8(f, t, 7);
    node->spatial = numbers(f, t, 3, node->pre, MAX_SPATIAL);
    bool same = numbers(f, t, 4, node->post, MAX_SPATIAL) == node->spatial && numbers(f, t, 5, node->stride, MAX_SPATIAL) == node->spatial &&
                numbers(f, t, 6, node->dilation, MAX_SPATIAL) == node->spatial;
    if (node->spatial < 1 || node->spatial > MAX_SPATIAL || !same || (mode != 1 && mode != 2))
        return "bad graph: a convolution's parameters";
    for (size_t i = 0; i < 3; i++)
        if (graph->tensors[node->operands[i]].rank != node->spatial + 2)
            return "bad graph: a convolution's ranks";
    for (size_t i = 0; i < node->spatial; i++)
        if (node->stride[i] < 1 || node->dilation[i] < 1 || node->pre[i] < 0 || node->post[i] < 0)
            return "bad graph: a convolution's parameters";
    const struct tensor *x = &graph->tensors[node->operands[0]], *w = &graph->tensors[node->operands[1]];
    if (x->dims[1] % w->dims[1] || w->dims[0] % (x->dims[1] / w->dims[1]))
        return "bad graph: a convolution's channels";
    node->flip = mode == 1;
    return NULL;
}

static const char *read_node(struct flat *f, struct table t, const struct graph *graph, struct node *node) {
    node->tag = flat_u8(f, t, 2);
    struct table op = flat_table(f, t, 3);
    const char *why = NULL;
    unsigned uids = 0;
    switch (node->tag) {
    case OP_BATCHNORM_INFERENCE:
        uids = 6;
        break;
    case OP_BATCHNORM_INFERENCE_VARIANCE:
        uids = 7;
        break;
    case OP_CONVOLUTION_FWD:
    case OP_MATMUL:
        uids = 3;
        break;
    case OP_POINTWISE:
        node->mode = flat_u8(f, op, 0);
        node->relu_lower = flat_f32(f, op, 1, 0);
        node->relu_upper = flat_f32(f, op, 2, INFINITY);
        node->relu_slope = flat_f32(f, op, 3, 0);
        node->swish_beta = flat_f32(f, op, 9, 1);
        node->elu_alpha = flat_f32(f, op, 10, 1);
        node->softplus_beta = flat_f32(f, op, 11, 1);
        for (unsigned i = 0; i < sizeof POINTWISE_UIDS && !why; i++)
            why = operand(graph, f, op, POINTWISE_UIDS[i], i == 1 || i == 2, &node->operands[i]);
        return why;
    default:
        return "unsupported graph: an operation that this plugin does not know";
    }
    for (unsigned i = 0; i < uids && !why; i++)
        why = operand(graph, f, op, i, false, &node->operands[i]);
    if (!why && node->tag == OP_CONVOLUTION_FWD)
        why = read_convolution(f, op, graph, node);
    return why;
}

const char *graph_read(const void *bytes, size_t size, struct graph *graph) {
    struct flat f = {.data = bytes, .size = bytes ? size : 0};
    *graph = (struct graph){0};
    struct table root = flat_root(&f);
    struct vector tensors = flat_vector(&f, root, 4, 4), nodes = flat_vector(&f, root, 5, 4);
    if (f.bad)
        return "bad graph: it is too short, or an offset leads out of it";
    if (!tensors.count || !nodes.count)
        return "bad graph: no tensors or no nodes";
    graph->tensors = calloc(tensors.count, sizeof *graph->tensors);
    graph->nodes = calloc(nodes.count, sizeof *graph->nodes);
    const char *why = graph->tensors && graph->nodes ? NULL : "no memory for a graph";
    for (size_t i = 0; i < tensors.count && !why; i++, graph->tensor_count++)
        why = read_tensor(&f, flat_table_at(&f, tensors.at + 4 * i), &graph->tensors[i]);
    for (size_t i = 0; i < nodes.count && !why; i++, graph->node_count++)
        why = read_node(&f, flat_table_at(&f, nodes.at + 4 * i), graph, &graph->nodes[i]);
    if (f.bad)
        why = "bad graph: it is too short, or an offset leads out of it";
    if (why)
        graph_free(graph);
    return why;
}
