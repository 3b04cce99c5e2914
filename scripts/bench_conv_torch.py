#!/usr/bin/env python3
"""ResNet-50's convolutions on the CPU: hipplan against PyTorch, in one run.

    cargo build --release -p hipplan-exec --example resnet50_conv
    python3 scripts/bench_conv_torch.py target/release/examples/resnet50_conv [threads] [batch]

Needs PyTorch. Both run forward, f32, NCHW, on the same number of threads; the best of several runs of each counts.
"""

import os
import re
import subprocess
import sys
import time

import torch

program = sys.argv[1]
threads = int(sys.argv[2]) if len(sys.argv) > 2 else 1
batch = int(sys.argv[3]) if len(sys.argv) > 3 else 1
torch.set_num_threads(threads)

environment = dict(os.environ, HIPPLAN_CPU_THREADS=str(threads))
table = subprocess.run([program, str(batch)], env=environment, check=True, capture_output=True, text=True).stdout
row = re.compile(r"^(\d+)->(\d+) (\d)x\d/(\d) at (\d+)\s+([\d.]+) ms")
layers = [match.groups() for match in map(row.match, table.splitlines()) if match]

print(f"PyTorch {torch.__version__}, {threads} threads, batch {batch}")
print(f"{'layer':<28} {'hipplan':>10} {'PyTorch':>10} {'PyTorch / hipplan':>18}")
ratios = []
with torch.inference_mode():
    for c, k, taps, stride, size, ours in layers:
        c, k, taps, stride, size, ours = int(c), int(k), int(taps), int(stride), int(size), float(ours)
        x, w = torch.randn(batch, c, size, size), torch.randn(k, c, taps, taps)
        best = float("inf")
        deadline = time.perf_counter() + 0.5
        while time.perf_counter() < deadline:
            start = time.perf_counter()
            torch.nn.functional.conv2d(x, w, stride=stride, padding=taps // 2)
            best = min(best, time.perf_counter() - start)
        ratios.append(best * 1e3 / ours)
        print(f"{f'{c}->{k} {taps}x{taps}/{stride} at {size}':<28} {ours:>7.3f} ms {best * 1e3:>7.3f} ms {ratios[-1]:>18.2f}")
geomean = 1.0
for ratio in ratios:
    geomean *= ratio ** (1 / len(ratios))
print(f"geometric mean of PyTorch / hipplan: {geomean:.2f} (above 1: hipplan is faster)")
