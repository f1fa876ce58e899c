"""Find, build and load the libraries that `cuda_c/` makes.

One set of sources, two machines: the C compiler builds the CPU simulator (`build/libfgn_sim.so`), nvcc the
GPU library (`build/libfgn_cuda.so`). The simulator has a second build, which counts and checks the memory
accesses of kernels (`build/libfgn_sim_counted.so`, for fgn/simulator/counted.py). A library is built again
when its sources, its compiler or its flags have changed.
"""

from __future__ import annotations

import fcntl
import functools
import hashlib
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path

import cffi
from tqdm.auto import tqdm

from fgn.native.places import (
    CLONE_BUILD,
    PREBUILT,
    SOURCES,
    build_folder,
    cache_folder,
    is_writable,
    prune_cache,
    uses_cache,
)

# The C interface: what cffi reads.
HEADERS = ("fgn.h", "ceilings/ceilings.h", "sim/sim.h", "sim/interrupt.h", "sim/counted/counted.h")

# What a library that was built elsewhere calls the folder of its sources.
MAPPED_SOURCES = "/fgn/cuda_c"

C_WARNINGS = ("-Wall", "-Wextra", "-Werror", "-Wno-unknown-pragmas")
# A kernel's local arrays are on a stack whose guard page no large array may step over.
# nvcc contracts a * b + c and lets floats be read as a float4; the C compiler is told to do the same.
C_FLAGS = (
    "-O2",
    "-g",
    "-fPIC",
    "-pthread",
    "-ffp-contract=fast",
    "-fno-strict-aliasing",
    "-fwrapv",
    "-fstack-clash-protection",
    *C_WARNINGS,
)
# With these flags a kernel calls the counted simulator before every memory access, at every branch, and where
# an index leaves its array. A GPU moves a float4 at once, so the compiler must not take structs apart. The
# simulator finds where the branches and loops of a kernel join again by the order of its instructions, so the
# compiler must keep the source's order.
COUNTED_KERNEL_FLAGS = (
    "-fsanitize=thread,bounds",
    "--param=tsan-distinguish-volatile=1",
    "-fsanitize-coverage=trace-pc",
    "-fno-tree-sra",
    "-fno-reorder-blocks",
    "-fno-reorder-blocks-and-partition",
    "-fno-toplevel-reorder",
)
# A kernel that is checked and not counted has this flag too, which finds a pointer that leaves a local array.
# The flag keeps the compiler from making one load of two equal ones, which a GPU's compiler does, so a kernel
# that is counted goes without it.
ONLY_CHECKED_FLAGS = ("-fsanitize=object-size",)
# Every access of a kernel asks for a thread-local variable; without a procedure linkage table that call is
# direct.
COUNTED_OTHER_FLAGS = ("-DSIM_COUNTED", "-fno-plt")
SANITIZER_FLAGS = ("-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-fno-omit-frame-pointer")

# "90a" has the instructions that only compute capability 9.0 has; later GPUs get the PTX of plain "90".
# FGN_GPU_ARCHITECTURES="90a" builds for one card alone, which takes a fifth of the time.
GPU_ARCHITECTURES = ("75", "80", "86", "89", "90a")
CHOSEN_ARCHITECTURES = os.environ.get("FGN_GPU_ARCHITECTURES", "").split()
PTX_FLAGS = () if CHOSEN_ARCHITECTURES else ("-gencode=arch=compute_90,code=compute_90",)
# FGN_NVCC_FLAGS="-Ofc mid" compiles in three fifths of the time, for who only wants to see that the kernels
# compile.
CHOSEN_FLAGS = os.environ.get("FGN_NVCC_FLAGS", "").split()
NVCC_FLAGS = (
    *(f"-gencode=arch=compute_{n},code=sm_{n}" for n in CHOSEN_ARCHITECTURES or GPU_ARCHITECTURES),
    *PTX_FLAGS,
    *CHOSEN_FLAGS,
    "-O3",
    "-std=c++17",
    "-lineinfo",
    "-Werror=all-warnings",
    "-Xcompiler=-fPIC,-Wall,-Wextra,-Werror,-Wno-unknown-pragmas",
)


class BuildError(RuntimeError):
    """A compiler refused a source; the message is the compiler's own."""


class MissingToolError(RuntimeError):
    """A compiler that a library needs is not on this machine."""


@dataclass(frozen=True)
class Toolchain:
    """A compiler and its flags.

    flags: for a kernel file (`.cu`); other_flags: for any other source; link_flags: for the library.
    identity: what else decides the output: the compiler's version and the processor it builds for.
    """

    compiler: str
    flags: tuple[str, ...]
    other_flags: tuple[str, ...]
    link_flags: tuple[str, ...]
    identity: str

    def flags_for(self, source: Path) -> tuple[str, ...]:
        return self.flags if source.suffix == ".cu" else self.other_flags


def command_output(command) -> str | None:
    """The command's standard output, or None when it fails or is not there."""
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError):
        return None


def find_c_compiler() -> str | None:
    """The C compiler: $CC, cc, gcc or clang."""
    candidates = (os.environ.get("CC"), "cc", "gcc", "clang")
    return next((path for name in candidates if name and (path := shutil.which(name))), None)


def find_nvcc() -> str | None:
    """nvcc in $CUDA_HOME, in PATH or in /usr/local/cuda."""
    cuda_home = os.environ.get("CUDA_HOME")
    candidates = (cuda_home and f"{cuda_home}/bin/nvcc", "nvcc", "/usr/local/cuda/bin/nvcc")
    return next((path for name in candidates if name and (path := shutil.which(name))), None)


def _c_toolchain(
    extra_flags: tuple[str, ...] = (),
    kernel_flags: tuple[str, ...] = (),
    other_flags: tuple[str, ...] = (),
) -> Toolchain:
    compiler = find_c_compiler()
    if compiler is None:
        raise MissingToolError(
            "no C compiler was found ($CC, cc, gcc, clang), so CPU tensors have no simulator to run on; "
            "torch's own modules, recorded results and, with nvcc and a GPU, CUDA tensors still work"
        )
    # The library is built where it runs, so it may use this processor's own instructions. The macros that the
    # compiler predefines name its version and all that it knows about the processor.
    # A simulator that a wheel carries is for every processor of its kind, and its sources are where the wheel
    # puts them.
    for_wheel = os.environ.get("FGN_BUILDS_WHEEL") == "1"
    natives = ((),) if for_wheel else (("-march=native",), ("-mcpu=native",), ())
    for native in natives:
        macros = command_output([compiler, *native, "-dM", "-E", "-x", "c", os.devnull])
        if macros is not None:
            break
    mapped = (f"-ffile-prefix-map={SOURCES}={MAPPED_SOURCES}",) if for_wheel else ()
    flags = (*C_FLAGS, *native, *mapped, *extra_flags)
    return Toolchain(
        compiler=compiler,
        flags=("-x", "c", "-std=gnu11", *flags, *kernel_flags),
        other_flags=("-std=gnu11", *flags, *other_flags),
        # The simulator has functions with CUDA's names. Its kernels must call these functions, and not CUDA's
        # own, which torch may have loaded before.
        link_flags=("-shared", "-pthread", "-Wl,-Bsymbolic-functions", *extra_flags, "-lm"),
        identity=macros or "",
    )


def _nvcc_toolchain() -> Toolchain:
    nvcc = find_nvcc()
    if nvcc is None:
        raise MissingToolError(
            "nvcc was not found ($CUDA_HOME, PATH, /usr/local/cuda), so CUDA tensors cannot run; "
            "CPU tensors run on the simulator"
        )
    return Toolchain(
        compiler=nvcc,
        flags=NVCC_FLAGS,
        other_flags=NVCC_FLAGS,
        link_flags=("-shared",),
        identity=command_output([nvcc, "--version"]) or "",
    )


def digest(*parts: str | bytes) -> str:
    state = hashlib.sha256()
    for part in parts:
        data = part.encode() if isinstance(part, str) else part
        state.update(len(data).to_bytes(8, "little") + data)
    return state.hexdigest()


@contextmanager
def locked(path: Path, what: str = ""):
    """Holds the lock file, so that two processes, or two threads, do not build the same library at once.
    what: the library's title; where it is given and another process holds the lock, a line says that this one
    waits."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if what:
                print(f"waiting until another process has built the {what}", file=sys.stderr)
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


@dataclass(frozen=True)
class Library:
    """One library: what it is made of, and where it goes.

    name: its file is `lib<name>.so`.
    patterns: its sources, as patterns below `sources`.
    directory: where it is built; None: in `build/` of a clone that may be written to, else in a folder of the
        user's cache for these sources, this compiler and these flags.
    """

    name: str
    title: str
    patterns: tuple[str, ...]
    toolchain: Callable[[], Toolchain]
    sources: Path = SOURCES
    directory: Path | None = None

    def _folder(self, stamp: str) -> Path:
        """Where the library with this stamp is built."""
        if self.directory is not None:
            return self.directory
        if uses_cache():
            return cache_folder() / f"lib-{self.name}-{digest(stamp)[:16]}"
        return build_folder()

    def _path_in(self, folder: Path) -> Path:
        return folder / f"lib{self.name}.so"

    def _stamp_in(self, folder: Path) -> Path:
        return folder / f"lib{self.name}.stamp"

    @property
    def path(self) -> Path:
        """The library that is ready, or where it would be built."""
        return self.find() or self._path_in(self._folder(self._stamp_now()))

    def _stamp_now(self) -> str:
        """The stamp that a ready library has: of its sources, and of the compiler where there is one."""
        try:
            toolchain = self.toolchain()
        except MissingToolError:
            # Where the compiler is missing, only the sources can be compared.
            toolchain = None
        return self._expected_stamp(toolchain)

    def _is_ready(self, folder: Path, stamp: str) -> bool:
        """Whether the folder has the library with this stamp, and all of the file."""
        path = self._path_in(folder)
        try:
            made_of, _, size = self._stamp_in(folder).read_text().rpartition(" ")
            return made_of.startswith(stamp) and path.stat().st_size == int(size)
        except (OSError, ValueError):
            return False

    def find(self) -> Path | None:
        """The library that is ready; None when none is. Nothing is locked, nothing is written.

        A wheel carries a simulator that was built beforehand for every processor of its kind, which is ready
        where its sources are these.
        """
        stamp = self._stamp_now()
        if self._is_ready(self._folder(stamp), stamp):
            return self._path_in(self._folder(stamp))
        if self.directory is None and self._is_ready(PREBUILT, stamp.partition(" ")[0]):
            return self._path_in(PREBUILT)
        if self.directory is None and uses_cache() and self._is_ready(CLONE_BUILD, stamp):
            return self._path_in(CLONE_BUILD)
        return None

    def source_files(self) -> list[Path]:
        return sorted(path for pattern in self.patterns for path in self.sources.glob(pattern))

    def headers_digest(self) -> str:
        headers = sorted(self.sources.rglob("*.h"))
        return digest(
            *(part for path in headers for part in (str(path.relative_to(self.sources)), path.read_bytes()))
        )

    def _object_digests(self, toolchain: Toolchain | None) -> dict[Path, str]:
        """For each source, a digest of all that its object depends on."""
        headers = self.headers_digest()
        digests = {}
        for source in self.source_files():
            made_by = ()
            if toolchain:
                made_by = (toolchain.compiler, toolchain.identity, *toolchain.flags_for(source))
            digests[source] = digest(headers, source.name, source.read_bytes(), *made_by)
        return digests

    def _expected_stamp(self, toolchain: Toolchain | None) -> str:
        """Two digests: of the sources alone, and of the sources with the compiler and its flags."""
        sources = digest(*self._object_digests(None).values())
        if toolchain is None:
            return sources
        return f"{sources} {digest(*self._object_digests(toolchain).values(), *toolchain.link_flags)}"

    def state(self) -> str:
        """ "ready", "stale" (built from other sources, by another compiler or other flags, or not whole) or
        "not built"."""
        if self.find():
            return "ready"
        folder = self._folder(self._stamp_now())
        return "stale" if self._path_in(folder).exists() and self._stamp_in(folder).exists() else "not built"

    def build(self) -> Path:
        """Builds the library unless it is ready; returns its path.

        Only sources that changed are compiled, in parallel. BuildError with the compiler's message when one
        does not compile, or when there is no room for the library; MissingToolError when there is no
        compiler. An older library stays in place, but is not used.
        """
        if path := self.find():
            return path
        toolchain = self.toolchain()
        stamp = self._expected_stamp(toolchain)
        folder = self._folder(stamp)
        if not is_writable(folder):
            raise BuildError(
                f"{folder} cannot be written to, and the {self.title} has to be built there: "
                "set FGN_CACHE to a folder that can"
            )
        try:
            with locked(folder / f"{self.name}.lock", self.title):
                if not self._is_ready(folder, stamp):
                    self._build_in(folder, toolchain, stamp)
        except OSError as error:
            raise BuildError(f"the {self.title} could not be built in {folder}: {error}") from error
        if uses_cache() and self.directory is None:
            prune_cache(keep=folder)
        return self._path_in(folder)

    def objects(self) -> list[Path]:
        """The object files, compiled where they are missing, for a program that links them into a library of
        its own."""
        toolchain = self.toolchain()
        folder = self._folder(self._expected_stamp(toolchain))
        with locked(folder / f"{self.name}.lock"):
            return self._objects_in(folder, toolchain)

    def _objects_in(self, folder: Path, toolchain: Toolchain) -> list[Path]:
        digests = self._object_digests(toolchain)
        if not digests:
            raise BuildError(f"{self.sources} has no sources")
        kept = folder / "objects" / self.name
        objects = {
            source: kept / f"{source.stem}.{made_from[:16]}.o" for source, made_from in digests.items()
        }
        missing = {source: path for source, path in objects.items() if not path.exists()}
        if missing:
            self._compile(toolchain, missing, kept)
        for old in set(kept.iterdir()) - set(objects.values()):
            old.unlink()
        return list(objects.values())

    def _build_in(self, folder: Path, toolchain: Toolchain, stamp: str):
        # A build that was killed has left its temporary files.
        for kind in ("so", "stamp"):
            for left in folder.glob(f"lib{self.name}.{kind}*.tmp*"):
                left.unlink()
        objects = self._objects_in(folder, toolchain)
        with replacing(self._path_in(folder)) as temporary:
            link = [toolchain.compiler, *map(str, objects), "-o", temporary]
            run([*link, *toolchain.link_flags])
        with replacing(self._stamp_in(folder)) as temporary:
            Path(temporary).write_text(f"{stamp} {self._path_in(folder).stat().st_size}")

    def _compile(self, toolchain: Toolchain, objects: dict[Path, Path], folder: Path):
        folder.mkdir(parents=True, exist_ok=True)
        errors: list[str] = []

        def compile_one(source: Path):
            if errors:
                return
            command = [
                toolchain.compiler,
                *toolchain.flags_for(source),
                f"-I{self.sources}",
                "-c",
                str(source),
            ]
            try:
                with replacing(objects[source]) as temporary:
                    run([*command, "-o", temporary])
            except (BuildError, OSError) as error:
                errors.append(str(error))

        with ThreadPoolExecutor(os.cpu_count()) as pool:
            results = pool.map(compile_one, objects)
            for _ in tqdm(results, f"building the {self.title}", len(objects), unit="file"):
                pass
        if errors:
            raise BuildError("\n".join(errors))

    def load(self):
        """The library, built first when it is not ready. Its functions are those of `cuda_c/fgn.h`."""
        return _load(self)


@contextmanager
def replacing(path: Path):
    """Yields a temporary name beside `path`, and moves it there when all went well."""
    descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=path.name, suffix=".tmp" + path.suffix)
    os.close(descriptor)
    try:
        yield temporary
        # mkstemp makes files that only their owner may read.
        os.chmod(temporary, 0o755)
        os.replace(temporary, path)
    except BaseException:
        # A compiler that fails removes its output itself.
        Path(temporary).unlink(missing_ok=True)
        raise


def run(command: list[str]):
    """Runs a compiler or a linker; BuildError with what it said when it fails."""
    result = subprocess.run(command, capture_output=True, text=True)
    if result.returncode != 0:
        raise BuildError(f"{' '.join(command)}\n{result.stdout}{result.stderr}".rstrip())


def once(function):
    """Caches a function's value for each argument. Where several threads ask for a value at a time, one
    computes it and the others wait."""
    values, lock = {}, threading.RLock()

    @functools.wraps(function)
    def value_for(*arguments):
        if arguments not in values:
            with lock:
                if arguments not in values:
                    values[arguments] = function(*arguments)
        return values[arguments]

    return value_for


@once
def ffi() -> cffi.FFI:
    """The C interface, read from the headers as they stand: fgn.h, the kernels that fgn/measure/machine.py
    times, and what only the simulator has."""
    interface = cffi.FFI()
    with warnings.catch_warnings():
        # cffi says that it ignores `#pragma once`, which is all that it should do.
        warnings.filterwarnings("ignore", message="#pragma in cdef")
        for header in HEADERS:
            # cffi has no preprocessor and reads no C++.
            text = (SOURCES / header).read_text()
            interface.cdef(re.sub(r"#ifdef __cplusplus\n.*?#endif[^\n]*\n", "", text, flags=re.S))
    # Every struct is completed here. Otherwise an interface that includes this one (in fgn/live/) completes
    # the struct, and when that interface is freed, cffi takes the struct for complete and has lost its
    # fields.
    for name in interface.list_types()[0]:
        interface.typeof(name)
    return interface


_loaded_simulators = []


@once
def _load(library: Library):
    path = library.build()
    try:
        loaded = ffi().dlopen(str(path))
    except OSError as error:
        raise BuildError(f"{path} cannot be loaded: {error}; remove it to have it built again") from error
    if library is not GPU:
        _loaded_simulators.append(loaded)
        loaded.sim_use_signals_lock(_loaded_simulators[0].sim_signals_lock())
    return loaded


SIMULATOR = Library("fgn_sim", "simulator library", ("**/*.cu", "sim/*.c", "sim/hopper/*.c"), _c_toolchain)
SANITIZED_SIMULATOR = Library(
    "fgn_sim_sanitized",
    "simulator library with sanitizers",
    SIMULATOR.patterns,
    functools.partial(_c_toolchain, SANITIZER_FLAGS),
)
COUNTED_SIMULATOR = Library(
    "fgn_sim_counted",
    "simulator library that counts and checks",
    (*SIMULATOR.patterns, "sim/counted/*.c"),
    functools.partial(_c_toolchain, kernel_flags=COUNTED_KERNEL_FLAGS, other_flags=COUNTED_OTHER_FLAGS),
)
GPU = Library("fgn_cuda", "GPU library", ("**/*.cu",), _nvcc_toolchain)


# Whether CPU tensors run on the counted simulator; fgn.simulator.counted.recording() says so.
is_counting: ContextVar[bool] = ContextVar("is_counting", default=False)


def for_device(device_type: str) -> Library:
    """The library that runs tensors of this device type; RuntimeError when there is none for it."""
    if device_type == "cpu":
        if is_counting.get():
            return COUNTED_SIMULATOR
        # `make sanitize` runs the tests on the library that reports memory errors.
        return SANITIZED_SIMULATOR if os.environ.get("FGN_SANITIZE") == "1" else SIMULATOR
    if device_type == "cuda":
        return GPU
    raise RuntimeError(f"device: expected cpu or cuda, got {device_type}")


@contextmanager
def interruptible(library):
    """In this context Ctrl-C and the stop button end a launch on the simulator, with KeyboardInterrupt.

    library: what `Library.load()` returned for the CPU. Python handles signals in its main thread only.
    """
    in_main_thread = threading.current_thread() is threading.main_thread()
    if in_main_thread:
        library.sim_catch_signal(signal.SIGINT)
    try:
        yield
    finally:
        if in_main_thread:
            library.sim_release_signal()


def version_table(device_type: str = "cpu") -> list[dict[str, str]]:
    """The rows of the C table, in its order: name, gemm, norm, summary, needs."""
    library = for_device(device_type).load()
    rows = (library.fgn_version_at(index) for index in range(library.fgn_version_count()))
    fields = ("name", "gemm", "norm", "summary", "needs")
    return [{field: ffi().string(getattr(row, field)).decode() for field in fields} for row in rows]


def version_names(device_type: str = "cpu") -> list[str]:
    """The names of the versions, from the naive one to the best one."""
    return [row["name"] for row in version_table(device_type)]
