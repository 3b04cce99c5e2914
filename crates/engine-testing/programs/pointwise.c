#include "pointwise.h"
#include <math.h>

enum mode {
    ABS = 1,
    ADD = 2,
    ADD_SQUARE = 3,
    BINARY_SELECT = 4,
    CEIL = 5,
    CMP_EQ = 6,
    CMP_GE = 7,
    CMP_GT = 8,
    CMP_LE = 9,
    CMP_LT = 10,
    CMP_NEQ = 11,
    DIV = 12,
    ELU_FWD = 14,
    ERF = 15,
    EXP = 16,
    FLOOR = 17,
    GELU_APPROX_TANH_FWD = 19,
    GELU_FWD = 21,
    IDENTITY = 23,
    LOG = 24,
    LOGICAL_AND = 25,
    LOGICAL_NOT = 26,
    LOGICAL_OR = 27,
    MAX_OP = 28,
    MIN_OP = 29,
    MUL = 30,
    NEG = 31,
    RECIPROCAL = 32,
    RELU_BWD = 33,
    RELU_FWD = 34,
    RSQRT = 35,
    SIGMOID_BWD = 36,
    SIGMOID_FWD = 37,
    SIN = 38,
    SOFTPLUS_FWD = 40,
    SQRT = 41,
    SUB = 42,
    SWISH_FWD = 44,
    TAN = 45,
    TANH_BWD = 46,
    TANH_FWD = 47
};

int pointwise_arity(int mode) {
    switch (mode) {
    case ABS: case CEIL: case ELU_FWD: case ERF: case EXP: case FLOOR: case GELU_APPROX_TANH_FWD: case GELU_FWD: case IDENTITY: case LOG:
    case LOGICAL_NOT: case NEG: case RECIPROCAL: case RELU_FWD: case RSQRT: case SIGMOID_FWD: case SIN: case SOFTPLUS_FWD: case SQRT:
    case SWISH_FWD: case TAN: case TANH_FWD:
        return 1;
    case ADD: case ADD_SQUARE: case CMP_EQ: case CMP_GE: case CMP_GT: case CMP_LE: case CMP_LT: case CMP_NEQ: case DIV: case LOGICAL_AND:
    case LOGICAL_OR: case MAX_OP: case MIN_OP: case MUL: case RELU_BWD: case SIGMOID_BWD: case SUB: case TANH_BWD:
        return 2;
    case BINARY_SELECT:
        return 3;
    default:
        return 0;
    }
}

static double sigmoid(double z) {
    return 1 / (1 + exp(-z));
}

static double extreme(double a, double b, bool largest) {
    return isnan(a) || isnan(b) ? NAN : largest == (a > b) ? a : b;
}

static double relu(const struct node *n, double a) {
    if (a <= n->relu_lower)
        return n->relu_slope == 0 ? n->relu_lower : n->relu_slope * (a - n->relu_lower) + n->relu_lower;
    return a >= n->relu_upper ? n->relu_upper : a;
}

double pointwise_apply(const struct node *n, double a, double b, double c) {
    double z, t;
    switch (n->mode) {
    case ABS: return fabs(a);
    case ADD: return a + b;
    case ADD_SQUARE: return a + b * b;
    case BINARY_SELECT: return c != 0 ? a : b;
    case CEIL: return ceil(a);
    case CMP_EQ: return a == b;
    case CMP_GE: return a >= b;
    case CMP_GT: return a > b;
    case CMP_LE: return a <= b;
    case CMP_LT: return a < b;
    case CMP_NEQ: return a != b;
    case DIV: return a / b;
    case ELU_FWD: return a > 0 ? a : n->elu_alpha * expm1(a);
    case ERF: return erf(a);
    case EXP: return exp(a);
    case FLOOR: return floor(a);
    case GELU_APPROX_TANH_FWD: return 0.5 * a * (1 + tanh(sqrt(M_2_PI) * (a + 0.044715 * a * a * a)));
    case GELU_FWD: return 0.5 * a * (1 + erf(a * M_SQRT1_2));
    case IDENTITY: return a;
    case LOG: return log(a);
    case LOGICAL_AND: return a != 0 && b != 0;
    case LOGICAL_NOT: return a == 0;
    case LOGICAL_OR: return a != 0 || b != 0;
    case MAX_OP: return extreme(a, b, true);
    case MIN_OP: return extreme(a, b, false);
    case MUL: return a * b;
    case NEG: return -a;
    case RECIPROCAL: return 1 / a;
    case RELU_BWD: return a * (b <= n->relu_lower ? n->relu_slope : b > n->relu_upper ? 0 : 1);
    case RELU_FWD: return relu(n, a);
    case RSQRT: return 1 / sqrt(a);
    case SIGMOID_BWD: return a * (sigmoid(b) * (1 - sigmoid(b)));
    case SIGMOID_FWD: return sigmoid(a);
    case SIN: return sin(a);
    case SOFTPLUS_FWD:
        z = n->softplus_beta * a;
        return (fmax(z, 0) + log1p(exp(-fabs(z)))) / n->softplus_beta;
    case SQRT: return sqrt(a);
    case SUB: return a - b;
    case SWISH_FWD: return a * sigmoid(n->swish_beta * a);
    case TAN: return tan(a);
    case TANH_BWD:
        t = tanh(b);
        return a * (1 - t * t);
    case TANH_FWD: return tanh(a);
    default: return NAN;
    }
}
