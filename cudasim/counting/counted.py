"""Counts and checks what kernels do to memory, on the simulator and without a GPU.

`count()` and `count_lines()` run a call and return what each of its launches asked of memory, as a profiler
would: the columns have Nsight Compute's (ncu's) names for the same numbers. `check()` runs a call and raises
KernelFault at the first access that is out of bounds or misaligned, reads unwritten shared memory, or races
with another thread; at a barrier that not all threads reach; or at a shuffle that waits in vain. Counting
also checks.

A call is any function without arguments that launches kernels on arrays or tensors of the CPU:

    cudasim.count(lambda: scale[grid, block](y, x, 2.0, n))

Several threads may count and check at a time, each its own call: their launches take turns. A count or a
check includes the threads that its call starts, and a fault in one of them is raised when the call has ended.
Threads that ran before (a pool of the user) are not included: they run unchecked.

Global requests, sectors and bytes equal those of ncu on an H200 for every recorded kernel. So do shared
requests and wavefronts if a kernel states its access widths. tests/fgn/test_agreement.py has the recorded
numbers, and the differences with their reasons.
"""

from __future__ import annotations

import contextvars
import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

from cudasim.arrays import Array, array_of, is_array, on_cpu
from cudasim.building.library import COUNTED_SIMULATOR, ffi, is_counting
from cudasim.counting.faults import KernelFault, fault_of, warn
from cudasim.counting.places import Place, find_places, places_of, source_file, string_of, triple

# The GPU whose L2 cache is modelled by default.
H200_L2_BYTES = 50 << 20
H200_MULTIPROCESSORS = 132


class _Session:
    """One call of `count()` or `check()`: its settings, and its launches' results."""

    def __init__(
        self, multiprocessors: int, l2_bytes: int, keeps_warps: bool, only_checks: bool, l1_bytes: int = 0
    ):
        self.multiprocessors, self.l2_bytes, self.keeps_warps = multiprocessors, l2_bytes, keeps_warps
        self.l1_bytes = l1_bytes  # of a block's in a sample; 0: no sample
        self.only_checks = only_checks
        self.launches: list[Launch] = []
        self.dtypes: dict[int, str] = {}  # of the tensors that kernels may access, by address
        self.memory: list[tuple[str, int, int]] = []  # these tensors: name, begin, end
        self.thread = threading.get_ident()
        self.fault_elsewhere: KernelFault | None = None
        self.has_ended = False
        self.is_recorded = True  # whether anybody asks for its launches
        self.unwritten: list[tuple[int, Array]] = []  # where memory began unwritten, and its map

    def map_of(self, address: int, size: int) -> int | None:
        """The address of the map of written bytes there; None if all bytes count as written."""
        for begin, written in self.unwritten:
            if begin <= address and address + size <= begin + written.nbytes:
                return written.address + address - begin
        return None


_session: ContextVar[_Session | None] = ContextVar("session", default=None)

# The counted simulator has one table of memory that kernels may access, and one list of launches. From
# allow() to forbid_all() both belong to one thread.
_turn = threading.RLock()
_has_turn = threading.local()


def _renew_turn():
    # A fork may leave the lock to a thread that the child does not have.
    global _turn, _has_turn
    _turn, _has_turn = threading.RLock(), threading.local()


os.register_at_fork(after_in_child=_renew_turn)


def fault(library) -> KernelFault | None:
    """Why the simulator's last launch on this OS thread failed; None if it succeeded, or on a GPU.

    library: what `Library.load()` returned.
    """
    found = fault_of(library)
    session = _session.get()
    if found and session and session.thread != threading.get_ident() and not session.fault_elsewhere:
        session.fault_elsewhere = found
    return found


def allow(place: Callable[[int], int] = int, /, **tensors):
    """Lets kernels access these CPU tensors until `forbid_all()`. Reports use the tensors' names. place:
    gives an address's place in the launch, if that runs on copies.

    Until then no other thread runs counted kernels. Does nothing outside `recording()`, because only there
    accesses are checked. RuntimeError if the count or check that started this thread has ended.
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
        library.counted_sample(session.l1_bytes)
    for name, tensor in tensors.items():
        array = None if tensor is None else array_of(tensor)
        if array is not None and array.count > 0:
            address = place(array.address)
            session.dtypes[address] = array.dtype
            session.memory.append((name, address, address + array.nbytes))
            pointer = ffi().cast("void *", address)
            library.counted_allow(pointer, array.nbytes, array.itemsize, name.encode())
            if written := session.map_of(array.address, array.nbytes):
                library.counted_unwritten(ffi().cast("unsigned char *", written))


def forbid_all():
    """Ends what `allow()` began, and takes the results of the launches since then."""
    if not getattr(_has_turn, "now", False):
        return
    library = COUNTED_SIMULATOR.load()
    try:
        session = _session.get()
        if session is not None and not session.has_ended:
            if session.is_recorded:
                session.launches.extend(_launches(library, tuple(session.memory)))
            session.memory = []
            warn(library)
        library.counted_clear()
        library.counted_forbid_all()
    finally:
        _has_turn.now = False
        _turn.release()


@dataclass(frozen=True)
class Instruction:
    """One load, store or atomic of a kernel, and its counts in one launch; counted.h explains the numbers."""

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
    lines: int  # these in a sample only
    missed: int
    waits: int = 0
    first_requests: int = 0
    first_waits: int = 0
    wavefronts_of_8: int = 0
    wavefronts_of_16: int = 0
    address: int = 0


@dataclass(frozen=True)
class BasicBlock:
    """How often the warps and the threads of a sample came to a basic block; see counted.h."""

    place: Place
    warps: int
    threads: int
    slowest: int
    most: int = 0


@dataclass(frozen=True)
class Launch:
    """The counts of one launch."""

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
    basic_blocks: tuple[BasicBlock, ...] = ()  # these two in a sample only
    blocks: tuple[tuple[int, object], ...] = ()  # the number of each, and what it asked of L2: numpy's uint64
    memory: tuple[tuple[str, int, int], ...] = ()  # that it might access: name, begin, end


def _warps(record) -> Iterator[tuple]:
    for index in range(record.warp_count):
        warp = record.warps[index]
        numbers = (warp.global_requests, warp.sectors, warp.shared_requests, warp.wavefronts)
        yield warp.block, warp.warp, tuple(tuple(of) for of in numbers)


def _blocks(record) -> Iterator[tuple[int, object]]:
    import numpy as np  # who only checks does not wait for it

    for index in range(record.block_count):
        block = record.blocks[index]
        sectors = ffi().buffer(block.sectors, 8 * block.count)
        yield block.block, np.frombuffer(bytes(sectors), dtype=np.uint64)


def _launches(library, memory: tuple[tuple[str, int, int], ...] = ()) -> Iterator[Launch]:
    """The launches since `counted_clear()`, in order. memory: what they were allowed to access."""
    spaces = {library.COUNTED_GLOBAL: "global", library.COUNTED_SHARED: "shared"}
    spaces[library.COUNTED_CONSTANT] = "constant"
    operations = {library.COUNTED_LOAD: "ld", library.COUNTED_STORE: "st", library.COUNTED_ATOMIC: "atom"}
    numbers = (
        *("bytes", "requests", "threads", "addresses", "sectors", "wavefronts", "phases"),
        *("lines", "missed", "waits", "first_requests", "first_waits", "wavefronts_of_8", "wavefronts_of_16"),
        "address",
    )
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
            offsets.setdefault(string_of(instruction.library), set()).add(instruction.offset)
        for index in range(record.basic_block_count):
            block = record.basic_blocks[index]
            offsets.setdefault(string_of(block.library), set()).add(block.offset)
    places = {file: find_places(file, wanted) for file, wanted in offsets.items()}
    for record in records:
        instructions = []
        for index in range(record.instruction_count):
            instruction = record.instructions[index]
            instructions.append(
                Instruction(
                    places[string_of(instruction.library)][instruction.offset],
                    spaces[instruction.space],
                    operations[instruction.operation],
                    **{name: getattr(instruction, name) for name in numbers},
                )
            )
        yield Launch(
            kernel=string_of(record.kernel),
            file=source_file(string_of(record.file)),
            grid=triple(record.grid),
            block=triple(record.block),
            **{name: getattr(record, name) for name in plain},
            instructions=tuple(instructions),
            warps=tuple(_warps(record)),
            basic_blocks=tuple(
                BasicBlock(
                    places[string_of(block.library)][block.offset],
                    *(block.warps, block.threads, block.slowest, block.most),
                )
                for block in record.basic_blocks[0 : record.basic_block_count]
            ),
            blocks=tuple(_blocks(record)),
            memory=memory,
        )


_recordings = 0
_plain_start = threading.Thread.start


def _start_in_context(thread: threading.Thread):
    """Replaces threading.Thread.start() during a recording, so that the new thread is recorded too."""
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
    """The dtype's name of the tensor at this address, if a kernel of this count or check may access it."""
    session = _session.get()
    return session.dtypes.get(address) if session is not None else None


def only_checks() -> bool:
    """Whether CPU tensors run on the simulator that counts and checks, but only checks now."""
    session = _session.get()
    return session is not None and session.only_checks


@contextmanager
def recording(
    multiprocessors: int = H200_MULTIPROCESSORS,
    l2_bytes: int = H200_L2_BYTES,
    keeps_warps: bool = False,
    only_checks: bool = False,
    unwritten: Iterable[Array] = (),
    l1_bytes: int = 0,
) -> Iterator[list[Launch]]:
    """In this context CPU tensors run on the simulator that counts and checks.

    multiprocessors, l2_bytes: of the GPU whose L2 cache is modelled. keeps_warps: whether launches keep each
    warp's counts. only_checks: nothing is counted, and the list stays empty. unwritten: as for `check()`.
    l1_bytes: of a block's L1 cache, which makes every launch a sample (counted_sample() in counted.h).

    Yields a list, which has all launches when the context has ended. A fault is raised as KernelFault from
    the function that launched the kernel; one of another thread also when the context ends.
    """
    COUNTED_SIMULATOR.load()
    if is_counting.get():
        raise RuntimeError("recording: another recording is running")
    launches: list[Launch] = []
    session = _Session(multiprocessors, l2_bytes, keeps_warps, only_checks, l1_bytes)
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
    """In this context one OS thread runs the counted and checked blocks of this thread in order. So the same
    one of a kernel's several faults is reported each time."""
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


def running_places(seconds: float = 0.5) -> set[Place]:
    """Where another thread's kernel is during the next `seconds`: the lines of a loop that does not end."""
    library, seen = COUNTED_SIMULATOR.load(), set()
    most = os.cpu_count() or 1
    counters = ffi().new("unsigned long long[]", most)
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        seen |= set(counters[0 : library.counted_running(counters, most)])
        time.sleep(seconds / 100)
    return set(places_of(library, seen - {0}).values())


def expect_function(call: object) -> None:
    """Raises TypeError if it is no function. If the caller forgot `lambda:`, the call is over before counting
    begins."""
    if not callable(call):
        raise TypeError(f"call: expected a function, as in lambda: kernel[grid, block](...), got {call!r}")


def check(call: Callable[[], object], unwritten: Iterable = ()):
    """Runs `call` and returns what it returns, or raises KernelFault at the first fault of a kernel.

    unwritten: CPU tensors or arrays with unwritten memory, such as those of `torch.empty()`. Reading there
    before a kernel of this call has written is a fault: `check(call, unwritten=[y])` finds a `y[i] += x[i]`
    whose y was never set to zero. Writes by torch do not count. An argument that is only partly in this
    memory counts as written.

    Nothing is counted, so it is faster than `count()`. Unordered threads that write the same value to the
    same place are no fault, but a KernelWarning.
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
