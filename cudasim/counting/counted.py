"""Count and check what kernels do to memory, on the simulator and without a GPU.

`count()` and `count_lines()` run a call and return what each of its launches asked of memory, as a profiler
would: the columns are the names that Nsight Compute (ncu) has for the same numbers. `check()` runs a call and
raises KernelFault at the first access that is out of bounds or misaligned, reads shared memory that nobody
has written, or races with another thread; at a barrier that not all threads reach; at a shuffle that waits in
vain. Counting checks as well.

A call is anything without arguments that launches kernels on arrays or tensors of the CPU:

    cudasim.count(lambda: scale[grid, block](y, x, 2.0, n))

Several threads may count and check at a time, each its own call: their launches take turns. A count or a
check follows its call into the threads that the call starts, and a fault in one of them is raised when the
call has ended. It does not follow into threads that ran before (a pool of the user's own): those run
unchecked.

Global requests, sectors and bytes equal those of ncu on an H200 for every kernel that is recorded, and so do
shared requests and wavefronts where a kernel states its access widths: tests/fgn/test_agreement.py has the
recorded numbers, and the differences with their reasons.
"""

from __future__ import annotations

import contextlib
import contextvars
import functools
import math
import os
import sys
import threading
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path

import pandas as pd

from cudasim.arrays import Array, array_of, is_array, on_cpu
from cudasim.building.library import COUNTED_SIMULATOR, ffi, is_counting
from cudasim.building.lines import frames_of
from cudasim.building.places import MAPPED, PACKAGES, SOURCES
from cudasim.source import launched_sources

# ------------------------------------------------------------------------------------------------------------
# Faults


class KernelFault(RuntimeError):
    """A kernel did what no kernel may do. The message tells it in words; programs read the attributes.

    kind: "out of bounds", "misaligned", "uninitialised" (shared memory), "unwritten" (global memory, where
    `check()` was told so), "race", "race between blocks", "barrier divergence",
    "missing lane", "lane not in mask", "shuffle width", "invalid launch", "out of memory", "interrupted",
    "assertion", "trap", "undefined arithmetic" (a conversion to an integer that cannot hold the value, a
    shift by too many bits) or "crash" (the processor refused an access, or a division by zero); of Hopper's
    machine "deadlock", "mbarrier misuse", "block has exited", "race for a stage", "missing proxy fence",
    "missing register fence", "sums not waited for" or "wrong layout".
    kernel: its name. file, line: where it happened. block, thread: which thread did it, as (x, y, z). index:
    in elements of the argument or array. other_thread, other_block, other_file, other_line: the same of the
    second thread, when there are two. An attribute that does not apply is None.
    """

    def __init__(self, message: str, **fields):
        super().__init__(message)
        self.kind: str = fields["kind"]
        self.kernel: str = fields["kernel"]
        self.file: str | None = fields.get("file")
        self.line: int | None = fields.get("line")
        self.block: tuple[int, int, int] | None = fields.get("block")
        self.thread: tuple[int, int, int] | None = fields.get("thread")
        self.index: int | None = fields.get("index")
        self.other_file: str | None = fields.get("other_file")
        self.other_line: int | None = fields.get("other_line")
        self.other_block: tuple[int, int, int] | None = fields.get("other_block")
        self.other_thread: tuple[int, int, int] | None = fields.get("other_thread")

    def _render_traceback_(self) -> list[str]:
        """What a notebook shows: the fault and the kernel's own lines, and no call of Python's."""
        places = [(self.file, self.line), (self.other_file, self.other_line)]
        shown = [f"\033[1;31mKernelFault\033[0m: {self}"]
        for file in dict.fromkeys(file for file, line in places if file and line):
            marked = {line for of, line in places if of == file and line}
            shown += ["", f"{file}:", *_excerpt(file, marked)]
        return shown


def _excerpt(file: str, marked: set[int]) -> list[str]:
    """The marked lines of a source, each with two lines around it; [] when there is no such text."""
    path = Path(file)
    text = launched_sources.get(file) or (path.read_text() if path.is_file() else "")
    lines = text.splitlines()
    near = sorted({n for line in marked for n in range(line - 2, line + 3) if 0 < n <= len(lines)})
    shown = []
    for before, number in zip([None, *near], near, strict=False):
        if before is not None and number > before + 1:
            shown.append("      ...")
        arrow = "\033[1;31m->\033[0m" if number in marked else "  "
        shown.append(f"{arrow} {number:>4}  {lines[number - 1]}")
    return shown


KINDS = {
    "SIM_INVALID_LAUNCH": "invalid launch",
    "SIM_BARRIER_DIVERGENCE": "barrier divergence",
    "SIM_MISSING_LANE": "missing lane",
    "SIM_LANE_NOT_IN_MASK": "lane not in mask",
    "SIM_SHUFFLE_WIDTH": "shuffle width",
    "SIM_MISALIGNED": "misaligned",
    "SIM_OUT_OF_MEMORY": "out of memory",
    "SIM_INTERRUPTED": "interrupted",
    "SIM_OUT_OF_BOUNDS": "out of bounds",
    "SIM_UNINITIALISED": "uninitialised",
    "SIM_RACE": "race",
    "SIM_BLOCK_RACE": "race between blocks",
    "SIM_ASSERTION": "assertion",
    "SIM_TRAP": "trap",
    "SIM_SHUFFLE_SOURCE": "shuffle source",
    "SIM_CRASH": "crash",
    "SIM_UNDEFINED": "undefined arithmetic",
    "SIM_DEADLOCK": "deadlock",
    "SIM_MBARRIER_MISUSE": "mbarrier misuse",
    "SIM_WRONG_LAYOUT": "wrong layout",
    "SIM_BLOCK_HAS_EXITED": "block has exited",
    "SIM_STAGE_RACE": "race for a stage",
    "SIM_NO_PROXY_FENCE": "missing proxy fence",
    "SIM_PENDING_SUMS": "sums not waited for",
    "SIM_NO_REGISTER_FENCE": "missing register fence",
    "SIM_UNWRITTEN": "unwritten",
}


def _string(pointer) -> str | None:
    return ffi().string(pointer).decode() if pointer else None


def _source_file(name: str | None) -> str | None:
    """The path here of a source file, whose library may have been built on another machine."""
    for mapped, folder in MAPPED.items():
        if name and name.startswith(f"{mapped}/"):
            return str(folder / name.removeprefix(f"{mapped}/"))
    return name


def _triple(value) -> tuple[int, int, int]:
    return value.x, value.y, value.z


class KernelWarning(UserWarning):
    """Threads of a kernel write the same value to the same place, and nothing orders their writes: the result
    is right, by chance or by design."""


def _located(library, report, message: str, kernel: str) -> str:
    """The message, with the source lines of the accesses that it names."""
    if report.pc:
        message = message.replace(f"in {kernel}:", f"in {kernel} ({_place_of(library, report.pc)}):", 1)
    told, _, advice = message.partition("\n")
    told += f" at {_place_of(library, report.other_pc)}" if report.other_pc else ""
    return f"{told}. {advice}" if advice else told


def callers_level() -> int:
    """The stacklevel by which a warning is at the line that called this package, or one that stands on it."""
    frame, level = sys._getframe(1), 1
    inside = (*map(str, PACKAGES), contextlib.__file__)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(inside):
        frame, level = frame.f_back, level + 1
    return level


def _warn(library):
    for index in range(library.counted_warning_count()):
        report = library.counted_warning_at(index)
        message = _located(library, report, _string(report.message), _string(report.kernel))
        warnings.warn(message, KernelWarning, stacklevel=callers_level())


def fault(library) -> KernelFault | None:
    """Why the simulator's last launch on this OS thread failed; None when it did not, or on a GPU.

    library: what `Library.load()` returned.
    """
    try:
        report = library.sim_last_report()
    except AttributeError:
        return None
    if report.kind == library.SIM_NO_REPORT:
        return None
    message, kernel = _string(report.message), _string(report.kernel)
    fields = {
        "kind": next(kind for name, kind in KINDS.items() if getattr(library, name) == report.kind),
        "kernel": kernel,
        "file": _source_file(_string(report.file)),
        "line": report.line or None,
    }
    if report.has_thread:
        fields |= {"block": _triple(report.block), "thread": _triple(report.thread)}
    if report.has_index:
        fields["index"] = report.index
    if report.has_other:
        fields |= {
            "other_thread": _triple(report.other),
            "other_block": _triple(report.block),
            "other_file": _source_file(_string(report.other_file)),
            "other_line": report.other_line or None,
        }
    if report.pc:
        place = _place_of(library, report.pc)
        fields |= {"file": place.file, "line": place.line}
    if report.other_pc:
        place = _place_of(library, report.other_pc)
        fields |= {"other_file": place.file, "other_line": place.line}
        fields["other_block"] = _triple(report.other_block)
    found = KernelFault(_located(library, report, message, kernel), **fields)
    session = _session.get()
    if session is not None and session.thread != threading.get_ident() and not session.fault_elsewhere:
        session.fault_elsewhere = found
    return found


# ------------------------------------------------------------------------------------------------------------
# Places in source files


@dataclass(frozen=True)
class Place:
    """A line of a source file. callers: from where it was inlined, the nearest first."""

    file: str
    line: int
    callers: tuple[tuple[str, int], ...] = field(default=(), compare=False)

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


UNKNOWN = Place("??", 0)

# Functions of these files stand for one instruction each, so an access in them has the place of the line that
# calls the function.
_BUILT_INS = SOURCES / "sim"


def _is_built_in(file: str) -> bool:
    return Path(file).resolve().is_relative_to(_BUILT_INS) or "/include/c++/" in file


def _places(library: str, offsets: tuple[int, ...]) -> dict[int, Place]:
    places = {}
    for offset, frames in frames_of(Path(library), offsets).items():
        own = [(str(Path(_source_file(file))), line) for file, line in frames]
        own = [frame for frame in own if not _is_built_in(frame[0])]
        places[offset] = Place(*own[0], tuple(own[1:])) if own else UNKNOWN
    return places


@functools.cache
def _known_places(library: str, modified: int) -> dict[int, Place]:
    """The places found so far in a library, which `_find_places()` fills. modified: a rebuilt file begins
    with none."""
    return {}


def _find_places(library: str, offsets: set[int]) -> dict[int, Place]:
    known = _known_places(library, Path(library).stat().st_mtime_ns)
    missing = tuple(sorted(offsets - known.keys()))
    if missing:
        known |= _places(library, missing)
    return known


def _place_of(library, pc: int) -> Place:
    offset = ffi().new("unsigned long long *")
    file = _string(library.sim_library_of(pc, offset))
    return _find_places(file, {offset[0]})[offset[0]] if file else UNKNOWN


def places_of(library, counters: set[int]) -> dict[int, Place]:
    """The place of each program counter; `library` is what `COUNTED_SIMULATOR.load()` returned."""
    by_file: dict[str | None, dict[int, int]] = {}
    for pc in counters:
        offset = ffi().new("unsigned long long *")
        file = _string(library.sim_library_of(pc, offset))
        by_file.setdefault(file, {})[pc] = offset[0]
    found: dict[int, Place] = {}
    for file, offsets in by_file.items():
        places = _find_places(file, set(offsets.values())) if file else {}
        found |= {pc: places.get(offset, UNKNOWN) for pc, offset in offsets.items()}
    return found


# ------------------------------------------------------------------------------------------------------------
# Recording

# The GPU whose L2 cache is modelled, if no other is named.
H200_L2_BYTES = 50 << 20
H200_MULTIPROCESSORS = 132


class _Session:
    """One call of `count()` or `check()`: its settings, and what its launches did."""

    def __init__(self, multiprocessors: int, l2_bytes: int, keeps_warps: bool, only_checks: bool):
        self.multiprocessors, self.l2_bytes, self.keeps_warps = multiprocessors, l2_bytes, keeps_warps
        self.only_checks = only_checks
        self.launches: list[Launch] = []
        self.dtypes: dict[int, str] = {}  # of the tensors that kernels may access, by address
        self.thread = threading.get_ident()
        self.fault_elsewhere: KernelFault | None = None
        self.has_ended = False
        self.is_recorded = True  # whether anybody asks for its launches
        self.unwritten: list[tuple[int, Array]] = []  # where memory began unwritten, and its map

    def map_of(self, address: int, size: int) -> int | None:
        """The address of the map of what has been written there; None where all is taken to be."""
        for begin, written in self.unwritten:
            if begin <= address and address + size <= begin + written.nbytes:
                return written.address + address - begin
        return None


_session: ContextVar[_Session | None] = ContextVar("session", default=None)

# The counted simulator has one table of the memory that kernels may access, and one list of launches: from
# allow() to forbid_all() it belongs to one thread.
_turn = threading.RLock()
_has_turn = threading.local()


def _renew_turn():
    # A fork may leave the lock to a thread that the child does not have.
    global _turn, _has_turn
    _turn, _has_turn = threading.RLock(), threading.local()


os.register_at_fork(after_in_child=_renew_turn)


def allow(place: Callable[[int], int] = int, /, **tensors):
    """Lets kernels access these CPU tensors until `forbid_all()`. The tensors' names go into reports. place:
    where the launch has the memory of an address, if it runs on copies.

    Until then no other thread runs kernels that are counted. Does nothing outside `recording()`: only then
    accesses are checked. RuntimeError when the count or check that started this thread has ended.
    """
    session = _session.get()
    if session is None:
        return
    if session.has_ended:
        raise RuntimeError("check: the count or check whose call started this thread has ended before it")
    library = COUNTED_SIMULATOR.load()
    if not getattr(_has_turn, "now", False):
        _turn.acquire()
        _has_turn.now = True
        library.counted_clear()
        library.counted_set_gpu(session.multiprocessors, session.l2_bytes)
        library.counted_keep_warps(session.keeps_warps)
        library.counted_only_check(session.only_checks)
    for name, tensor in tensors.items():
        array = None if tensor is None else array_of(tensor)
        if array is not None and array.count > 0:
            address = place(array.address)
            session.dtypes[address] = array.dtype
            pointer = ffi().cast("void *", address)
            library.counted_allow(pointer, array.nbytes, array.itemsize, name.encode())
            if written := session.map_of(array.address, array.nbytes):
                library.counted_unwritten(ffi().cast("unsigned char *", written))


def forbid_all():
    """Ends what `allow()` began, and takes what the launches since then did."""
    if not getattr(_has_turn, "now", False):
        return
    library = COUNTED_SIMULATOR.load()
    try:
        session = _session.get()
        if session is not None and not session.has_ended:
            if session.is_recorded:
                session.launches.extend(_launches(library))
            _warn(library)
        library.counted_clear()
        library.counted_forbid_all()
    finally:
        _has_turn.now = False
        _turn.release()


@dataclass(frozen=True)
class Instruction:
    """One load, store or atomic of a kernel, and what it did in one launch; see counted.h for the numbers."""

    place: Place
    space: str
    operation: str
    bytes: int
    requests: int
    threads: int
    addresses: int
    sectors: int
    wavefronts: int
    phases: int


@dataclass(frozen=True)
class Launch:
    """What one launch did."""

    kernel: str
    file: str
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    dynamic_shared_bytes: int
    barriers: int
    warp_operations: int
    tensor_copies: int
    tensor_bytes: int
    tensor_stores: int
    tensor_stored_bytes: int
    products: int
    product_bytes: int
    sectors_read: int
    sectors_written: int
    dram_sectors_read: int
    dram_sectors_written: int
    instructions: tuple[Instruction, ...]
    warps: tuple[tuple, ...]  # block, warp and their numbers, where they are kept


def _warps(record) -> Iterator[tuple]:
    for index in range(record.warp_count):
        warp = record.warps[index]
        numbers = (warp.global_requests, warp.sectors, warp.shared_requests, warp.wavefronts)
        yield warp.block, warp.warp, tuple(tuple(of) for of in numbers)


def _launches(library) -> Iterator[Launch]:
    """The launches since `counted_clear()`, in order."""
    spaces = {library.COUNTED_GLOBAL: "global", library.COUNTED_SHARED: "shared"}
    operations = {library.COUNTED_LOAD: "ld", library.COUNTED_STORE: "st", library.COUNTED_ATOMIC: "atom"}
    numbers = ("bytes", "requests", "threads", "addresses", "sectors", "wavefronts", "phases")
    plain = (
        *("dynamic_shared_bytes", "barriers", "warp_operations", "sectors_read", "sectors_written"),
        *("dram_sectors_read", "dram_sectors_written"),
        *("tensor_copies", "tensor_bytes", "tensor_stores", "tensor_stored_bytes"),
        *("products", "product_bytes"),
    )
    records = [library.counted_launch_at(index) for index in range(library.counted_launch_count())]
    offsets: dict[str, set[int]] = {}
    for record in records:
        for index in range(record.instruction_count):
            instruction = record.instructions[index]
            offsets.setdefault(_string(instruction.library), set()).add(instruction.offset)
    places = {file: _find_places(file, wanted) for file, wanted in offsets.items()}
    for record in records:
        instructions = []
        for index in range(record.instruction_count):
            instruction = record.instructions[index]
            instructions.append(
                Instruction(
                    places[_string(instruction.library)][instruction.offset],
                    spaces[instruction.space],
                    operations[instruction.operation],
                    **{name: getattr(instruction, name) for name in numbers},
                )
            )
        yield Launch(
            kernel=_string(record.kernel),
            file=_source_file(_string(record.file)),
            grid=_triple(record.grid),
            block=_triple(record.block),
            **{name: getattr(record, name) for name in plain},
            instructions=tuple(instructions),
            warps=tuple(_warps(record)),
        )


_recordings = 0
_plain_start = threading.Thread.start


def _start_in_context(thread: threading.Thread):
    """Stands for threading.Thread.start() while something is recorded, so that the new thread is recorded
    too."""
    if _session.get() is not None:
        context, run = contextvars.copy_context(), thread.run
        thread.run = lambda: context.run(run)
    _plain_start(thread)


def _threads_follow(begins: bool):
    global _recordings, _plain_start
    with _turn:
        if begins and _recordings == 0:
            _plain_start = threading.Thread.start
            threading.Thread.start = _start_in_context
        _recordings += 1 if begins else -1
        if _recordings == 0:
            threading.Thread.start = _plain_start


def dtype_at(address: int) -> str | None:
    """The name of the dtype of the tensor that begins at this address, if a kernel of this count or check may
    access it."""
    session = _session.get()
    return session.dtypes.get(address) if session is not None else None


def only_checks() -> bool:
    """Whether CPU tensors run on the simulator that counts and checks, and nothing is counted."""
    session = _session.get()
    return session is not None and session.only_checks


@contextmanager
def recording(
    multiprocessors: int = H200_MULTIPROCESSORS,
    l2_bytes: int = H200_L2_BYTES,
    keeps_warps: bool = False,
    only_checks: bool = False,
    unwritten: Iterable[Array] = (),
) -> Iterator[list[Launch]]:
    """In this context CPU tensors run on the simulator that counts and checks.

    multiprocessors, l2_bytes: of the GPU whose L2 cache is modelled. keeps_warps: whether launches keep what
    each warp did. only_checks: nothing is counted, and the list stays empty. unwritten: as for `check()`.

    Yields a list, which has all launches when the context has ended. A fault is raised where it happens, as
    KernelFault, from the function whose kernel it is in; one of another thread also when the context ends.
    """
    COUNTED_SIMULATOR.load()
    if is_counting.get():
        raise RuntimeError("recording: another recording is running")
    launches: list[Launch] = []
    session = _Session(multiprocessors, l2_bytes, keeps_warps, only_checks)
    for x in unwritten:
        if x.nbytes:
            session.unwritten.append((x.address, on_cpu(bytearray(x.nbytes))))
    tokens = is_counting.set(True), _session.set(session)
    _threads_follow(True)
    try:
        yield launches
    finally:
        forbid_all()
        session.has_ended = True
        _threads_follow(False)
        is_counting.reset(tokens[0])
        _session.reset(tokens[1])
        launches.extend(session.launches)
    if session.fault_elsewhere is not None:
        raise session.fault_elsewhere


@contextmanager
def one_block_at_a_time() -> Iterator[None]:
    """In this context one OS thread runs the blocks of what this thread counts and checks, in their order:
    of several faults that a kernel has, the same one is told each time."""
    library = COUNTED_SIMULATOR.load()
    library.sim_set_own_threads(1)
    try:
        yield
    finally:
        library.sim_set_own_threads(0)


@contextmanager
def checking() -> Iterator[None]:
    """In this context CPU tensors run on the simulator that checks; nothing is recorded."""
    session = _Session(H200_MULTIPROCESSORS, H200_L2_BYTES, False, only_checks=True)
    session.is_recorded = False
    tokens = is_counting.set(True), _session.set(session)
    try:
        yield
    finally:
        forbid_all()
        is_counting.reset(tokens[0])
        _session.reset(tokens[1])


# ------------------------------------------------------------------------------------------------------------
# Metrics, by ncu's names


def _of(instructions, space: str, operation: str) -> list[Instruction]:
    return [each for each in instructions if each.space == space and each.operation == operation]


def _metrics(instructions) -> dict[str, int]:
    """What instructions did, by ncu's names."""
    values = {}
    for operation in ("ld", "st", "atom"):
        chosen = _of(instructions, "global", operation)
        values[f"l1tex__t_requests_pipe_lsu_mem_global_op_{operation}.sum"] = sum(i.requests for i in chosen)
        values[f"l1tex__t_sectors_pipe_lsu_mem_global_op_{operation}.sum"] = sum(i.sectors for i in chosen)
    for space in ("global", "shared"):
        for operation in ("ld", "st"):
            chosen = _of(instructions, space, operation)
            name = f"smsp__sass_data_bytes_mem_{space}_op_{operation}.sum"
            values[name] = sum(i.addresses * i.bytes for i in chosen)
    for operation in ("ld", "st", "atom"):
        chosen = _of(instructions, "shared", operation)
        values[f"smsp__inst_executed_op_shared_{operation}.sum"] = sum(i.requests for i in chosen)
        name = f"l1tex__data_pipe_lsu_wavefronts_mem_shared_op_{operation}.sum"
        values[name] = sum(i.wavefronts for i in chosen)
        name = f"l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_{operation}.sum"
        values[name] = sum(i.wavefronts - i.phases for i in chosen)
    return values


def expect_function(call: object) -> None:
    """TypeError for what is no function. Where the caller forgot `lambda:`, the call is over before counting
    begins."""
    if not callable(call):
        raise TypeError(f"call: expected a function, as in lambda: kernel[grid, block](...), got {call!r}")


def _run(call: Callable[[], object], **settings) -> list[Launch]:
    expect_function(call)
    with recording(**settings) as launches:
        call()
    return launches


def count(
    call: Callable[[], object], l2_bytes: int = H200_L2_BYTES, multiprocessors: int = H200_MULTIPROCESSORS
) -> pd.DataFrame:
    """Runs `call` and returns a row for each of its launches, in order.

    Columns: kernel; grid and block, as (x, y, z); metrics by ncu's names; and, which ncu has no names for,

    unique_sectors_read, unique_sectors_written: of 32 bytes, of the whole launch: what must come from DRAM if
        nothing is in a cache before, and what must go there at some time.
    barriers: __syncthreads(), once for each warp. warp_operations: shuffles, votes, __syncwarp(), likewise.
    tensor_copies, tensor_bytes: boxes that TMA was asked for and their bytes, those of a multicast once.
    tensor_stores, tensor_stored_bytes: boxes that TMA was to store, or to combine with what is there.
    products: wgmma, once for each warpgroup. What TMA reads of DRAM, and writes there, is not modelled:
        dram__bytes_read.sum and unique_sectors_read of a launch with tensor_copies are NaN, and
        dram__bytes_write.sum and unique_sectors_written of one with tensor_stores.

    dram__bytes_read.sum and dram__bytes_write.sum are a model's: waves of blocks on a GPU of
    `multiprocessors`, with an L2 cache of `l2_bytes` that is empty at first (cudasim/sim/counted/l2.c says
    what is in the model and what is not). All other metrics are counted.

    Raises KernelFault as `check()` does.
    """
    rows = []
    for launch in _run(call, multiprocessors=multiprocessors, l2_bytes=l2_bytes):
        rows.append(
            {
                "kernel": launch.kernel,
                "grid": launch.grid,
                "block": launch.block,
                **_metrics(launch.instructions),
                "dram__bytes_read.sum": math.nan if launch.tensor_copies else 32 * launch.dram_sectors_read,
                "dram__bytes_write.sum": (
                    math.nan if launch.tensor_stores else 32 * launch.dram_sectors_written
                ),
                "unique_sectors_read": math.nan if launch.tensor_copies else launch.sectors_read,
                "unique_sectors_written": math.nan if launch.tensor_stores else launch.sectors_written,
                "barriers": launch.barriers,
                "warp_operations": launch.warp_operations,
                "tensor_copies": launch.tensor_copies,
                "tensor_bytes": launch.tensor_bytes,
                "tensor_stores": launch.tensor_stores,
                "tensor_stored_bytes": launch.tensor_stored_bytes,
                "products": launch.products,
                "smsp__sass_data_bytes_mem_shared_op_gmma.sum": launch.product_bytes,
            }
        )
    return pd.DataFrame(rows)


def count_lines(call: Callable[[], object]) -> pd.DataFrame:
    """Runs `call` and returns a row for each launch and each line of source that accesses memory."""
    rows = []
    for number, launch in enumerate(_run(call)):
        lines: dict[Place, list[Instruction]] = {}
        for instruction in launch.instructions:
            lines.setdefault(instruction.place, []).append(instruction)
        for place, instructions in sorted(lines.items(), key=lambda item: (item[0].file, item[0].line)):
            rows.append(
                {
                    "launch": number,
                    "kernel": launch.kernel,
                    "file": place.file,
                    "line": place.line,
                    **_metrics(instructions),
                }
            )
    return pd.DataFrame(rows)


def count_warps(call: Callable[[], object]) -> pd.DataFrame:
    """Runs `call` and returns a row for each launch and each of its warps that accesses memory.

    Columns: launch, kernel, block (its number in the grid, x fastest), warp (its number in the block), and,
    by ncu's names, the warp's own requests and sectors of global memory and its requests and wavefronts of
    shared memory.
    """
    rows = []
    for number, launch in enumerate(_run(call, keeps_warps=True)):
        for block, warp, numbers in sorted(launch.warps):
            rows.append({"launch": number, "kernel": launch.kernel, "block": block, "warp": warp})
            for index, operation in enumerate(("ld", "st", "atom")):
                global_requests, sectors, shared_requests, wavefronts = (of[index] for of in numbers)
                rows[-1] |= {
                    f"l1tex__t_requests_pipe_lsu_mem_global_op_{operation}.sum": global_requests,
                    f"l1tex__t_sectors_pipe_lsu_mem_global_op_{operation}.sum": sectors,
                    f"smsp__inst_executed_op_shared_{operation}.sum": shared_requests,
                    f"l1tex__data_pipe_lsu_wavefronts_mem_shared_op_{operation}.sum": wavefronts,
                }
    return pd.DataFrame(rows)


def check(call: Callable[[], object], unwritten: Iterable = ()):
    """Runs `call` and returns what it returns, or raises KernelFault at the first fault of a kernel.

    unwritten: CPU tensors or arrays whose memory nobody has written, such as those of `torch.empty()`. A
    kernel that reads there what no kernel in this call has written before is a fault:
    `check(call, unwritten=[y])` finds a `y[i] += x[i]` whose y was never set to zero. What torch writes there
    meanwhile does not count, and an argument of which only a part is among this memory is taken to be
    written.

    Nothing is counted, which is faster than `count()`. Threads that write the same value to the same place
    with nothing to order them are no fault, but a KernelWarning.
    """
    expect_function(call)
    memories = []
    for index, x in enumerate(unwritten):
        memory = array_of(x) if is_array(x) else None
        if memory is None or memory.device != "cpu":
            what = f"a tensor on {memory.device}" if memory else f"{type(x).__name__} {x!r}"[:80]
            raise TypeError(f"unwritten[{index}]: expected a CPU tensor, got {what}")
        memories.append(memory)
    with recording(only_checks=True, unwritten=memories):
        return call()
