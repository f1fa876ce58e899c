"""A kernel's machine code for a named architecture: nvcc compiles it, nvdisasm lists it, without a GPU.

Registers, spills and shared memory decide how many blocks a multiprocessor holds; the multiprocessor issues
the instructions, which come with their source lines.
"""

from __future__ import annotations

import ctypes
import functools
import re
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from cudasim.building.compilers import MissingToolError, command_output
from cudasim.building.library import BuildError, digest, digest_of_headers
from cudasim.building.own_files import locked, make_folder
from cudasim.building.places import HEADER_FOLDERS, build_folder
from cudasim.building.toolchains import find_cuda_tool, find_nvcc
from cudasim.live.compiling import Instance
from cudasim.live.kernels import Kernel

_FLAGS = ("-std=c++17", "-O3", "-lineinfo", "--expt-relaxed-constexpr", "--extended-lambda", "-w")


@dataclass(frozen=True)
class MachineInstruction:
    """One instruction. guard: its predicate, such as "@!P0", or "". opcode: such as "LDG.E.128". operands:
    the rest of its text. lines: (name of the file, line) in the source, from the innermost inlined function
    outwards.
    """

    address: int
    guard: str
    opcode: str
    operands: str
    lines: tuple[tuple[str, int], ...]

    @property
    def name(self) -> str:
        """The opcode without its modifiers."""
        return self.opcode.partition(".")[0]

    @property
    def bytes(self) -> int:
        """The bytes that a load, store or atomic moves for each thread."""
        if self.name == "LDSM":
            return 4 * int(re.search(r"\.MT?88\.(\d)|$", self.opcode)[1] or 1)
        width = re.search(r"\.(U?8|S8|U16|S16|64|128)(?=\.|$)", self.opcode)
        return {"8": 1, "16": 2, "64": 8, "128": 16}.get(width[1].lstrip("US"), 4) if width else 4

    def __str__(self) -> str:
        return " ".join(filter(None, (self.guard, self.opcode, self.operands)))


@dataclass
class Block:
    """A basic block of instructions. follows: the indices of the blocks that may come next; EXIT: the
    kernel's end. is_called: whether a function of the source that was not inlined begins here."""

    index: int
    instructions: list[MachineInstruction]
    follows: list[int]
    is_called: bool = False


EXIT = -1


@dataclass(frozen=True)
class MachineCode:
    """A kernel for one architecture. registers: of a thread. shared_bytes: static, of a block. local_bytes,
    spilled_bytes: of a thread's stack, and of its spills.
    """

    name: str
    architecture: str
    registers: int
    shared_bytes: int
    local_bytes: int
    spilled_bytes: int
    text: str  # nvdisasm's listing of this kernel

    @cached_property
    def instructions(self) -> list[MachineInstruction]:
        return [line for line in _read(self.text) if isinstance(line, MachineInstruction)]

    @cached_property
    def blocks(self) -> list[Block]:
        return _blocks(self.text)


# ------------------------------------------------------------------------------------------------------------
# Reading nvdisasm's listing

_INSTRUCTION = re.compile(
    r"^\s*/\*(?P<address>[0-9a-f]{4,})\*/\s+(?P<guard>@!?U?P\w+\s+)?(?P<opcode>[A-Z][\w.]*)\s*(?P<operands>[^;]*);"
)
_SOURCE = re.compile(r'^\s*//## File "(?P<file>[^"]*)", line (?P<line>\d+)(?P<inlined> inlined at)?')
_LABEL = re.compile(r"^(?P<name>[.$\w]+):")


def _read(text: str) -> Iterator[MachineInstruction | str]:
    """The instructions and, as strings, the labels between them."""
    lines: list[tuple[str, int]] = []
    is_new = True
    for row in text.splitlines():
        if found := _SOURCE.match(row):
            if is_new:
                lines = []
            lines.append((found["file"].rpartition("/")[2], int(found["line"])))
            is_new = not found["inlined"]
            continue
        if found := _INSTRUCTION.match(row):
            is_new = True
            guard = (found["guard"] or "").strip()
            yield MachineInstruction(
                int(found["address"], 16),
                "" if guard in ("@PT", "@UPT") else guard,
                found["opcode"],
                found["operands"].strip(),
                tuple(lines),
            )
        elif found := _LABEL.match(row):
            yield found["name"]


# A function stands behind its kernel; those of the compiler, such as divisions, begin with two underscores.
_CALLED = re.compile(r"\$[^$]+\$(?!__)")
_ENDS = ("BRA", "BRX", "JMP", "JMX", "EXIT", "RET", "BREAK", "KILL")


def _blocks(text: str) -> list[Block]:
    items = list(_read(text))
    labels: dict[str, int] = {}
    blocks: list[Block] = []
    ends, is_called = True, False
    for item in items:
        if isinstance(item, str):
            ends = True
            labels[item] = len(blocks)  # the block that begins next
            is_called |= _CALLED.match(item) is not None
            continue
        if ends:
            blocks.append(Block(len(blocks), [], [], is_called))
            is_called = False
        blocks[-1].instructions.append(item)
        ends = item.name in _ENDS
    for block in blocks:
        last = block.instructions[-1] if block.instructions else None
        block.follows = _follows(block, last, labels, len(blocks))
    return blocks


def _follows(block: Block, last: MachineInstruction | None, labels: dict[str, int], count: int) -> list[int]:
    following = [block.index + 1] if block.index + 1 < count else [EXIT]
    if last is None or last.name not in _ENDS or last.name == "BREAK":
        return following
    targets = [labels[name] for name in re.findall(r"`\(([^)]*)\)", last.operands) if name in labels]
    targets = [target if target < count else EXIT for target in targets]
    if last.name in ("EXIT", "RET", "KILL"):
        targets = [EXIT]
    is_conditional = last.guard or last.operands.startswith(("P", "!P", "UP", "!UP"))
    is_conditional = is_conditional or ".DIV" in last.opcode  # taken where the warp's lanes have parted
    return list(dict.fromkeys([*targets, *(following if is_conditional else ())])) or [EXIT]


# ------------------------------------------------------------------------------------------------------------
# Compiling


def architecture_for(capability: tuple[int, int]) -> str:
    """The architecture for compiling. nvcc 13 begins with 7.5: older cards are assumed to run its code."""
    number = max(capability, (7, 5))
    return f"sm_{number[0]}{number[1]}"


def is_there() -> bool:
    """Whether there are an nvcc and an nvdisasm."""
    return find_nvcc() is not None and find_cuda_tool("nvdisasm") is not None


@functools.cache
def _identity(tool: str) -> str:
    return command_output([tool, "--version"]) or ""


def compiled(
    text: str,
    file: str,
    architecture: str,
    folders: Sequence[Path] = (),
    more: Sequence[str] = (),
    included: Sequence[str] = (),
) -> Path:
    """The folder with a source's cubin (kernel.cubin), ptxas's messages (resources.txt), the listing
    (kernel.sass) and the PTX (kernel.ptx), which nvcc makes unless they exist.

    more: flags. included: texts of the headers that the source includes, for the key. BuildError with nvcc's
    messages; MissingToolError without nvcc or nvdisasm.
    """
    nvcc, nvdisasm = find_nvcc(), find_cuda_tool("nvdisasm")
    if nvcc is None or nvdisasm is None:
        missing = "nvcc" if nvcc is None else "nvdisasm"
        raise MissingToolError(
            f"{missing} was not found ($CUDA_HOME, PATH, wheels), and it makes the machine code: "
            "pip install cudasim[nvcc]"
        )
    suffixed = architecture + ("a" if architecture in ("sm_90", "sm_100") else "")
    flags = (*_FLAGS, f"-arch={suffixed}", *more, *(f"-I{folder}" for folder in folders))
    key = digest(text, *included, nvcc, _identity(nvcc), nvdisasm, *flags)
    folder = build_folder() / "machine_code" / key[:16]
    with locked(folder.with_suffix(".lock"), top=build_folder()):
        make_folder(folder)
        if not (folder / "kernel.sass").is_file():
            (folder / file).write_text(text)
            command = [nvcc, *flags, "-Xptxas=-v", "-cubin", "--keep", file, "-o", "kernel.cubin"]
            made = subprocess.run(command, cwd=folder, capture_output=True, text=True)
            if made.returncode != 0:
                raise BuildError((made.stdout + made.stderr).strip())
            (folder / "resources.txt").write_text(made.stderr + made.stdout)
            stem = Path(file).stem
            (folder / f"{stem}.ptx").replace(folder / "kernel.ptx")
            for left in (
                *folder.glob(f"{stem}.cpp*"),
                *folder.glob(f"{stem}.cudafe*"),
                *folder.glob("*.gpu"),
            ):
                left.unlink(missing_ok=True)
            listed = subprocess.run(
                [nvdisasm, "-c", "-gi", "kernel.cubin"], cwd=folder, capture_output=True, text=True
            )
            if listed.returncode != 0:
                raise BuildError((listed.stdout + listed.stderr).strip())
            (folder / "kernel.sass").write_text(listed.stdout)
    return folder


def folder_of(kernel: Kernel, instance: Instance, architecture: str) -> Path:
    """The folder with nvcc's results for a kernel, compiled without the source's host code if possible, which
    is faster."""
    program = kernel._program
    wanted = '#line 1 "launch code"\nconst void *cudasim_wanted() '
    wanted += f"{{ return (const void *){instance.expression}; }}\n"
    included = (*program.read.texts.values(), digest_of_headers(HEADER_FOLDERS))
    for source in (program.text_for_gpu, kernel.source):
        try:
            return compiled(
                f"{source}\n{wanted}",
                program.file,
                architecture,
                (*HEADER_FOLDERS, *program.folders),
                ("-include", "sim/portable.h"),
                included,
            )
        except BuildError:
            if source is kernel.source:
                raise
    raise AssertionError("unreachable")


@functools.cache
def _demangler():
    library = ctypes.CDLL("libstdc++.so.6")
    library.__cxa_demangle.restype = ctypes.c_void_p
    free = ctypes.CDLL(None).free
    free.argtypes = (ctypes.c_void_p,)
    return library.__cxa_demangle, free


def demangled(name: str) -> str:
    """A C++ function's name as in its source."""
    function, free = _demangler()
    status = ctypes.c_int()
    pointer = function(name.encode(), None, None, ctypes.byref(status))
    if not pointer:
        return name
    text = ctypes.string_at(pointer).decode()
    free(pointer)
    return text


def _plain(template: str) -> str:
    """A template's arguments in a form that does not depend on the compiler."""
    return re.sub(r"\((?:unsigned |long |int|bool|char)+\)|(?<=\d)u?l*|\s|const|::", "", template)


def _chosen(names: list[str], kernel: Kernel, instance: Instance) -> str:
    """The mangled name of the instance among the compiled ones."""
    own = []
    for name in names:
        text = demangled(name).replace("(anonymous namespace)::", "")
        plain = re.match(r"(?:void )?(?P<name>[\w:()]+?)(?:<(?P<template>.*)>)?(?:\(.*)?$", text)
        if plain and plain["name"].split("::")[-1] == kernel.name:
            own.append((name, plain["template"] or ""))
    wanted = _plain(instance.template)
    exact = [name for name, template in own if _plain(template) == wanted]
    begins = [name for name, template in own if _plain(template).startswith(wanted)]
    for found in (exact, begins, [name for name, _ in own]):
        if found:
            return found[0]
    raise BuildError(f"nvcc has made no code of {kernel.name}, only of {', '.join(names) or 'nothing'}")


_RESOURCES = re.compile(
    r"Compiling entry function '(?P<name>[^']+)'.*?\n(?P<text>.*?)(?=ptxas info\s*: Compiling entry|\Z)", re.S
)


def machine_code(kernel: Kernel, instance: Instance, architecture: str) -> MachineCode:
    """The kernel for an architecture such as "sm_90"."""
    folder = folder_of(kernel, instance, architecture)
    every = codes_in(folder, architecture)
    return every[_chosen(list(every), kernel, instance)]


def codes_in(folder: Path, architecture: str) -> dict[str, MachineCode]:
    """All kernels compiled there, by their mangled names."""
    said = {
        found["name"]: found["text"] for found in _RESOURCES.finditer((folder / "resources.txt").read_text())
    }
    listing = (folder / "kernel.sass").read_text()

    def number(name: str, pattern: str) -> int:
        found = re.search(pattern, said[name])
        return int(found[1]) if found else 0

    codes = {}
    for name in said:
        begin = listing.index(f"\t.section\t.text.{name},")
        end = listing.find("\t.section\t", begin + 1)
        codes[name] = MachineCode(
            name,
            architecture,
            number(name, r"Used (\d+) registers"),
            number(name, r"(\d+)(?:\+\d+)? bytes smem"),
            number(name, r"(\d+) bytes stack frame"),
            number(name, r"(\d+) bytes spill stores") + number(name, r"(\d+) bytes spill loads"),
            listing[begin : end if end > 0 else len(listing)],
        )
    return codes
