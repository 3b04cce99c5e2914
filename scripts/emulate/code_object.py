"""AMD code objects: an ELF file's segments in memory, and the descriptor of one of its kernels."""

import struct
from dataclasses import dataclass

PT_LOAD, PT_DYNAMIC = 1, 2
SHT_DYNSYM = 11
DT_RELA, DT_REL, DT_JMPREL = 7, 17, 23
EM_AMDGPU = 224
PAGE = 4096

# Order and registers of the user SGPRs that a descriptor may ask for (bits 0 to 6 of its properties), and whether kernels without private
# memory can do with zeros there.
USER_SGPRS = [
    ("private segment buffer", 4, True),
    ("dispatch packet", 2, False),
    ("queue", 2, False),
    ("kernarg segment", 2, False),
    ("dispatch id", 2, False),
    ("flat scratch", 2, True),
    ("private segment size", 1, True),
]


class CodeObjectError(Exception):
    pass


@dataclass
class Kernel:
    """What a descriptor says, and the address of the first instruction in the loaded image."""

    entry: int
    lds: int
    scratch: int
    kernarg_size: int
    rsrc1: int
    rsrc2: int
    properties: int
    preload: int

    @property
    def wave_size(self):
        return 32 if self.properties & 1 << 10 else 64

    @property
    def keeps_denormals(self):
        """Whether operands and results of 32 bits, and of 16 and 64, may be denormal (FLOAT_DENORM_MODE)."""
        return self.rsrc1 >> 16 & 15 == 15

    def user_sgprs(self, kernarg):
        """The registers that a wave starts with. Only the address of the arguments can be given here."""
        if self.preload:
            raise CodeObjectError("the kernel wants its arguments preloaded into registers, which is not implemented")
        registers = []
        for bit, (what, count, may_be_zero) in enumerate(USER_SGPRS):
            if not self.properties & 1 << bit:
                continue
            if what == "kernarg segment":
                registers += [kernarg & 0xFFFFFFFF, kernarg >> 32]
            elif may_be_zero and self.scratch == 0:
                registers += [0] * count
            else:
                raise CodeObjectError(f"the kernel wants its {what}, which is not implemented")
        wanted = self.rsrc2 >> 1 & 31
        if len(registers) > wanted:
            raise CodeObjectError(f"the kernel has {wanted} user registers and asks for {len(registers)}")
        return registers + [0] * (wanted - len(registers))


class CodeObject:
    """A code object, with its segments where `place(bytes, size)` put them."""

    def __init__(self, data, place):
        if data[:6] != b"\x7fELF\x02\x01" or struct.unpack_from("<H", data, 18)[0] != EM_AMDGPU:
            raise CodeObjectError("this is no code object: expected a 64-bit ELF file of machine 224")
        phoff, shoff = struct.unpack_from("<QQ", data, 32)
        phentsize, phnum, shentsize, shnum = struct.unpack_from("<HHHH", data, 54)
        headers = [struct.unpack_from("<IIQQQQQQ", data, phoff + i * phentsize) for i in range(phnum)]
        loads = [h for h in headers if h[0] == PT_LOAD]
        image = bytearray(max(h[3] + h[6] for h in loads))
        for _, _, offset, address, _, size, _, _ in loads:
            image[address : address + size] = data[offset : offset + size]
        for _, _, offset, _, _, size, _, _ in (h for h in headers if h[0] == PT_DYNAMIC):
            tags = [struct.unpack_from("<Q", data, at)[0] for at in range(offset, offset + size, 16)]
            if any(tag in tags for tag in (DT_RELA, DT_REL, DT_JMPREL)):
                raise CodeObjectError("the code object has relocations: hipplan's have none")
        self.image = bytes(image)
        self.size = -(-len(image) // PAGE) * PAGE
        self.base = place(self.image, self.size)
        sections = [struct.unpack_from("<IIQQQQIIQQ", data, shoff + i * shentsize) for i in range(shnum)]
        self.symbols = {}
        for section in (s for s in sections if s[1] == SHT_DYNSYM):
            names = sections[section[6]][4]
            for at in range(section[4], section[4] + section[5], 24):
                name, _, _, _, value, _ = struct.unpack_from("<IBBHQQ", data, at)
                start = names + name
                self.symbols[data[start : data.index(b"\0", start)].decode()] = value

    def kernel(self, name):
        if name + ".kd" not in self.symbols:
            raise CodeObjectError(f"there is no kernel {name}, only {sorted(self.symbols)}")
        at = self.symbols[name + ".kd"]
        lds, scratch, kernarg_size = struct.unpack_from("<III", self.image, at)
        (entry,) = struct.unpack_from("<q", self.image, at + 16)
        _, rsrc1, rsrc2, properties, preload = struct.unpack_from("<IIIHH", self.image, at + 44)
        return Kernel(self.base + at + entry, lds, scratch, kernarg_size, rsrc1, rsrc2, properties, preload)
