#include "interpreter.h"
#include "pointwise.h"
#include "shapes.h"
#include <math.h>
#include <stdlib.h>

/* One tensor during an execution. */
struct view {
    const struct tensor *t;
    char *at;
};

static struct view view_of(const struct graph *g, void **memory, int ix) {
    return ix == NO_TENSOR ? (struct view){0} : (struct view){&g->tensors[ix], memory[ix]};
}

static void *element(struct view v, const int64_t *index) {
    int64_t offset = 0;
    for (size_t i = 0; i < v.t->rank; i++)
        offset += index[i] * v.t->strides[i];
    return v.at + offset * (int64_t)element_size(v.t->type);
}

static double load(struct view v, const int64_t *index) {
    return element_load(v.t->type, element(v, index));
}

static void store(struct view v, const int64_t *index, double x) {
    element_store(v.t->type, x, element(v, index));
}

/* The element that broadcasts to an index of a tensor of `rank` dimensions, right-aligned. */
static double load_broadcast(struct view v, const int64_t *index, size_t rank) {
    int64_t own[MAX_RANK] = {0};
    for (size_t i = 0; i < v.t->rank; i++) {
        size_t from = rank + i - v.t->rank;
        own[i] = v.t->dims[i] == 1 ? 0 : index[from];
    }
    return load(v, own);
}

/* Counts an index on; false after the last. */
static bool next(int64_t *index, const int64_t *dims, size_t rank) {
    for (size_t i = rank; i-- > 0;) {
        if (++index[i] < dims[i])
            return true;
        index[i] = 0;
    }
    return false;
}

static void pointwise(const struct graph *g, const struct node *n, void **memory) {
    struct view a = view_of(g, memory, n->operands[0]), b = view_of(g, memory, n->operands[1]);
    struct view c = view_of(g, memory, n->operands[2]), out = view_of(g, memory, n->operands[3]);
    int inputs = pointwise_arity(n->mode);
    int64_t index[MAX_RANK] = {0};
    size_t rank = out.t->rank;
    do {
        double x = load_broadcast(a, index, rank), y = inputs > 1 ? load_broadcast(b, index, rank) : 0;
        double z = inputs > 2 ? load_broadcast(c, index, rank) : 0;
        store(out, index, pointwise_apply(n, x, y, z));
    } while (next(index, out.t->dims, rank));
}

static void convolution(const struct graph *g, const struct node *n, void **memory) {
    struct view x = view_of(g, memory, n->operands[0]), w = view_of(g, memory, n->operands[1]), y = view_of(g, memory, n->operands[2]);
    int64_t channels = w.t->dims[1], per_group = w.t->dims[0] / (x.t->dims[1] / channels);
    int64_t out[MAX_RANK] = {0};
    do {
        /* Channel of the filter, and taps. */
        int64_t tap[MAX_RANK] = {0}, in[MAX_RANK] = {0}, filter[MAX_RANK] = {0};
        double sum = 0;
        do {
            bool inside = true;
            in[0] = out[0];
            in[1] = out[1] / per_group * channels + tap[0];
            filter[0] = out[1];
            filter[1] = tap[0];
            for (size_t i = 0; i < n->spatial; i++) {
                in[i + 2] = out[i + 2] * n->stride[i] - n->pre[i] + tap[i + 1] * n->dilation[i];
                inside = inside && in[i + 2] >= 0 && in[i + 2] < x.t->dims[i + 2];
                filter[i + 2] = n->flip ? w.t->dims[i + 2] - 1 - tap[i + 1] : tap[i + 1];
            }
            if (inside)
                sum += load(x, in) * load(w, filter);
        } while (next(tap, w.t->dims + 1, n->spatial + 1));
        store(y, out, sum);
    } while (next(out, y.t->dims, y.t->rank));
}

/* The element of a matrix's batch that belongs to a batch of the product, right-aligned. */
static double load_matrix(struct view v, const int64_t *batch, size_t rank, int64_t row, int64_t column) {
    int64_t index[MAX_RANK] = {0};
    for (size_t i = 0; i + 2 < v.t->rank; i++)
        index[i] = v.t->dims[i] == 1 ? 0 : batch[rank + i - v.t->rank];
    index[v.t->rank - 2] = row;
    index[v.t->rank - 1] = column;
    return load(v, index);
}

static void matmul(const struct graph *g, const struct node *n, void **memory) {
    struct view a = view_of(g, memory, n->operands[0]), b = view_of(g, memory, n->operands[1]), c = view_of(g, memory, n->operands[2]);
    size_t rank = c.t->rank;
    int64_t index[MAX_RANK] = {0};
    do {
        double sum = 0;
        for (int64_t k = 0; k < a.t->dims[a.t->rank - 1]; k++)
            sum += load_matrix(a, index, rank, index[rank - 2], k) * load_matrix(b, index, rank, k, index[rank - 1]);
        store(c, index, sum);
    } while (next(index, c.t->dims, rank));
}

/* A parameter of a channel: `[C]`, or of x's rank with all extents but the second equal to 1. */
static double of_channel(struct view v, int64_t channel) {
    int64_t index[MAX_RANK] = {0};
    size_t axis = v.t->rank > 1 ? 1 : 0;
    index[axis] = v.t->rank && v.t->dims[axis] > 1 ? channel : 0;
    return load(v, index);
}

static void batchnorm(const struct graph *g, const struct node *n, void **memory) {
    struct view v[MAX_OPERANDS];
    bool has_variance = n->tag == OP_BATCHNORM_INFERENCE_VARIANCE;
    for (int i = 0; i < (has_variance ? 7 : 6); i++)
        v[i] = view_of(g, memory, n->operands[i]);
    const int64_t first[MAX_RANK] = {0};
    int64_t index[MAX_RANK] = {0};
    double epsilon = has_variance ? load(v[6], first) : 0;
    do {
        int64_t channel = index[1];
        double inverse = of_channel(v[2], channel);
        if (has_variance)
            inverse = 1 / sqrt(inverse + epsilon);
        store(v[5], index, (load(v[0], index) - of_channel(v[1], channel)) * inverse * of_channel(v[3], channel) + of_channel(v[4], channel));
    } while (next(index, v[5].t->dims, v[5].t->rank));
}

static size_t span_bytes(const struct tensor *t) {
    size_t span = 1;
    for (size_t i = 0; i < t->rank; i++)
        span += (size_t)((t->dims[i] - 1) * t->strides[i]);
    return span * element_size(t->type);
}

const char *interpret(const struct graph *g, void **memory) {
    const char *why = NULL;
    for (size_t i = 0; i < g->node_count && !why; i++)
        why = node_fits(g, &g->nodes[i]);
    for (size_t i = 0; i < g->tensor_count && !why; i++) {
        if (g->tensors[i].is_virtual && !(memory[i] = calloc(1, span_bytes(&g->tensors[i]))))
            why = "no memory for a virtual tensor";
        else if (!memory[i])
            why = "a tensor without memory";
    }
    for (size_t i = 0; i < g->node_count && !why; i++) {
        const struct node *n = &g->nodes[i];
        if (n->tag == OP_POINTWISE)
            pointwise(g, n, memory);
        else if (n->tag == OP_CONVOLUTION_FWD)
            convolution(g, n, memory);
        else if (n->tag == OP_MATMUL)
            matmul(g, n, memory);
        else
            batchnorm(g, n, memory);
    }
    for (size_t i = 0; i < g->tensor_count; i++)
        if (g->tensors[i].is_virtual) {
            free(memory[i]);
            memory[i] = NULL;
        }
    return why;
}
