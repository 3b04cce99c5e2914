#!/usr/bin/env python3
"""Tests of the harness that need no emulator."""

import random
import unittest
from pathlib import Path

import elements
import reference
from code_object import CodeObject, CodeObjectError
from memory import Memory

OBJECTS = Path(__file__).resolve().parents[2] / "corpus/code-objects"


def tensor(uid, dims):
    return {"uid": uid, "data_type": "double", "dims": dims, "strides": reference.strides_of(dims)}


def convolution(kind, dims, parameters):
    """A graph of one convolution over x (1), w (2) and y (3)."""
    operands = {
        "Fwd": ({"x_tensor_uid": 1, "w_tensor_uid": 2}, {"y_tensor_uid": 3}),
        "Bwd": ({"dy_tensor_uid": 3, "w_tensor_uid": 2}, {"dx_tensor_uid": 1}),
        "Wrw": ({"x_tensor_uid": 1, "dy_tensor_uid": 3}, {"dw_tensor_uid": 2}),
    }[kind]
    node = {"type": f"Convolution{kind}Attributes", "compute_data_type": "double", "inputs": operands[0], "outputs": operands[1]}
    node["parameters"] = parameters
    return reference.Graph({"compute_data_type": "double", "nodes": [node], "tensors": [tensor(i + 1, d) for i, d in enumerate(dims)]})


def parameters(pad, stride, dilation, mode="CROSS_CORRELATION"):
    return {"conv_mode": mode, "pre_padding": pad, "post_padding": pad, "stride": stride, "dilation": dilation}


class Reference(unittest.TestCase):
    def test_a_convolution_by_hand(self):
        x = reference.Tensor([1, 1, 1, 4], [1.0, 2.0, 3.0, 4.0])
        w = reference.Tensor([1, 1, 1, 2], [10.0, 1.0])
        for mode, expected in [("CROSS_CORRELATION", [1.0, 12.0, 23.0, 34.0, 40.0]), ("CONVOLUTION", [10.0, 21.0, 32.0, 43.0, 4.0])]:
            graph = convolution("Fwd", [[1, 1, 1, 4], [1, 1, 1, 2], [1, 1, 1, 5]], parameters([0, 1], [1, 1], [1, 1], mode))
            graph.run({1: x, 2: w})
            self.assertEqual(graph.value(3).values, expected)

    def test_gradients_are_adjoint(self):
        """<conv(x, w), dy> = <x, dgrad(dy, w)> = <w, wgrad(x, dy)>."""
        rng = random.Random(1)
        for dims, p in [
            ([[2, 4, 6, 5], [6, 2, 3, 2], [2, 6, 3, 4]], parameters([1, 0], [2, 1], [1, 1])),
            ([[1, 3, 9, 8], [2, 3, 3, 3], [1, 2, 5, 2]], parameters([2, 1], [2, 3], [2, 2])),
            ([[1, 4, 5], [4, 1, 3], [1, 4, 7]], parameters([2], [1], [1], "CONVOLUTION")),
        ]:
            x, w, dy = (reference.Tensor(d, [rng.uniform(-1, 1) for _ in reference.offsets(d, [1] * len(d))]) for d in dims)
            sums = []
            for kind, given, out, other in [("Fwd", {1: x, 2: w}, 3, dy), ("Bwd", {3: dy, 2: w}, 1, x), ("Wrw", {1: x, 3: dy}, 2, w)]:
                graph = convolution(kind, dims, p)
                graph.run(given)
                self.assertEqual(len(graph.value(out).values), len(other.values))
                sums.append(sum(a * b for a, b in zip(graph.value(out).values, other.values)))
            self.assertNotEqual(sums[0], 0)
            self.assertAlmostEqual(sums[0], sums[1], places=10)
            self.assertAlmostEqual(sums[0], sums[2], places=10)

    def test_what_is_not_there_is_said(self):
        node = {"type": "PointwiseAttributes", "compute_data_type": "float", "inputs": {"operation": "gen_index"}}
        node["outputs"] = {"out_0_tensor_uid": 1}
        graph = reference.Graph({"compute_data_type": "float", "nodes": [node], "tensors": [tensor(1, [2])]})
        with self.assertRaises(reference.Unknown):
            graph.run({})


class Elements(unittest.TestCase):
    def test_numbers_come_back(self):
        rng = random.Random(2)
        for dtype in elements.SIZES:
            data = elements.draw(100, dtype, rng)
            self.assertEqual(len(data), 100 * elements.SIZES[dtype])
            self.assertEqual(elements.encode(elements.decode(data, dtype), dtype), data)

    def test_integers_are_saturated(self):
        self.assertEqual([elements.stored(v, "int8") for v in (-200.0, 0.5, 1.5, 200.0)], [-128, 0, 2, 127])


class Loading(unittest.TestCase):
    def place(self, image, size):
        self.memory = Memory(size, align=4096)
        self.memory.write(image)
        self.addCleanup(self.memory.free)
        return self.memory.address

    def test_descriptors(self):
        """The kernels of the corpus: corpus/code-objects/kernels.hip."""
        found = 0
        for path in sorted(OBJECTS.glob("*.co")):
            code = CodeObject(path.read_bytes(), self.place)
            kernels = [name[:-3] for name in code.symbols if name.endswith(".kd")]
            self.assertTrue(kernels, path.name)
            for name in kernels:
                kernel = code.kernel(name)
                # The first instruction is where the symbol of the code is.
                self.assertEqual(kernel.entry - code.base, code.symbols[name], path.name)
                self.assertEqual(kernel.wave_size, 64 if path.name.startswith("gfx9") else 32, path.name)
                found += 1
        self.assertGreater(found, 10)

    def test_other_files_are_refused(self):
        with self.assertRaises(CodeObjectError):
            CodeObject(b"\x7fELF" + bytes(100), self.place)

    def test_memory_sees_stray_bytes(self):
        memory = Memory(6)
        self.addCleanup(memory.free)
        self.assertEqual(memory.address % 16, 0)
        memory.write(bytes(6))
        self.assertTrue(memory.canaries_stand())
        memory.size = 8
        memory.write(bytes(8))
        memory.size = 6
        self.assertFalse(memory.canaries_stand())


if __name__ == "__main__":
    unittest.main()
