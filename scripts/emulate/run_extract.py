#!/usr/bin/env python3
"""Executes what a plan would launch, instruction by instruction, and checks the results against double precision.

    run_extract.py EMULATOR EXTRACT...

EMULATOR is a checkout of tinygrad, whose test/mockgpu/amd emulates gfx9, gfx11 and gfx12; it needs a host clang, named in CC. EXTRACT is
what `hipplan show WHAT --launch --extract EXTRACT` wrote. Prints one line for each launch, tab-separated: extract, launch, kernel, target,
grid, block, seconds, verdict. Exit status: 0 if all is right, 1 if something is not, 77 if there is no emulator.

Verdicts: `right`; `wrong: ...`; `not emulated: ...` (an instruction that the emulator does not have); `unchecked: ...` (no reference);
`failed: ...`. A launch that touches memory that is not its own ends the process by a signal.
"""

import argparse
import ctypes
import hashlib
import json
import math
import os
import random
import shutil
import struct
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
import elements
import reference
from code_object import CodeObject, CodeObjectError
from memory import Memory

SKIPPED = 77
# Generation of instructions, as the emulator names it, by the front of a processor's name.
GENERATIONS = [("gfx90a", "cdna"), ("gfx94", "cdna"), ("gfx95", "cdna"), ("gfx11", "rdna3"), ("gfx12", "rdna4")]
POISON = 0xFF
INTEGER_POISON = 0xA5


class Failure(Exception):
    pass


def emulator(folder):
    """The emulator's module, or nothing if it is not there."""
    if not (Path(folder) / "test/mockgpu/amd/emu.py").is_file():
        return None
    sys.path.insert(0, str(folder))
    os.environ.setdefault("DEV", "CPU")
    clangs = ["clang", *(f"clang-{version}" for version in range(23, 13, -1))]
    os.environ.setdefault("CC", next(filter(shutil.which, clangs), "clang"))
    import test.mockgpu.amd.emu as emu

    return emu


def graph_of(extract, hipplan):
    document = extract / "graph.json"
    if document.is_file():
        return json.loads(document.read_text())
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "graph.json"
        command = [hipplan, "convert", str(extract / "graph.bin"), "--to", "json", "-o", str(out)]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        return json.loads(out.read_text())


def span(tensor):
    if any(d == 0 for d in tensor["dims"]):
        return 0
    return 1 + sum((d - 1) * s for d, s in zip(tensor["dims"], tensor["strides"]))


def positive(graph):
    """Tensors that hold variances, divisors or the arguments of roots and logarithms: their random numbers stay away from zero."""
    found = set()
    for node in graph.nodes:
        inputs = node.get("inputs", {})
        names = ["variance_tensor_uid", "inv_variance_tensor_uid", "epsilon_tensor_uid"]
        names += {"div": ["in_1_tensor_uid"]}.get(inputs.get("operation"), [])
        names += ["in_0_tensor_uid"] if inputs.get("operation") in ("reciprocal", "sqrt", "rsqrt", "log") else []
        found.update(inputs[name] for name in names if name in inputs)
    return found


class Run:
    """One extract with its memory."""

    def __init__(self, folder, emu, hipplan, seed):
        self.folder = Path(folder)
        self.emu = emu
        self.plan = json.loads((self.folder / "launches.json").read_text())
        if (self.plan["format"], self.plan["version"]) != ("hipplan-launches", 1):
            raise Failure("launches.json is of another format or version")
        self.target = self.plan["target"].split("--")[-1].split(":")[0]
        self.generation = next((g for front, g in GENERATIONS if self.target.startswith(front)), None)
        if self.generation is None:
            raise Failure(f"the emulator does not have {self.target}")
        self.graph = reference.Graph(graph_of(self.folder, hipplan))
        self.positive = positive(self.graph)
        digest = hashlib.sha256(f"{seed} {self.folder.name}".encode()).digest()
        self.rng = random.Random(int.from_bytes(digest[:8], "little"))
        self.owned = []
        self.inputs, self.outputs, self.scalars, self.addresses = {}, {}, {}, {}
        self.workspace = self._own(self.plan["workspace_size"], align=256)
        self.workspace.write(bytes([POISON]) * self.workspace.size)
        for position, tensor in enumerate(self.plan["tensors"]):
            self._place(position, tensor)
        # Virtual tensors and constants apart, what no launch reads has a value in the reference too.
        self._constants()
        self.objects = [self._load(c) for c in self.plan["code_objects"]]

    def _own(self, size, align=16):
        memory = Memory(size, align)
        self.owned.append(memory)
        return memory

    def _load(self, entry):
        def place(image, size):
            memory = self._own(size, align=4096)
            memory.write(image)
            memory.close_for_writing()
            return memory.address

        data = (self.folder / entry["file"]).read_bytes()
        if len(data) != entry["size"]:
            raise Failure(f"{entry['file']} has {len(data)} bytes, expected {entry['size']}")
        return CodeObject(data, place)

    def _place(self, position, tensor):
        if tensor["place"] == "workspace":
            if tensor["offset"] + tensor["bytes"] > self.workspace.size:
                raise Failure(f"tensor {position} lies behind the workspace")
            self.addresses[position] = self.workspace.address + tensor["offset"]
            return
        uid = tensor["ordinal"]
        described = self.graph.tensors[uid]
        dtype = described["data_type"]
        if tensor["place"] == "scalar":
            data = elements.draw(1, dtype, self.rng, 0.5, 1.5)
            if described.get("value") is not None:
                data = elements.encode([described["value"]], dtype)
            self.scalars[position] = elements.decode(data, dtype)[0]
            self.inputs[uid] = reference.Tensor(described["dims"], [self.scalars[position]])
            return
        if span(described) * elements.SIZES[dtype] != tensor["bytes"]:
            raise Failure(f"tensor {position} has {tensor['bytes']} bytes, expected {span(described) * elements.SIZES[dtype]}")
        memory = self._own(tensor["bytes"])
        self.addresses[position] = memory.address
        if tensor["written"]:
            memory.write(bytes([POISON if dtype in elements.UNITS else INTEGER_POISON]) * memory.size)
            self.outputs[uid] = memory
        else:
            low, high = (0.5, 1.5) if uid in self.positive else (-1.0, 1.0)
            data = elements.draw(span(described), dtype, self.rng, low, high)
            memory.write(data)
            memory.close_for_writing()
            stored = elements.decode(data, dtype)
            at = reference.offsets(described["dims"], described["strides"])
            self.inputs[uid] = reference.Tensor(described["dims"], [stored[i] for i in at])

    def _constants(self):
        for uid, described in self.graph.tensors.items():
            if uid not in self.inputs and described.get("value") is not None:
                (value,) = elements.decode(elements.encode([described["value"]], described["data_type"]), described["data_type"])
                self.inputs[uid] = reference.Tensor(described["dims"], [value])

    def launch(self, launch):
        """Executes one launch."""
        code = self.objects[launch["code_object"]]
        kernel = code.kernel(launch["kernel"])
        arguments = bytearray((self.folder / launch["kernarg"]).read_bytes())
        # What rounds the struct up may stand behind it.
        if not len(arguments) == launch["kernarg_size"] <= kernel.kernarg_size < launch["kernarg_size"] + 16:
            raise Failure(f"kernarg: {len(arguments)} bytes, {launch['kernarg_size']} in the list, {kernel.kernarg_size} in the descriptor")
        wave = {"cdna": 64}.get(self.generation, 32)
        if kernel.wave_size != wave:
            raise Failure(f"the kernel has waves of {kernel.wave_size}, the emulator of {wave}")
        for patch in launch["patches"]:
            form = {"address": "<Q", "f32": "<f", "f64": "<d"}[patch["write"]]
            source = self.addresses if patch["write"] == "address" else self.scalars
            struct.pack_into(form, arguments, patch["offset"], source[patch["tensor"]])
        segment = self._own(kernel.kernarg_size, align=64)
        segment.write(arguments)
        segment.close_for_writing()
        # The packet processor fills in the shared memory, in pieces of 512 bytes.
        rsrc2 = kernel.rsrc2 & ~(0x1FF << 15) | -(-kernel.lds // 512) << 15
        if kernel.keeps_denormals:
            # The emulator flushes denormal numbers if it can, whatever the descriptor says.
            self.emu._get_ftz_lib = lambda: (None, 0)
        registers = kernel.user_sgprs(segment.address)
        size = code.base + code.size - kernel.entry
        block, grid = (launch["block"], 1, 1), launch["grid"]
        self.emu.run_asm(kernel.entry, size, *grid, *block, segment.address, rsrc2, kernel.scratch, self.generation, registers)

    def check(self):
        """The worst error of all results in units of what is allowed, or what is wrong."""
        for memory in self.owned:
            if not memory.canaries_stand():
                raise Failure("wrong: memory beside a tensor was written")
        self.graph.run(self.inputs)
        worst, of = 0.0, None
        for uid, memory in self.outputs.items():
            described, expected = self.graph.tensors[uid], self.graph.value(uid)
            found = elements.decode(memory.read(), described["data_type"])
            at = reference.offsets(described["dims"], described["strides"])
            for index, place in enumerate(at):
                exact, allowed = expected.values[index], expected.errors[index] if expected.errors else 0.0
                got = found[place]
                if got == exact or math.isnan(got) and math.isnan(exact):
                    continue
                ratio = abs(got - exact) / allowed if allowed and not math.isnan(got) else math.inf
                if not ratio <= worst:
                    worst, of = ratio, f"tensor {uid} element {index}: {got!r}, expected {exact!r} within {allowed:.3g}"
            size = elements.SIZES[described["data_type"]]
            poison = bytes([POISON if described["data_type"] in elements.UNITS else INTEGER_POISON]) * size
            raw, between = memory.read(), set(range(len(found))).difference(at) if len(found) > len(at) else ()
            for place in between:
                if raw[place * size : (place + 1) * size] != poison:
                    raise Failure(f"wrong: tensor {uid} was written at {place}, between its elements")
        if worst > 1:
            raise Failure(f"wrong: {of}")
        return worst

    def free(self):
        for memory in self.owned:
            memory.free()


def kind(error):
    """What an emulator's error means."""
    text = " ".join(str(error).split())
    if "unimplemented" in text or "Failed to compile" in text or isinstance(error, NotImplementedError):
        return f"not emulated: {text[:200]}"
    return f"failed: {type(error).__name__}: {text[:200]}"


def run(folder, emu, hipplan, seed, out):
    """Runs an extract, writes its lines, and says whether all is right."""
    lines, verdict, this = [], None, None
    started = time.time()
    try:
        this = Run(folder, emu, hipplan, seed)
        for number, launch in enumerate(this.plan["launches"]):
            began = time.time()
            shape = ["x".join(map(str, launch["grid"])), str(launch["block"])]
            lines.append([str(number), launch["kernel"], this.target, *shape, ""])
            this.launch(launch)
            lines[-1][-1] = f"{time.time() - began:.1f}"
        verdict = f"right: worst error {this.check():.2f} of the bound"
    except Failure as failure:
        verdict = str(failure) if str(failure).startswith("wrong") else f"failed: {failure}"
    except reference.Unknown as unknown:
        verdict = f"unchecked: {unknown}"
    except (CodeObjectError, OSError, KeyError, ValueError, subprocess.CalledProcessError) as error:
        verdict = f"failed: {type(error).__name__}: {error}"
    except (RuntimeError, NotImplementedError, AssertionError) as error:
        verdict = kind(error)
    finally:
        if this is not None:
            this.free()
    for line in lines or [["-", "-", "-", "-", "-", f"{time.time() - started:.1f}"]]:
        print("\t".join([Path(folder).name, *line, verdict]), file=out, flush=True)
    return verdict.startswith("right")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("emulator", help="checkout of tinygrad")
    parser.add_argument("extract", nargs="+", help="folder that hipplan wrote")
    parser.add_argument("--hipplan", default="hipplan", help="the program, for the graphs of extracts [default: %(default)s]")
    parser.add_argument("--seed", default="0", help="seed of the random tensors [default: %(default)s]")
    options = parser.parse_args()
    emu = emulator(options.emulator)
    if emu is None:
        print(f"skipped: there is no emulator in {options.emulator}", file=sys.stderr)
        return SKIPPED
    # The emulator prints; lines of ours go where they are asked for.
    results = [run(folder, emu, options.hipplan, options.seed, sys.stdout) for folder in options.extract]
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
