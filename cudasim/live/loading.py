"""Loading a compiled source: its kernels, their types, its variables in device memory."""

from __future__ import annotations

import functools
import re
import signal
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import cffi

from cudasim.building.library import BuildError, ffi, simulator
from cudasim.live.arguments import Member, Type
from cudasim.live.compiling import Instance


@dataclass(frozen=True)
class Entry:
    """One kernel in a compiled library. function: enter_<n> for the simulator, launch_<n> for a GPU. cluster:
    the blocks of a cluster along x, y and z.
    """

    function: object
    types: tuple[Type, ...]
    cluster: tuple[int, int, int] = (1, 1, 1)


@dataclass(frozen=True)
class Loaded:
    """A compiled source. variables: those in device memory, with their addresses."""

    library: object
    entries: dict[str, Entry]
    variables: dict[str, tuple[Type, int]]


_DESCRIPTIONS = """
typedef struct sim_described {
    const char *name;
    char kind;
    unsigned long long size, alignment;
    const struct sim_described *item;
} sim_described;
typedef struct sim_named {
    const char *name;
    const sim_described *type;
    unsigned long long offset;
    void *address;
} sim_named;
const sim_named *device_variables(void);
"""


class _Reader:
    """Reads descriptions of types from a library."""

    def __init__(self, interface: cffi.FFI, library, structs: Sequence[str]):
        self._interface = interface
        self._library = library
        self._structs = {}  # by the compiler's name
        for index, _ in enumerate(structs):
            members = getattr(library, f"members_{index}")()
            last = 0
            while members[last].name:
                last += 1
            self._structs[self._name(members[last].type)] = (members, last)

    def _name(self, described) -> str:
        name = self._interface.string(described.name).decode()
        return re.sub(r"^.*?\bT = (.*?)(?:;.*)?\]$", r"\1", name).replace("{anonymous}::", "")

    def type(self, described, with_members: bool = True) -> Type:
        name = self._name(described)
        kind = described.kind.decode()
        item = (
            self.type(described.item, kind != "p") if described.item else None
        )  # a struct may have a pointer to itself
        members = ()
        if kind == "s" and with_members and name in self._structs:
            entries, count = self._structs[name]
            members = tuple(
                Member(self._interface.string(entry.name).decode(), self.type(entry.type), entry.offset)
                for entry in (entries[index] for index in range(count))
            )
        return Type(name, kind, described.size, described.alignment, item, members)

    def all(self, entries) -> list:
        found = []
        while entries[len(found)].name:
            found.append(entries[len(found)])
        return found


# What the compiler calls a file's function that initialises variables as the file is loaded.
_INITIALISES = b"_GLOBAL__sub_I_"
_TRIAL = "import ctypes, sys; print([ctypes.CDLL(each, ctypes.RTLD_GLOBAL) for each in sys.argv[1:]])"
_SECONDS_OF_TRIAL = 20


def _try_initialisers(path: Path):
    """Loads the source in a process of its own first, where variables have initialisers that run then: nobody
    could stop one in this process, nor go on after its crash."""
    if _INITIALISES not in path.read_bytes():
        return
    try:
        ended = subprocess.run(
            [sys.executable, "-IS", "-c", _TRIAL, simulator().path, path],
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_SECONDS_OF_TRIAL,
        )
    except subprocess.TimeoutExpired:
        how = f"does not end within {_SECONDS_OF_TRIAL} seconds"
    else:
        if ended.returncode == 0 and ended.stdout:
            return
        code = ended.returncode
        how = (
            f"ends the process: {signal.Signals(-code).name if code < 0 else f'code {code}'}\n{ended.stderr}"
        )
    raise BuildError(f"the initialiser of a variable, which runs when the source is loaded, {how}".rstrip())


@functools.cache
def _interface(on_simulator: bool, instances: int, structs: int) -> cffi.FFI:
    """The interface of every library with so many kernels and structs: cffi takes long to read it."""
    functions = [f"const sim_named *members_{index}(void);" for index in range(structs)]
    for index in range(instances):
        functions.append(f"const sim_named *parameters_{index}(void);")
        if on_simulator:
            functions.append(f"void enter_{index}(const void *arguments);")
            functions.append(f"unsigned cluster_{index}(int axis);")
        else:
            sizes = "dim3 grid, dim3 block, unsigned long long shared_bytes"
            functions.append(f"int launch_{index}({sizes}, void **arguments, void *stream);")
    if not on_simulator:
        functions.append("const char *error_string(int error);")
    interface = cffi.FFI()
    interface.include(ffi())
    interface.cdef(_DESCRIPTIONS + "\n".join(functions))
    return interface


def load(path: Path, device: str, instances: Sequence[Instance], structs: dict) -> Loaded:
    interface = _interface(device == "cpu", len(instances), len(structs))
    if device == "cpu":
        simulator().load()  # the loader then finds it by its name
        _try_initialisers(path)
    library = interface.dlopen(str(path))
    reader = _Reader(interface, library, list(structs))
    entries = {}
    for index, instance in enumerate(instances):
        types = tuple(
            reader.type(entry.type) for entry in reader.all(getattr(library, f"parameters_{index}")())
        )
        if device == "cpu":
            function = interface.addressof(library, f"enter_{index}")
            cluster = tuple(getattr(library, f"cluster_{index}")(axis) for axis in range(3))
            entries[instance.expression] = Entry(function, types, cluster)
        else:
            entries[instance.expression] = Entry(getattr(library, f"launch_{index}"), types)
    variables = {
        interface.string(entry.name).decode(): (
            reader.type(entry.type),
            int(interface.cast("uintptr_t", entry.address)),
        )
        for entry in reader.all(library.device_variables())
    }
    return Loaded(library, entries, variables)
