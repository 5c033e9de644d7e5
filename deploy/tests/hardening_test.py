"""What ships is hardened: read out of the programs and libraries of a release build ($PITCREW_BUILD).

FORTIFY, stack protector and branch protection by their traces in the code; full RELRO, position independence, no
executable stack and no search path by headers and dynamic section. What ships is what the image recipes take from the
build, so that a new program cannot be forgotten.
"""

import os
import pathlib
import re
import struct
import unittest

import yaml

ROOT = pathlib.Path(__file__).resolve().parents[2]
RECIPES = ROOT / "deploy/image/recipes"
BUILD = pathlib.Path(os.environ.get("PITCREW_BUILD", ROOT / "build/release"))

# The names of <elf.h>.
ET_DYN = 3
EM_X86_64, EM_AARCH64 = 62, 183
PT_LOAD, PT_DYNAMIC, PT_INTERP, PT_GNU_STACK, PT_GNU_RELRO = 1, 2, 3, 0x6474E551, 0x6474E552
PF_X, PF_W = 1, 2
DT_STRTAB, DT_STRSZ, DT_RPATH, DT_TEXTREL, DT_BIND_NOW, DT_RUNPATH = 5, 10, 15, 22, 24, 29
DT_FLAGS, DT_FLAGS_1 = 30, 0x6FFFFFFB
DF_TEXTREL, DF_BIND_NOW, DF_1_NOW, DF_1_PIE = 4, 8, 1, 0x08000000
# endbr64, and bti c or paciasp: what branch protection begins a function with.
LANDING = {EM_X86_64: [b"\xf3\x0f\x1e\xfa"], EM_AARCH64: [b"\x5f\x24\x03\xd5", b"\x3f\x23\x03\xd5"]}
# An access of %fs:0x28, the stack protector's value, on x86-64.
GUARD = re.compile(rb"\x64[\x48\x4c][\x8b\x2b\x33\x3b].\x25\x28\0\0\0", re.DOTALL)


class Elf:
    """Headers and dynamic section of a 64-bit little-endian file."""

    def __init__(self, path):
        self.name = path.name
        self.data = path.read_bytes()
        assert self.data[:6] == b"\x7fELF\x02\x01", f"{path} is not a 64-bit little-endian ELF file"
        self.type, self.machine = struct.unpack_from("<HH", self.data, 16)
        offset, = struct.unpack_from("<Q", self.data, 32)
        size, count = struct.unpack_from("<HH", self.data, 54)
        self.segments = [self.Segment(*struct.unpack_from("<IIQQQQQQ", self.data, offset + index * size))
                         for index in range(count)]
        self.dynamic = {}
        for segment in self.of_type(PT_DYNAMIC):
            for at in range(segment.offset, segment.offset + segment.file_size, 16):
                tag, value = struct.unpack_from("<QQ", self.data, at)
                self.dynamic.setdefault(tag, value)
        self.strings = b""
        if DT_STRTAB in self.dynamic:
            start = self.file_offset(self.dynamic[DT_STRTAB])
            self.strings = self.data[start:start + self.dynamic[DT_STRSZ]]

    class Segment:
        def __init__(self, kind, flags, offset, address, _physical, file_size, _memory_size, _align):
            self.kind, self.flags, self.offset = kind, flags, offset
            self.address, self.file_size = address, file_size

    def of_type(self, kind):
        return [segment for segment in self.segments if segment.kind == kind]

    def file_offset(self, address):
        return next(segment.offset + address - segment.address for segment in self.of_type(PT_LOAD)
                    if segment.address <= address < segment.address + segment.file_size)

    def imports(self, pattern):
        return re.search(rb"\0" + pattern + rb"\0", self.strings) is not None

    def code(self):
        return [self.data[segment.offset:segment.offset + segment.file_size]
                for segment in self.of_type(PT_LOAD) if segment.flags & PF_X]

    @property
    def is_dynamic(self):
        return bool(self.of_type(PT_INTERP)) or ".so" in self.name

    def guards(self):
        """How often the code of x86-64 loads or compares the stack protector's value."""
        return sum(len(GUARD.findall(part)) for part in self.code())

    def landings(self):
        return sum(part.count(landing) for part in self.code() for landing in LANDING[self.machine])


def shipped():
    """The files of the build that the recipes put into images."""
    found = set()
    for recipe in RECIPES.glob("*.yaml"):
        for file in yaml.safe_load(recipe.read_text()).get("files", []):
            if file["from"].startswith("${build}/"):
                found.add(BUILD / file["from"].removeprefix("${build}/"))
    return sorted(found)


class Hardening(unittest.TestCase):
    def each(self, check):
        for path in shipped():
            with self.subTest(path.name):
                check(Elf(path))

    def test_the_recipes_name_what_ships(self):
        self.assertLessEqual({"pitcrew", "nvidia-container-runtime", "vectorAdd"},
                             {path.name for path in shipped()})

    def test_position_independent(self):
        def check(elf):
            self.assertEqual(elf.type, ET_DYN)
            if ".so" not in elf.name:
                self.assertTrue(elf.dynamic.get(DT_FLAGS_1, 0) & DF_1_PIE)
        self.each(check)

    def test_full_relro(self):
        def check(elf):
            self.assertTrue(elf.of_type(PT_GNU_RELRO))
            self.assertTrue(DT_BIND_NOW in elf.dynamic or elf.dynamic.get(DT_FLAGS, 0) & DF_BIND_NOW
                            or elf.dynamic.get(DT_FLAGS_1, 0) & DF_1_NOW)
        self.each(check)

    def test_nothing_is_writable_and_executable(self):
        def check(elf):
            stack = elf.of_type(PT_GNU_STACK)
            self.assertTrue(stack and not stack[0].flags & PF_X)
            self.assertFalse([s for s in elf.of_type(PT_LOAD) if s.flags & PF_W and s.flags & PF_X])
            self.assertFalse(DT_TEXTREL in elf.dynamic or elf.dynamic.get(DT_FLAGS, 0) & DF_TEXTREL)
        self.each(check)

    def test_no_search_path(self):
        def check(elf):
            self.assertFalse(elf.dynamic.keys() & {DT_RPATH, DT_RUNPATH})
        self.each(check)

    def test_stack_protector(self):
        # A static program imports nothing. Its libraries' code alone has a guard for each 3,500 bytes, with its own
        # code built so one for each 1,200. (On arm64 a guard looks like any other load.)
        def check(elf):
            if elf.is_dynamic:
                self.assertTrue(elf.imports(rb"__stack_chk_fail"))
            elif elf.machine == EM_X86_64:
                self.assertGreater(2048 * elf.guards(), sum(map(len, elf.code())))
        self.each(check)

    def test_fortify(self):
        # Not the shim: which of the C library's functions a static program has says nothing of who calls them.
        def check(elf):
            if elf.is_dynamic:
                self.assertTrue(elf.imports(rb"__(mem|str|read|v?f?s?n?printf|fd)[a-z]*_chk"))
        self.each(check)

    def test_branch_protection(self):
        # Each function begins with a landing. Without the option there are about ten, of the C library's start code.
        def check(elf):
            self.assertGreater(4096 * elf.landings(), sum(map(len, elf.code())))
        self.each(check)

    def test_the_shim_needs_no_loader(self):
        self.assertFalse(Elf(BUILD / "bin/nvidia-container-runtime").of_type(PT_INTERP))


if __name__ == "__main__":
    unittest.main()
