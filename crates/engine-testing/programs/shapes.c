#include "shapes.h"
#include "pointwise.h"

/* Whether a tensor broadcasts to these extents, right-aligned. */
static bool broadcasts(const struct tensor *t, const int64_t *dims, size_t rank) {
    if (t->rank > rank)
        return false;
    for (size_t i = 0; i < t->rank; i++)
        if (t->dims[i] != 1 && t->dims[i] != dims[rank + i - t->rank])
            return false;
    return true;
}

const char *node_fits(const struct graph *g, const struct node *n) {
    const struct tensor *t[MAX_OPERANDS] = {0};
    for (int i = 0; i < MAX_OPERANDS; i++)
        t[i] = n->operands[i] == NO_TENSOR ? NULL : &g->tensors[n->operands[i]];
    bool fits = true;
    switch (n->tag) {
    case OP_POINTWISE:
        for (int i = 0; i < pointwise_arity(n->mode); i++)
            fits = fits && t[i] && broadcasts(t[i], t[3]->dims, t[3]->rank);
        return fits ? NULL : "operands of a pointwise node do not fit";
    case OP_MATMUL: {
        const struct tensor *a = t[0], *b = t[1], *c = t[2];
        fits = a->rank >= 2 && b->rank >= 2 && c->rank >= 2 && a->rank <= c->rank && b->rank <= c->rank &&
               a->dims[a->rank - 1] == b->dims[b->rank - 2] && a->dims[a->rank - 2] == c->dims[c->rank - 2] &&
               b->dims[b->rank - 1] == c->dims[c->rank - 1];
        for (size_t i = 0; fits && i < 2; i++)
            for (size_t k = 0; k + 2 < t[i]->rank; k++)
                fits = fits && (t[i]->dims[k] == 1 || t[i]->dims[k] == c->dims[c->rank + k - t[i]->rank]);
        return fits ? NULL : "operands of a matmul do not fit";
    }
    case OP_CONVOLUTION_FWD:
        fits = t[0]->dims[0] == t[2]->dims[0] && t[1]->dims[0] == t[2]->dims[1];
        for (size_t i = 0; i < n->spatial && fits; i++) {
            int64_t free_space = t[0]->dims[i + 2] + n->pre[i] + n->post[i] - n->dilation[i] * (t[1]->dims[i + 2] - 1) - 1;
            fits = free_space >= 0 && free_space / n->stride[i] + 1 == t[2]->dims[i + 2];
        }
        return fits ? NULL : "operands of a convolution do not fit";
    default: {
        fits = t[0]->rank >= 2 && t[0]->rank == t[5]->rank && broadcasts(t[0], t[5]->dims, t[5]->rank);
        for (int i = 1; i < 5; i++) {
            size_t axis = t[i]->rank > 1 ? 1 : 0;
            fits = fits && (t[i]->rank == 0 || t[i]->dims[axis] == 1 || t[i]->dims[axis] == t[0]->dims[1]);
        }
        return fits ? NULL : "operands of a batch normalisation do not fit";
    }
    }
}

static int output_of(const struct node *n) {
    return n->operands[n->tag == OP_POINTWISE ? 3 : n->tag == OP_MATMUL || n->tag == OP_CONVOLUTION_FWD ? 2 : 5];
}

/* Extents of an output to which an input broadcasts, right-aligned, up to the output's last `tail` dimensions. */
static void widen(const struct tensor *in, struct tensor *out, size_t tail) {
    for (size_t i = 0; i + tail < in->rank && in->rank <= out->rank; i++) {
        int64_t *extent = &out->dims[out->rank + i - in->rank];
        *extent = *extent > in->dims[i] ? *extent : in->dims[i];
    }
}

const char *derive_shapes(struct graph *g) {
    for (size_t i = 0; i < g->node_count; i++) {
        const struct node *n = &g->nodes[i];
        struct tensor *out = &g->tensors[output_of(n)];
        const struct tensor *a = &g->tensors[n->operands[0]];
        if (!out->is_virtual)
            continue;
        size_t fixed = n->tag == OP_MATMUL ? 2 : n->tag == OP_CONVOLUTION_FWD ? out->rank : 0;
        for (size_t k = 0; k + fixed < out->rank; k++)
            out->dims[k] = 1;
        if (n->tag == OP_CONVOLUTION_FWD) {
            const struct tensor *w = &g->tensors[n->operands[1]];
            out->dims[0] = a->dims[0];
            out->dims[1] = w->dims[0];
            for (size_t k = 0; k < n->spatial; k++) {
                int64_t room = a->dims[k + 2] + n->pre[k] + n->post[k] - n->dilation[k] * (w->dims[k + 2] - 1) - 1;
                if (room < 0)
                    return "a convolution's filter is larger than its input";
                out->dims[k + 2] = room / n->stride[k] + 1;
            }
        } else if (n->tag == OP_MATMUL) {
            const struct tensor *b = &g->tensors[n->operands[1]];
            widen(a, out, 2);
            widen(b, out, 2);
            out->dims[out->rank - 2] = a->dims[a->rank - 2];
            out->dims[out->rank - 1] = b->dims[b->rank - 1];
        } else {
            int inputs = n->tag == OP_POINTWISE ? pointwise_arity(n->mode) : 1;
            for (int k = 0; k < inputs; k++)
                widen(&g->tensors[n->operands[k]], out, 0);
        }
    }
    return NULL;
}

bool graph_is_supported(const struct graph *g) {
    for (size_t i = 0; i < g->node_count; i++) {
        if (g->nodes[i].tag == OP_POINTWISE && pointwise_arity(g->nodes[i].mode) == 0)
            return false;
        if (node_fits(g, &g->nodes[i]))
            return false;
    }
    return true;
}
