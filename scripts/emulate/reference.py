"""What a graph computes, in double, with a bound on how far a right execution may be off.

Tensors are flat lists in the order of their dimensions, whatever their strides. Beside each value stands the error that it may have: sums
of n products of magnitudes m may be off by (n + 2) m u, where u is the unit of the type they run in; storing rounds once more; what a node
does not do itself it passes on from its operands.
"""

import math
from itertools import product
from operator import mul

import elements

# What functions may be off by, in units of the type that they run in: the four operations round once.
ROUNDED_ONCE = {"add", "sub", "mul", "div", "reciprocal", "sqrt"}
FUNCTION_UNITS = 8


class Unknown(Exception):
    """A graph that this reference does not compute."""


class Tensor:
    def __init__(self, dims, values, errors=None):
        self.dims = dims
        self.values = values
        # None: exact.
        self.errors = errors if errors and any(errors) else None


def strides_of(dims):
    strides, step = [], 1
    for d in reversed(dims):
        strides.append(step)
        step *= d
    return strides[::-1]


def offsets(dims, strides, base=0):
    """Where the elements lie, in the order of the dimensions."""
    found = [base]
    for d, s in zip(dims, strides):
        found = [at + i * s for at in found for i in range(d)]
    return found


def broadcast(tensor, dims, channels=False):
    """Offsets of a tensor's elements along the dimensions of a result. `channels`: a vector belongs to dimension 1."""
    own = list(tensor.dims)
    if channels and len(own) == 1 and len(dims) > 1:
        own = [1, own[0]] + [1] * (len(dims) - 2)
    own = [1] * (len(dims) - len(own)) + own
    return offsets(dims, [0 if o == 1 else s for o, s in zip(own, strides_of(own))])


def unit_of(node, graph, operands, out):
    """The unit of the type that a node runs in: double if anything is that wide, float otherwise."""
    compute = node["compute_data_type"]
    types = [graph.types[uid] for uid in operands] + [graph.types[out], graph.compute if compute == "unset" else compute]
    return 2.0**-53 if any(t in ("double", "int32", "int64") for t in types) else 2.0**-24


def dot(x, y, xs, ys, unit):
    """Sum of x[i] y[j] over pairs of offsets, and its error."""
    a = [x.values[i] for i in xs]
    b = [y.values[j] for j in ys]
    terms = list(map(mul, a, b))
    error = (len(terms) + 2) * unit * sum(map(abs, terms))
    if x.errors or y.errors:
        ea = [x.errors[i] for i in xs] if x.errors else [0.0] * len(a)
        eb = [y.errors[j] for j in ys] if y.errors else [0.0] * len(b)
        error += sum(abs(p) * f + abs(q) * e + e * f for p, q, e, f in zip(a, b, ea, eb))
    return math.fsum(terms), error


# ---- Convolutions ----


def taps(node, x, w, y):
    """For each spatial dimension the triples of image, filter and result positions that belong together."""
    p = node["parameters"]
    flip = p["conv_mode"] == "CONVOLUTION"
    found = []
    for i in range(len(x) - 2):
        size, taps, results = x[i + 2], w[i + 2], y[i + 2]
        pad, stride, dilation = p["pre_padding"][i], p["stride"][i], p["dilation"][i]
        triples = []
        for at in range(results):
            for tap in range(taps):
                position = at * stride - pad + tap * dilation
                if 0 <= position < size:
                    triples.append((position, taps - 1 - tap if flip else tap, at))
        found.append(triples)
    return found


def convolution(node, xd, wd, yd, which):
    """Pairs of operand offsets for each element of image (0), filter (1) or result (2) of a convolution."""
    groups = xd[1] // wd[1]
    filters = wd[0] // groups
    strides = [strides_of(d) for d in (xd, wd, yd)]
    left, right = [t for t in (0, 1, 2) if t != which]
    # Spatial: result position -> pairs of operand offsets.
    space = {}
    for triples in product(*taps(node, xd, wd, yd)):
        at = [sum(t[of] * strides[of][d + 2] for d, t in enumerate(triples)) for of in (0, 1, 2)]
        space.setdefault(at[which], []).append((at[left], at[right]))
    depth = {0: filters, 1: xd[0], 2: wd[1]}[which]
    own = [xd, wd, yd][which]
    for first, second in product(range(own[0]), range(own[1])):
        # Batch entry, group, channel of the group, filter of the group; None for what is summed over.
        if which == 0:
            n, g, c, k = first, second // wd[1], second % wd[1], None
        elif which == 1:
            n, g, c, k = None, first // filters, second, first % filters
        else:
            n, g, c, k = first, second // filters, None, second % filters
        bases = []
        for s in range(depth):
            nn, cc, kk = s if n is None else n, s if c is None else c, s if k is None else k
            base = [
                nn * strides[0][0] + (g * wd[1] + cc) * strides[0][1],
                (g * filters + kk) * strides[1][0] + cc * strides[1][1],
                nn * strides[2][0] + (g * filters + kk) * strides[2][1],
            ]
            bases.append((base[left], base[right]))
        for at in offsets(own[2:], strides[which][2:]):
            pairs = space.get(at, [])
            yield [b + i for b, _ in bases for i, _ in pairs], [b + j for _, b in bases for _, j in pairs]


def convolve(node, graph, names, which):
    known = {**node["inputs"], **node["outputs"]}
    uids = [known[name] for name in names]
    dims = [graph.dims[uid] for uid in uids]
    left, right = [uids[t] for t in (0, 1, 2) if t != which]
    x, y = graph.value(left), graph.value(right)
    unit = product_unit(node, graph, left, right, uids[which])
    sums = [dot(x, y, xs, ys, unit) for xs, ys in convolution(node, *dims, which)]
    return uids[which], [v for v, _ in sums], [e for _, e in sums]


def product_unit(node, graph, x, y, out):
    """8-bit integers are multiplied and summed exactly."""
    if {graph.types[x], graph.types[y]} <= {"int8", "uint8"}:
        return 0.0
    return unit_of(node, graph, [x, y], out)


def matmul(node, graph):
    a_uid, b_uid = node["inputs"]["a_tensor_uid"], node["inputs"]["b_tensor_uid"]
    out = node["outputs"]["c_tensor_uid"]
    a, b, dims = graph.value(a_uid), graph.value(b_uid), graph.dims[out]
    m, n, depth = dims[-2], dims[-1], a.dims[-1]
    batches = [broadcast(Tensor([*t.dims[:-2], 1, 1], None), [*dims[:-2], 1, 1]) for t in (a, b)]
    unit = product_unit(node, graph, a_uid, b_uid, out)
    values, errors = [], []
    for in_a, in_b in zip(*batches):
        in_a, in_b = in_a * m * depth, in_b * depth * n
        for i in range(m):
            row = range(in_a + i * depth, in_a + (i + 1) * depth)
            for j in range(n):
                value, error = dot(a, b, row, range(in_b + j, in_b + j + depth * n, n), unit)
                values.append(value)
                errors.append(error)
    return out, values, errors


# ---- Reductions ----


def reduction(node, graph):
    x_uid, out = node["in_tensor_uid"], node["out_tensor_uid"]
    x, dims, mode = graph.value(x_uid), graph.dims[out], node["mode"].removesuffix("_op")
    unit = unit_of(node, graph, [x_uid], out)
    strides = strides_of(x.dims)
    inner = offsets([d if o == 1 else 1 for d, o in zip(x.dims, dims)], strides)
    values, errors = [], []
    for at in offsets(dims, strides):
        v = [x.values[at + i] for i in inner]
        e = [x.errors[at + i] for i in inner] if x.errors else [0.0] * len(v)
        rounding, count = (len(v) + 2) * unit, len(v)
        if mode in ("add", "avg", "norm1"):
            scale = count if mode == "avg" else 1
            terms = [abs(t) for t in v] if mode == "norm1" else v
            value, error = math.fsum(terms) / scale, (rounding * sum(map(abs, v)) + sum(e)) / scale
        elif mode == "norm2":
            value = math.sqrt(math.fsum(t * t for t in v))
            error = rounding * value + sum(e)
        elif mode in ("max", "min", "amax"):
            pick = {"max": max, "min": min, "amax": lambda v: max(map(abs, v))}[mode]
            value, error = pick(v), max(e)
        elif mode in ("mul", "mul_no_zeros") and not any(e):
            value = math.prod(t for t in v if t != 0 or mode == "mul")
            error = rounding * abs(value)
        else:
            raise Unknown(f"reduction {mode} is not in the reference")
        values.append(value)
        errors.append(error)
    return out, values, errors


# ---- Elementwise ----


def sigmoid(x):
    return 1 / (1 + math.exp(-x)) if x >= 0 else math.exp(x) / (1 + math.exp(x))


def relu(x, lower, upper, slope):
    return (slope * (x - lower) if slope else 0.0) + lower if x <= lower else min(x, upper)


def gelu_tanh(x):
    return 0.5 * x * (1 + math.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


def division(a, b):
    return a / b if b else math.copysign(math.inf, a) * math.copysign(1, b) if a else math.nan


# Functions of operands and parameters; whether a result may jump where operands are off is not asked: samples keep away from there.
FUNCTIONS = {
    "identity": lambda a: a,
    "abs": abs,
    "neg": lambda a: -a,
    "ceil": math.ceil,
    "floor": math.floor,
    "exp": math.exp,
    "log": lambda a: math.log(a) if a > 0 else -math.inf if a == 0 else math.nan,
    "sqrt": lambda a: math.sqrt(a) if a >= 0 else math.nan,
    "rsqrt": lambda a: 1 / math.sqrt(a) if a > 0 else math.inf if a == 0 else math.nan,
    "reciprocal": lambda a: division(1.0, a),
    "erf": math.erf,
    "sin": math.sin,
    "tan": math.tan,
    "sigmoid_fwd": sigmoid,
    "tanh_fwd": math.tanh,
    "gelu_fwd": lambda a: 0.5 * a * (1 + math.erf(a / math.sqrt(2))),
    "gelu_approx_tanh_fwd": gelu_tanh,
    "relu_fwd": relu,
    "elu_fwd": lambda a, alpha: a if a > 0 else alpha * math.expm1(a),
    "softplus_fwd": lambda a, beta: (max(beta * a, 0) + math.log1p(math.exp(-abs(beta * a)))) / beta,
    "swish_fwd": lambda a, beta: a * sigmoid(beta * a),
    "logical_not": lambda a: float(a == 0),
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": mul,
    "div": division,
    "add_square": lambda a, b: a + b * b,
    "max_op": max,
    "min_op": min,
    "cmp_eq": lambda a, b: float(a == b),
    "cmp_neq": lambda a, b: float(a != b),
    "cmp_gt": lambda a, b: float(a > b),
    "cmp_ge": lambda a, b: float(a >= b),
    "cmp_lt": lambda a, b: float(a < b),
    "cmp_le": lambda a, b: float(a <= b),
    "logical_and": lambda a, b: float(a != 0 and b != 0),
    "logical_or": lambda a, b: float(a != 0 or b != 0),
    "relu_bwd": lambda a, b, lower, upper, slope: a * (slope if b <= lower else 0 if b > upper else 1),
    "sigmoid_bwd": lambda a, b: a * sigmoid(b) * (1 - sigmoid(b)),
    "tanh_bwd": lambda a, b: a * (1 - math.tanh(b) ** 2),
    "binary_select": lambda a, b, mask: a if mask != 0 else b,
}
PARAMETERS = {
    "relu_fwd": [("relu_lower_clip", 0.0), ("relu_upper_clip", math.inf), ("relu_lower_clip_slope", 0.0)],
    "relu_bwd": [("relu_lower_clip", 0.0), ("relu_upper_clip", math.inf), ("relu_lower_clip_slope", 0.0)],
    "elu_fwd": [("elu_alpha", 1.0)],
    "softplus_fwd": [("softplus_beta", 1.0)],
    "swish_fwd": [("swish_beta", 1.0)],
}


def of_result(value, operands):
    return abs(value)


def of_operands(value, operands):
    """Where results cancel, what is subtracted was as large as the operands."""
    return FUNCTION_UNITS * (abs(value) + max(map(abs, operands)))


def elementwise(function, operands, dims, unit, size, channels=False):
    """A function of tensors, broadcast, off by `unit` of `size`, and by what it does to operands that are off by theirs."""
    places = [broadcast(t, dims, channels) for t in operands]
    noisy = [i for i, t in enumerate(operands) if t.errors]
    values, errors = [], []
    for at in zip(*places):
        v = [t.values[i] for t, i in zip(operands, at)]
        value = function(*v)
        error = unit * size(value, v)
        if noisy:
            e = [operands[i].errors[at[i]] for i in noisy]
            for signs in product((-1, 1), repeat=len(noisy)):
                moved = list(v)
                for i, by, sign in zip(noisy, e, signs):
                    moved[i] += sign * by
                error = max(error, abs(function(*moved) - value) + unit * size(value, moved))
        values.append(value)
        errors.append(error)
    return values, errors


EXACT = {"identity", "abs", "neg", "max_op", "min_op", "binary_select", "relu_fwd", "ceil", "floor"}


def pointwise(node, graph):
    inputs, mode = node["inputs"], node["inputs"]["operation"]
    out = node["outputs"]["out_0_tensor_uid"]
    if mode not in FUNCTIONS:
        raise Unknown(f"pointwise {mode} is not in the reference")
    uids = [inputs[f"in_{i}_tensor_uid"] for i in range(3) if inputs.get(f"in_{i}_tensor_uid") is not None]
    given = [default if inputs.get(name) is None else inputs[name] for name, default in PARAMETERS.get(mode, [])]
    unit = unit_of(node, graph, uids, out)
    # A slope makes a product of what is otherwise a choice.
    exact = (mode in EXACT or mode.startswith(("cmp_", "logical_"))) and (mode != "relu_fwd" or given[2] == 0)
    function = FUNCTIONS[mode]
    size = of_result if mode in ROUNDED_ONCE else of_operands
    operands = [graph.value(uid) for uid in uids]
    values, errors = elementwise(lambda *v: function(*v, *given), operands, graph.dims[out], 0.0 if exact else unit, size)
    return out, values, errors


def batchnorm(node, graph):
    inputs, out = node["inputs"], node["outputs"]["y_tensor_uid"]
    with_variance = "variance_tensor_uid" in inputs
    names = ["x", "mean", "variance" if with_variance else "inv_variance", "scale", "bias"] + ["epsilon"] * with_variance
    uids = [inputs[f"{n}_tensor_uid"] for n in names]

    def function(x, mean, variance, scale, bias, epsilon=None):
        return (x - mean) * (variance if epsilon is None else 1 / math.sqrt(variance + epsilon)) * scale + bias

    unit = unit_of(node, graph, [], out)
    values, errors = elementwise(function, [graph.value(uid) for uid in uids], graph.dims[out], unit, of_operands, channels=True)
    return out, values, errors


NODES = {
    "ConvolutionFwdAttributes": lambda n, g: convolve(n, g, ["x_tensor_uid", "w_tensor_uid", "y_tensor_uid"], 2),
    "ConvolutionBwdAttributes": lambda n, g: convolve(n, g, ["dx_tensor_uid", "w_tensor_uid", "dy_tensor_uid"], 0),
    "ConvolutionWrwAttributes": lambda n, g: convolve(n, g, ["x_tensor_uid", "dw_tensor_uid", "dy_tensor_uid"], 1),
    "MatmulAttributes": matmul,
    "ReductionAttributes": reduction,
    "PointwiseAttributes": pointwise,
    "BatchnormInferenceAttributes": batchnorm,
    "BatchnormInferenceAttributesVarianceExt": batchnorm,
}


class Graph:
    """A graph as hipDNN's JSON has it, and the tensors computed so far."""

    def __init__(self, document):
        self.nodes = document["nodes"]
        self.tensors = {t["uid"]: t for t in document["tensors"]}
        self.dims = {uid: t["dims"] for uid, t in self.tensors.items()}
        self.types = {uid: t["data_type"] for uid, t in self.tensors.items()}
        self.compute = document["compute_data_type"]
        self.known = {}

    def value(self, uid):
        return self.known[uid]

    def run(self, inputs):
        """Computes every tensor from those given by uid."""
        self.known = dict(inputs)
        rest = list(self.nodes)
        while rest:
            ready = [n for n in rest if self._is_ready(n)]
            if not ready:
                raise Unknown("the graph has a circle or an input without a value")
            for node in ready:
                if node["type"] not in NODES:
                    raise Unknown(f"{node['type']} is not in the reference")
                out, values, errors = NODES[node["type"]](node, self)
                dtype = self.types[out]
                if dtype in elements.UNITS:
                    unit, least = elements.UNITS[dtype]
                    errors = [e + unit * abs(v) + least for v, e in zip(values, errors)]
                else:
                    errors = [0.0 if e < 1e-9 and abs(v - round(v)) < 1e-9 else 1.0 for v, e in zip(values, errors)]
                    values = [elements.stored(v, dtype) for v in values]
                self.known[out] = Tensor(self.dims[out], values, errors)
                rest.remove(node)

    def _is_ready(self, node):
        inputs = {k: v for k, v in {**node, **node.get("inputs", {})}.items() if k.endswith("_tensor_uid") and v is not None}
        outputs = node.get("outputs") or {"out_tensor_uid": node["out_tensor_uid"]}
        return all(uid in self.known for name, uid in inputs.items() if name not in outputs and name != "axis_tensor_uid")
