"""Element types by hipDNN's names: bytes to Python numbers and back, and how exact each is."""

import array
import random
import struct
import sys

assert sys.byteorder == "little"

_CODES = {"float": "f", "double": "d", "int32": "i", "int8": "b", "uint8": "B", "boolean": "B"}
SIZES = {"float": 4, "double": 8, "half": 2, "bfloat16": 2, "int32": 4, "int8": 1, "uint8": 1, "boolean": 1}
# Half a unit in the last place relative to the value, and half the smallest step.
UNITS = {"float": (2.0**-24, 2.0**-150), "double": (2.0**-53, 2.0**-1075), "half": (2.0**-11, 2.0**-25), "bfloat16": (2.0**-8, 2.0**-134)}
RANGES = {"int32": (-(2**31), 2**31 - 1), "int8": (-128, 127), "uint8": (0, 255)}


def decode(data, dtype):
    """All elements of a run of bytes."""
    if dtype == "half":
        return list(struct.unpack(f"<{len(data) // 2}e", data))
    if dtype == "bfloat16":
        wide = array.array("I", [bits << 16 for bits in array.array("H", data)])
        return array.array("f", wide.tobytes()).tolist()
    return array.array(_CODES[dtype], data).tolist()


def encode(values, dtype):
    if dtype == "half":
        return struct.pack(f"<{len(values)}e", *values)
    if dtype == "bfloat16":
        return array.array("H", [bits >> 16 for bits in array.array("I", array.array("f", values).tobytes())]).tobytes()
    return array.array(_CODES[dtype], values).tobytes()


def draw(count, dtype, rng: random.Random, low=-1.0, high=1.0):
    """Random elements as they are stored."""
    if dtype in ("int8", "uint8", "int32"):
        bounds = {"int8": (-128, 127), "uint8": (0, 255), "int32": (-1000, 1000)}[dtype]
        return encode([rng.randint(*bounds) for _ in range(count)], dtype)
    if dtype == "boolean":
        return bytes(rng.randint(0, 1) for _ in range(count))
    return encode([rng.uniform(low, high) for _ in range(count)], dtype)


def stored(value, dtype):
    """An exact result as an element: integers are rounded to nearest even and saturated."""
    if dtype in RANGES:
        low, high = RANGES[dtype]
        return 0 if value != value else int(max(low, min(high, round(value) if abs(value) < 2**62 else value)))
    if dtype == "boolean":
        return int(value != 0)
    return value
