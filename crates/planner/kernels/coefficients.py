#!/usr/bin/env python3
"""Derives the coefficients of math.h. Needs mpmath.

Each polynomial is a least-squares fit of a smooth function at Chebyshev nodes, which is within a small factor of the best there is. The
coefficients are rounded from the lowest up, and the rest is fitted anew after each, so that rounding costs next to nothing.
"""

import struct
from mpmath import mp, mpf, pi, cos, sin, exp, log, tanh, erf, erfc, sqrt, taylor, lu_solve, matrix

mp.prec = 400


def rounded(x, bits):
    """x to a number of significant bits."""
    if x == 0:
        return mpf(0)
    scale = mpf(2) ** (bits - 1 - int(mp.floor(mp.log(abs(x), 2))))
    return mp.nint(x * scale) / scale


def fit(f, low, high, degree, bits, weight=lambda z: 1):
    """Coefficients of f on [low, high], lowest first, and the largest weighted error."""
    count = 3 * (degree + 1)
    nodes = [(low + high) / 2 + (high - low) / 2 * cos(pi * (2 * i + 1) / (2 * count)) for i in range(count)]
    nodes = [z for z in nodes if z != 0]
    values, weights = [f(z) for z in nodes], [weight(z) for z in nodes]
    done = []
    while len(done) <= degree:
        free = range(len(done), degree + 1)
        rest = [w * (v - sum(c * z**i for i, c in enumerate(done))) for z, v, w in zip(nodes, values, weights)]
        rows = matrix([[w * z**i for i in free] for z, w in zip(nodes, weights)])
        done.append(rounded(lu_solve(rows.T * rows, rows.T * matrix(rest))[0], bits))
    points = [low + (high - low) * (mpf(i) + mpf(1) / 3) / 400 for i in range(400)]
    worst = max(abs((sum(c * z**i for i, c in enumerate(done)) - f(z)) * weight(z)) for z in points)
    return done, worst


def text(x, bits):
    return float(x).hex().replace("0000000p", "p") + ("f" if bits == 24 else "")


def show(name, bits, found):
    coefficients, worst = found
    print(f"{name}, error 2^{float(mp.log(worst, 2)):.1f}")
    for c in coefficients:
        print("   ", text(c, bits))


def split(name, x, widths):
    """x as a sum of numbers of so many bits."""
    parts = []
    for bits in widths:
        parts.append(rounded(x, bits))
        x -= parts[-1]
    print(name, *[text(p, min(w, 53) if w != 24 else 24) for p, w in zip(parts, widths)])


def even(f):
    """f as a function of the square of its argument."""
    return lambda z: f(sqrt(z))


EXP = lambda r: (exp(r) - 1 - r) / r**2
LOG = even(lambda s: (2 * mp.atanh(s) / s - 2) / s**2)
POW = even(lambda s: (2 * mp.atanh(s) / s - 2 - s**2 * mpf(2) / 3) / s**4)
SIN = even(lambda r: (sin(r) - r) / r**3)
COS = even(lambda r: (cos(r) - 1 + r**2 / 2) / r**4)
TANH = even(lambda r: (tanh(r) - r) / r**3)
ERF = even(lambda r: erf(r) / r - 1)
LOG_ERFC = lambda d: log(erfc(d + 2))

if __name__ == "__main__":
    half_ln2, sqrt_half = log(2) * mpf("0.505"), sqrt(mpf(1) / 2)
    s2 = ((1 - sqrt_half) / (1 + sqrt_half)) ** 2
    angle2 = (pi / 4) ** 2 * mpf("1.01")
    for bits, degrees in ((53, (10, 7, 6, 6, 11, 12, 19)), (24, (5, 2, 3, 2, 4, 6, 7))):
        e, l, s, c, t, small, large = degrees
        print("==== bits", bits)
        show("exp", bits, fit(EXP, -half_ln2, half_ln2, e, bits, lambda r: r * r))
        show("log", bits, fit(LOG, mpf(0), s2, l, bits, lambda z: z / 2))
        if bits == 53:
            show("pow", bits, fit(POW, mpf(0), s2, 7, bits, lambda z: z * z / 2))
        show("sin", bits, fit(SIN, mpf(0), angle2, s, bits, lambda z: z))
        show("cos", bits, fit(COS, mpf(0), angle2, c, bits, lambda z: z * z))
        edge = mpf("0.55")
        show("tanh", bits, fit(TANH, mpf(0), edge**2, t, bits, lambda z: z))
        show("erf", bits, fit(ERF, mpf(0), mpf(1), small, bits))
        end = 6 if bits == 53 else 4
        show("log erfc", bits, fit(LOG_ERFC, mpf(-1), mpf(end) - 2, large, bits, lambda d: erfc(d + 2)))
        split("ln2", log(2), (32 if bits == 53 else 15, bits))
        split("pi/2", pi / 2, (bits, bits, bits, bits))
        split("log2e", 1 / log(2), (bits, bits))
        split("2/3", mpf(2) / 3, (bits, bits))
    print("==== 2/pi")
    split("float", 2 / pi, [28] * 7)
    mp.prec = 1500
    x, parts = 2 / pi, []
    for i in range(22):
        parts.append(rounded(x, 53))
        x -= parts[-1]
    for i, p in enumerate(parts):
        print("   ", text(p * (mpf(2) ** 512 if i >= 9 else 1), 53), int(mp.floor(mp.log(abs(p), 2))))
