"""Memory of this process for tensors and code: each piece ends where a page that nobody may touch begins."""

import ctypes
import mmap

PAGE = mmap.PAGESIZE
_libc = ctypes.CDLL(None, use_errno=True)
_libc.mmap.restype = ctypes.c_void_p
_libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
_libc.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
_libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
PROT_NONE, PROT_READ, PROT_WRITE = 0, 1, 2
CANARY = 0xC7


class Memory:
    """`size` bytes at `address`, a multiple of `align`. Up to `align - 1` bytes behind them hold canaries, then comes the closed page; a
    closed page stands before them as well."""

    def __init__(self, size, align=16):
        self.size = size
        padded = -(-max(size, 1) // align) * align
        self._inner = -(-padded // PAGE) * PAGE
        self._whole = self._inner + 2 * PAGE
        private_anonymous = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
        start = _libc.mmap(None, self._whole, PROT_READ | PROT_WRITE, private_anonymous, -1, 0)
        if start in (None, ctypes.c_void_p(-1).value):
            raise MemoryError(f"{self._whole} bytes")
        self._start = start
        for closed in (start, start + PAGE + self._inner):
            if _libc.mprotect(closed, PAGE, PROT_NONE) != 0:
                raise OSError(ctypes.get_errno(), "mprotect")
        ctypes.memset(start + PAGE, CANARY, self._inner)
        self.address = start + PAGE + self._inner - padded
        self._padded = padded

    def write(self, data, offset=0):
        assert offset >= 0 and offset + len(data) <= self.size
        ctypes.memmove(self.address + offset, bytes(data), len(data))

    def read(self):
        return ctypes.string_at(self.address, self.size)

    def close_for_writing(self):
        """From now on a write is a fault."""
        if _libc.mprotect(self._start + PAGE, self._inner, PROT_READ) != 0:
            raise OSError(ctypes.get_errno(), "mprotect")

    def canaries_stand(self):
        before = ctypes.string_at(self._start + PAGE, self.address - self._start - PAGE)
        behind = ctypes.string_at(self.address + self.size, self._padded - self.size)
        return set(before + behind) <= {CANARY}

    def free(self):
        if self._start:
            _libc.munmap(self._start, self._whole)
            self._start = 0
