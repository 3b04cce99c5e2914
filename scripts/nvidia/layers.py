#!/usr/bin/env python3
"""Times of `nvidia layers` beside cuDNN's for the same convolutions, in float without tensor cores.

    nvidia layers RUNTIME layers.txt > ours.jsonl; layers.py ours.jsonl [PEAK_TFLOPS]

Needs PyTorch with CUDA. Both sides repeat each convolution over the same buffers; ratios above 1 say that hipplan is faster.
"""

import json
import math
import sys

import torch

REPEAT = 20


def cudnn_us(call):
    """Median time of a call, from replays of a graph of them."""
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        for _ in range(3):
            call()
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=stream):
            for _ in range(REPEAT):
                call()
        times = []
        for _ in range(7):
            start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            start.record(stream)
            graph.replay()
            end.record(stream)
            torch.cuda.synchronize()
            times.append(start.elapsed_time(end) * 1e3 / REPEAT)
    return sorted(times[1:])[3]


def main():
    rows = [json.loads(line) for line in open(sys.argv[1]) if line.startswith("{")]
    peak = float(sys.argv[2]) if len(sys.argv) > 2 else 67.0
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    torch.backends.cudnn.benchmark = True
    print(torch.cuda.get_device_name(), "PyTorch", torch.__version__, "cuDNN", torch.backends.cudnn.version())
    print("| direction | layer | hipplan us | TFLOP/s | of peak | cuDNN us | TFLOP/s | ratio |\n|---|---|---|---|---|---|---|---|")
    ratios = {}
    for row in rows:
        n, c, h, k, r, u, p, g = (row[name] for name in ("n", "c", "h", "k", "r", "stride", "pad", "groups"))
        o = (h + 2 * p - r) // u + 1
        x, w, dy = (torch.randn(*dims, device="cuda") for dims in ((n, c, h, h), (k, c // g, r, r), (n, k, o, o)))
        which = {"fwd": None, "bwd": [True, False, False], "wrw": [False, True, False]}[row["direction"]]
        if which is None:
            us = cudnn_us(lambda: torch.nn.functional.conv2d(x, w, stride=u, padding=p, groups=g))
        else:
            backward = torch.ops.aten.convolution_backward
            us = cudnn_us(lambda: backward(dy, x, w, None, [u, u], [p, p], [1, 1], False, [0, 0], g, which))
        flops = 2.0 * n * k * o * o * (c // g) * r * r
        ours, theirs, ratio = flops / row["us"] / 1e6, flops / us / 1e6, us / row["us"]
        ratios.setdefault(row["direction"], []).append(ratio)
        layer = f"{c}->{k} {r}x{r}/{u} at {h}" + (f", {g} groups" if g > 1 else "")
        print(f"| {row['direction']} | {layer} | {row['us']:.1f} | {ours:.1f} | {ours / peak:.0%} | {us:.1f} | {theirs:.1f} | {ratio:.2f} |")
    for direction, found in ratios.items():
        mean = math.exp(sum(map(math.log, found)) / len(found))
        print(f"{direction}: {len(found)} layers, geometric mean {mean:.2f} of cuDNN, least {min(found):.2f}")


main()
