"""Finds, builds and loads libraries of C and CUDA C sources: the simulator, and others that need it.

The C compiler builds the simulator, nvcc the libraries for a GPU. The simulator has a second build, which
counts and checks the memory accesses of kernels (for cudasim/counting/). A library is built again when its
sources, its compiler or its flags have changed.
"""

from __future__ import annotations

import functools
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
import warnings
from collections.abc import Callable, Iterable
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass, replace
from pathlib import Path

import cffi

from cudasim.building import full_disk
from cudasim.building.compilers import MissingToolError, described, processor
from cudasim.building.digests import (
    as_of,
    digest,
    digest_of_files,
    digest_of_headers,
    kept_digest,
)
from cudasim.building.own_files import NotOwnError, digest_of, locked, make_folder, read_text
from cudasim.building.places import (
    CLONE_BUILD,
    PREBUILT,
    SOURCES,
    build_folder,
    cache_folder,
    cache_variable,
    is_writable,
    prune_cache,
    uses_cache,
)
from cudasim.building.toolchains import (
    COUNTED_KERNEL_FLAGS,
    COUNTED_OTHER_FLAGS,
    SANITIZER_FLAGS,
    Toolchain,
    c_toolchain,
)

# The C interface that cffi reads.
HEADERS = tuple(SOURCES / "sim" / name for name in ("sim.h", "interrupt.h", "counted/counted.h"))


class BuildError(RuntimeError):
    """A compiler refused a source; the message is the compiler's own."""


def once(function):
    """Caches a function's value for each argument. If several threads ask for a value at a time, one computes
    it and the others wait."""
    values, lock = {}, threading.RLock()

    @functools.wraps(function)
    def value_for(*arguments):
        if arguments not in values:
            with lock:
                if arguments not in values:
                    values[arguments] = function(*arguments)
        return values[arguments]

    return value_for


def declare(interface: cffi.FFI, headers: Iterable[Path]):
    """Declares the headers' contents for cffi, which has no preprocessor and reads no C++."""
    with warnings.catch_warnings():
        # cffi warns that it ignores `#pragma once`, as it should.
        warnings.filterwarnings("ignore", message="#pragma in cdef")
        for header in headers:
            text = header.read_text()
            interface.cdef(re.sub(r"#ifdef __cplusplus\n.*?#endif[^\n]*\n", "", text, flags=re.S))
    # Every struct is completed here. Otherwise an interface that includes this one (in cudasim/live/)
    # completes it; when that interface is freed, cffi treats the struct as complete but has lost its fields.
    # A function that takes them all needs them complete, and is parsed ten times faster than each by itself.
    interface.typeof(f"void (*)({', '.join(interface.list_types()[0])})")


@once
def ffi() -> cffi.FFI:
    """The simulator's C interface, read from the headers as they stand."""
    interface = cffi.FFI()
    declare(interface, HEADERS)
    return interface


@contextmanager
def held(folder: Path):
    """Locks a folder for compiled files, and makes it if it is missing. BuildError if it is not writable or
    its disk is full."""
    if not is_writable(folder):
        raise BuildError(
            f"{folder} cannot be written to, and what is compiled goes there: "
            f"set {cache_variable()} to a folder that can"
        )
    try:
        with locked(folder.with_suffix(".lock"), top=build_folder()):
            make_folder(folder)
            yield
    except (BuildError, OSError) as error:
        if full_disk.is_full(error):
            raise BuildError(full_disk.words(folder)) from error
        raise


@dataclass(frozen=True)
class Library:
    """One library: its sources and its place.

    name: its file is `lib<name>.so`.
    patterns: its sources, as patterns below `sources`.
    headers: the folders with headers that it includes, besides `sources`.
    needs: the libraries whose functions it calls.
    interface: its interface for Python.
    prebuilt, clone_build: its folder in a wheel, and `build/` of the clone that has `sources`.
    directory: where it is built; None: in `clone_build` if that is writable, else in a folder of the user's
        cache for these sources, this compiler and these flags.
    """

    name: str
    title: str
    patterns: tuple[str, ...]
    toolchain: Callable[[], Toolchain]
    sources: Path = SOURCES
    headers: tuple[Path, ...] = ()
    needs: tuple[Library, ...] = ()
    interface: Callable[[], cffi.FFI] = ffi
    prebuilt: Path = PREBUILT
    clone_build: Path | None = CLONE_BUILD
    directory: Path | None = None

    def with_kernels(
        self, name: str, title: str, patterns: tuple[str, ...], sources: Path, headers=(), **more
    ) -> Library:
        """A library of kernels in C that run on this simulator. The same compiler builds it with the same
        flags, and it needs this library. more: members that differ from this library's."""
        made_of = {"name": name, "title": title, "patterns": patterns, "sources": sources}
        return replace(self, **made_of, headers=(*headers, SOURCES / "sim"), needs=(self,), **more)

    def _folder(self, stamp: str) -> Path:
        """Where the library with this stamp is built."""
        if self.directory is not None:
            return self.directory
        if uses_cache(self.clone_build):
            return cache_folder() / f"lib-{self.name}-{digest(stamp)[:16]}"
        return build_folder(self.clone_build)

    def _path_in(self, folder: Path) -> Path:
        return folder / f"lib{self.name}.so"

    def _stamp_in(self, folder: Path) -> Path:
        return folder / f"lib{self.name}.stamp"

    @property
    def path(self) -> Path:
        """The ready library, or the place where it would be built."""
        return self.find() or self._path_in(self._folder(self._stamp_now()))

    def _stamp_now(self) -> str:
        """The stamp of a ready library: of its sources, and of the compiler if there is one."""
        try:
            toolchain = self.toolchain()
        except MissingToolError:
            # Without the compiler, only the sources can be compared.
            toolchain = None
        return self._expected_stamp(toolchain)

    def _top(self, folder: Path) -> Path:
        """Others may write to folders above this one."""
        return cache_folder() if folder.is_relative_to(cache_folder()) else folder

    def _is_ready(self, folder: Path, stamp: str) -> bool:
        """Whether the folder has the library with this stamp and unchanged bytes. NotOwnError if another user
        may have put it there."""
        try:
            made_of, _, built = self._lines_in(folder)[0].rpartition(" ")
            return made_of.startswith(stamp) and digest_of(self._path_in(folder)) == built
        except (OSError, ValueError):
            return False

    def _lines_in(self, folder: Path) -> list[str]:
        """The note on a library in its folder: its stamp and a digest of its bytes; the processor; the
        compiler."""
        return [*read_text(self._stamp_in(folder)).split("\n"), "", ""]

    def _others(self, sources: str) -> list[Path]:
        """The folders of libraries from the same sources, made by any compiler."""
        found = []
        clone = [self.clone_build] if self.clone_build else []
        beside = cache_folder().glob(f"lib-{self.name}-*") if uses_cache(self.clone_build) else ()
        for folder in [self.directory] if self.directory else [*beside, *clone]:
            with suppress(NotOwnError):
                if self._is_ready(folder, sources):
                    found.append(folder)
        return found

    def find(self) -> Path | None:
        """The ready library, or None. This neither locks nor writes anything.

        A wheel carries a prebuilt simulator for every processor of its kind, which is ready if its sources
        are the same.
        """
        stamp = self._stamp_now()
        if self._is_ready(self._folder(stamp), stamp):
            return self._path_in(self._folder(stamp))
        if self.directory is None and self._is_ready(self.prebuilt, stamp.partition(" ")[0]):
            return self._path_in(self.prebuilt)
        clone = self.clone_build
        if self.directory is None and clone and uses_cache(clone) and self._is_ready(clone, stamp):
            return self._path_in(clone)
        if " " not in stamp:  # the compiler has gone; what it has built for this processor still works
            here = processor()
            built = (self._path_in(at) for at in self._others(stamp) if self._lines_in(at)[1] == here)
            return next(built, None)
        return None

    def source_files(self) -> list[Path]:
        return sorted(path for pattern in self.patterns for path in self.sources.glob(pattern))

    def headers_digest(self) -> str:
        return digest_of_headers((self.sources, *self.headers))

    def _texts(self) -> dict[Path, str]:
        """For each source, a digest of its own text and of all headers."""
        headers = self.headers_digest()
        return {
            source: digest_of_files(((source, source.name, as_of(source)),), headers)
            for source in self.source_files()
        }

    def _objects_of(self, toolchain: Toolchain, texts: dict[Path, str]) -> dict[Path, str]:
        """For each source, a digest of everything on which its object file depends."""
        by = toolchain.compiler, toolchain.identity
        return {
            source: kept_digest(text, *by, *toolchain.flags_for(source)) for source, text in texts.items()
        }

    def _expected_stamp(self, toolchain: Toolchain | None) -> str:
        """Two digests: of the sources alone, and of the sources with the compiler and its flags."""
        needed = [need.soname for need in self.all_needs]
        texts = self._texts()
        sources = digest(*texts.values(), *needed)
        if toolchain is None:
            return sources
        objects = self._objects_of(toolchain, texts).values()
        return f"{sources} {digest(*objects, *needed, *toolchain.link_flags)}"

    @property
    def all_needs(self) -> list[Library]:
        """The libraries that it needs, and before each those that this one needs."""
        return list(dict.fromkeys(library for need in self.needs for library in (*need.all_needs, need)))

    @property
    def soname(self) -> str:
        """The name by which the loader finds the library. It depends on the sources, so that builds of
        different sources in one process are separate libraries."""
        return f"lib{self.name}-{self._expected_stamp(None)[:16]}.so"

    def state(self) -> str:
        """ "ready", "stale" (built from other sources, with another compiler or other flags, or incomplete)
        or "not built"."""
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
                f"set {cache_variable()} to a folder that can"
            )
        try:
            with locked(folder / f"{self.name}.lock", self.title, self._top(folder)):
                if not self._is_ready(folder, stamp):
                    self._tell_of_another_compiler(toolchain, stamp)
                    self._build_in(folder, toolchain, stamp)
        except OSError as error:
            if full_disk.is_full(error):
                raise BuildError(full_disk.words(folder)) from error
            raise BuildError(f"the {self.title} could not be built in {folder}: {error}") from error
        if uses_cache(self.clone_build) and self.directory is None:
            prune_cache(keep=folder)
        return self._path_in(folder)

    def _tell_of_another_compiler(self, toolchain: Toolchain, stamp: str):
        """Tells why a build of minutes starts although the user's sources have not changed."""
        if others := self._others(stamp.partition(" ")[0]):
            before, now = self._lines_in(others[0])[2], described(toolchain.compiler)
            change = f"from {before} to {now}" if before != now else f"({now}), its flags or the processor"
            print(
                f"the {self.title} is built again, which takes minutes: the compiler has changed {change}",
                file=sys.stderr,
            )

    def objects(self) -> list[Path]:
        """The object files, compiled if they are missing, for a program that links them into its own
        library."""
        toolchain = self.toolchain()
        folder = self._folder(self._expected_stamp(toolchain))
        with locked(folder / f"{self.name}.lock", top=self._top(folder)):
            return self._objects_in(folder, toolchain)

    def warnings(self) -> str:
        """The compiler's warnings about the sources. They do not fail a build, because another version of a
        compiler has other warnings; the project's tests check for them."""
        return "".join(path.with_suffix(".warnings").read_text() for path in self.objects())

    def _objects_in(self, folder: Path, toolchain: Toolchain) -> list[Path]:
        digests = self._objects_of(toolchain, self._texts())
        if not digests:
            raise BuildError(f"{self.sources} has no sources")
        kept = folder / "objects" / self.name
        objects = {
            source: kept / f"{source.stem}.{made_from[:16]}.o" for source, made_from in digests.items()
        }
        missing = {source: path for source, path in objects.items() if not path.exists()}
        if missing:
            self._compile(toolchain, missing, kept)
        for old in kept.iterdir():
            if old.with_suffix(".o") not in objects.values():
                old.unlink()
        return list(objects.values())

    def _build_in(self, folder: Path, toolchain: Toolchain, stamp: str):
        # A killed build leaves its temporary files.
        for kind in ("so", "stamp"):
            for left in folder.glob(f"lib{self.name}.{kind}*.tmp*"):
                left.unlink()
        needed = [need.build() for need in self.all_needs]
        objects = self._objects_in(folder, toolchain)
        with replacing(self._path_in(folder)) as temporary:
            link = [toolchain.compiler, *map(str, objects), "-o", temporary, *map(str, needed)]
            named = (f"{toolchain.soname_flag}{self.soname}",) if toolchain.soname_flag else ()
            try:
                run([*link, *named, *toolchain.link_flags])
            except BuildError as error:
                if full_disk.is_full(error):
                    raise BuildError(full_disk.words(folder)) from error
                raise
        with replacing(self._stamp_in(folder)) as temporary:
            built = digest_of(self._path_in(folder))
            Path(temporary).write_text(f"{stamp} {built}\n{processor()}\n{described(toolchain.compiler)}")

    def _compile(self, toolchain: Toolchain, objects: dict[Path, Path], folder: Path):
        folder.mkdir(parents=True, exist_ok=True)
        errors: list[str] = []

        def compile_one(source: Path):
            if errors:
                return
            command = [
                toolchain.compiler,
                *toolchain.flags_for(source),
                *(f"-I{folder}" for folder in (self.sources, *(of.parent for of in self.headers))),
                "-c",
                str(source),
            ]
            try:
                with replacing(objects[source]) as temporary:
                    said = run([*command, "-o", temporary])
                    objects[source].with_suffix(".warnings").write_text(said)
            except (BuildError, OSError) as error:
                errors.append(str(error))

        # Whoever builds nothing does not wait for these.
        from concurrent.futures import ThreadPoolExecutor

        from tqdm.auto import tqdm

        with ThreadPoolExecutor(os.cpu_count()) as pool:
            results = pool.map(compile_one, objects)
            for _ in tqdm(results, f"building the {self.title}", len(objects), unit="file"):
                pass
        if any(map(full_disk.is_full, errors)):
            raise BuildError(full_disk.words(folder))
        if errors:
            raise BuildError("\n".join(errors))

    def load(self):
        """The loaded library. It and the libraries that it needs are built first if they are not ready."""
        return _loaded(self)


@contextmanager
def replacing(path: Path):
    """Yields a temporary name beside `path`, and moves the file there on success."""
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


def run(command: list[str]) -> str:
    """Runs a compiler or a linker; returns its warnings. BuildError with its messages if it fails."""
    result = subprocess.run(command, capture_output=True, text=True)
    if result.returncode != 0:
        raise BuildError(f"{' '.join(command)}\n{result.stdout}{result.stderr}".rstrip())
    return result.stderr


_simulators = []


@once
def _loaded(library: Library):
    for need in library.needs:
        need.load()
    path = library.build()
    try:
        loaded = library.interface().dlopen(str(path))
    except OSError as error:
        raise BuildError(f"{path} cannot be loaded: {error}; remove it to have it built again") from error
    if library in (SIMULATOR, SANITIZED_SIMULATOR, COUNTED_SIMULATOR):
        _simulators.append(loaded)
        loaded.sim_use_signals_lock(_simulators[0].sim_signals_lock())
    return loaded


SIMULATOR = Library("cudasim", "simulator", ("sim/*.c", "sim/hopper/*.c", "sim/program/*.c"), c_toolchain)
SANITIZED_SIMULATOR = Library(
    "cudasim_sanitized",
    "simulator with sanitizers",
    SIMULATOR.patterns,
    functools.partial(c_toolchain, SANITIZER_FLAGS),
)
COUNTED_SIMULATOR = Library(
    "cudasim_counted",
    "simulator that counts and checks",
    (*SIMULATOR.patterns, "sim/counted/*.c"),
    functools.partial(c_toolchain, kernel_flags=COUNTED_KERNEL_FLAGS, other_flags=COUNTED_OTHER_FLAGS),
)


# Whether kernels run on the counted simulator; cudasim.counting.counted.recording() sets this.
is_counting: ContextVar[bool] = ContextVar("is_counting", default=False)


def simulator() -> Library:
    """The build of the simulator on which kernels run now."""
    if is_counting.get():
        return COUNTED_SIMULATOR
    # `make sanitize` runs the tests on the build that reports memory errors.
    return SANITIZED_SIMULATOR if os.environ.get("CUDASIM_SANITIZE") == "1" else SIMULATOR


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
