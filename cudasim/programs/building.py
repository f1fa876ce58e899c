"""Builds a program: its sources become C++, and the linker puts the simulator under them."""

from __future__ import annotations

import functools
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from cudasim.building.compilers import MissingToolError, find_c_compiler, spelled_for
from cudasim.building.kept import building, folder_of, made_before
from cudasim.building.library import (
    COUNTED_SIMULATOR,
    SIMULATOR,
    BuildError,
    Library,
    digest,
    held,
    replacing,
    run,
)
from cudasim.building.places import HEADER_FOLDERS, build_folder
from cudasim.building.toolchains import WITHOUT_FORTIFYING
from cudasim.live import cccl
from cudasim.live.compiling import (
    WRAPPED,
    compile_for_simulator,
    cpp_compiler,
    headers_digest,
    identity_of,
    known_of,
    simulator_flags,
)
from cudasim.live.dependent import TAKEN_FOR_A_COMPARISON
from cudasim.live.judge import Case, judged_while
from cudasim.live.source import ALL, PROGRAM, included, names_cuda, own_headers
from cudasim.programs.blas import blas
from cudasim.programs.refused import refusals

RUN, CHECK, COUNT, PREDICT = ("run", "check", "count", "predict")
_OF_CUDA = (".cu", ".cuh")
_OF_CPP = (".cpp", ".cc", ".cxx", ".c")
# What no other way to write the source would mend.
_IS_UNKNOWN = re.compile(
    r"No such file|file not found|(?:was not|has not been) declared|does not name a type|undeclared|"
    r"unknown type name"
)
# A __forceinline__ function that calls itself is one that nvcc does not inline, and gcc refuses.
_CALLS_ITSELF = "#undef __forceinline__\n#define __forceinline__ inline"


@dataclass(frozen=True)
class Program:
    """The sources of a program, and how they are compiled.

    sources: files of CUDA C++ (.cu), of C and C++, and objects (.o, .a). folders: for headers. defines:
    macros, as "N=3". more: flags for the host's compiler. are_cuda: the sources are CUDA C++, whatever their
    names.
    """

    sources: tuple[Path, ...]
    folders: tuple[Path, ...] = ()
    defines: tuple[str, ...] = ()
    more: tuple[str, ...] = ()
    libraries: tuple[str, ...] = ()
    are_cuda: bool = False

    def object_of(self, source: Path, mode: str = RUN) -> Path:
        """The source, compiled unless that was done before. BuildError with the compiler's messages, with
        the names that the simulator has not, or with what is not CUDA."""
        if self.are_cuda or source.suffix in _OF_CUDA:
            return judged_while(self._case(source), lambda: self._compiled(source, mode))
        return self._compiled(source, mode)

    def _case(self, source: Path) -> Case:
        """The source as nvcc is asked about it."""
        more = (f"-Xcompiler={flag}" for flag in self.more if not flag.startswith("-std="))
        defines = (f"-D{name}" for name in self.defines)
        standard = self._standard("-std=gnu++17").replace("gnu", "c")
        text = source.read_text(encoding="utf-8-sig", errors="replace")
        return Case.of_program(text, source.name, self._around(source), (standard, *defines, *more))

    def _compiled(self, source: Path, mode: str) -> Path:
        try:
            return self._object_in_any_way(source, mode)
        except BuildError as error:
            texts = {source.name: source.read_text(encoding="utf-8-sig", errors="replace")}
            texts |= {path.name: path.read_text(errors="replace") for path in self.headers_of(source)}
            missing = [line for file, text in texts.items() for line in refusals(text, file)]
            # Where it stops for something else, the name may be in what no compiler reads.
            if any(line.split()[2] in str(error) for line in missing):
                raise BuildError("\n".join(missing)) from None
            raise

    def _objects(self, mode: str) -> list[Path]:
        """All sources, compiled. BuildError with the messages of each."""
        made, errors = [], []
        for source in self.sources:
            try:
                made.append(self.object_of(source, mode))
            except BuildError as error:
                errors.append(str(error))
        if errors:
            raise BuildError("\n".join(errors))
        return made

    def _object_in_any_way(self, source: Path, mode: str) -> Path:
        if source.suffix in (".o", ".obj", ".a", ".so"):
            return source
        if not self._is_cuda(source) and not names_cuda(
            source.read_text(errors="replace"), self._around(source)
        ):
            try:
                return self._object_of_host(source)
            except BuildError:
                if source.suffix == ".c":
                    raise  # and C++ may have what is CUDA's without its name
        try:
            return self._object_of(source, mode, ALL)
        except BuildError as error:
            if _IS_UNKNOWN.search(str(error)):
                raise
            if any(said in str(error) for said in TAKEN_FOR_A_COMPARISON):
                return self._object_of(source, mode, ALL | {"dependent"})
            if "always_inline" in str(error):
                return self._object_of(source, mode, ALL, _CALLS_ITSELF)
            # As for kernels from a cell: a cast or a shift of a type of the program's own.
            for values in (frozenset({"casts"}), frozenset()):
                try:
                    return self._object_of(source, mode, values)
                except BuildError:
                    continue
            raise error

    def _object_of(self, source: Path, mode: str, values: frozenset[str], before: str = "") -> Path:
        library, checks = _library(mode), mode == CHECK
        text = source.read_text(encoding="utf-8-sig", errors="replace")
        folders = self._around(source)
        read = included(text, source.name, folders, values=values, is_program=True)
        is_c = source.suffix == ".c" and not self.are_cuda
        written = read.text if source.suffix not in _OF_CPP else f'#line 1 "{source.name}"\n{read.text}'
        if before:
            written = f'{before}\n#line 1 "{source.name}"\n{written}'
        if is_c:
            written = f'extern "C" {{\n{written}\n}}'  # by the names that other C has for its functions
        own = ("-fvisibility=default", "-Wno-unused-result", "-Wno-unused-variable", "-Wno-unused-parameter")
        more = (
            *(blas().flags() if blas() else ()),
            *(f"-D{name}" for name in self.defines),
            *(f"-I{folder}" for folder in folders),
            *(flag for flag in self.more if not flag.startswith("-std=")),  # which _standard() looks at
            *(["-fpermissive"] if is_c else []),  # C turns a void * into any pointer
        )
        known = (
            *(source.name, written, *own, *cccl.flags(), *more),
            *known_of(library, "throw" + text, checks),
        )
        try:
            compiler = _compiler()
            plain = simulator_flags(library, "throw" + text, checks)
        except MissingToolError as error:
            return made_before("programs", known, "kernels.o", error)
        flags = tuple(self._standard(flag) for flag in spelled_for(compiler, (*plain, *own, "-w")))
        path = folder_of("programs", known, (compiler, identity_of(compiler), *flags)) / "kernels.o"
        file = f"{source.stem}.cu"
        with building(path) as is_missing:
            if is_missing:
                (path.parent / file).write_text(written)
                libraries = cccl.flags()
                compile_for_simulator(
                    compiler, flags, more, file, path.parent, read, "program.hpp", libraries
                )
        return path

    def _is_cuda(self, source: Path) -> bool:
        return self.are_cuda or source.suffix not in _OF_CPP

    def headers_of(self, source: Path) -> list[Path]:
        """Those that the source includes, directly or not, from its folders."""
        text = source.read_text(encoding="utf-8-sig", errors="replace")
        return list(own_headers(text, self._around(source)))

    def _of_cpp_library(self) -> tuple[str, ...]:
        """What changes how objects of C++'s library lie in memory, as -D_GLIBCXX_DEBUG."""
        flags = (*(f"-D{name}" for name in self.defines), *self.more)
        return tuple(flag for flag in flags if flag.startswith("-D_GLIBCXX"))

    def _around(self, source: Path) -> list[Path]:
        return [source.resolve().parent, *(folder.resolve() for folder in self.folders)]

    def _object_of_host(self, source: Path) -> Path:
        """A source that has nothing of CUDA, which nvcc as well leaves to the C or C++ compiler: it may use
        names that are CUDA's."""
        is_c = source.suffix == ".c"
        compiler = find_c_compiler() if is_c else _compiler()
        if compiler is None:
            raise MissingToolError(f"no C compiler was found ($CC, gcc, clang), and {source.name} is in C")
        flags = (WITHOUT_FORTIFYING, "-O2", "-g", "-fPIC", "-w", *(f"-D{name}" for name in self.defines))
        flags = (*flags, *(f"-I{folder.resolve()}" for folder in self.folders))
        flags = (*flags, *(flag for flag in self.more if not (is_c and flag.startswith("-std="))))
        # What it includes may have changed, and is not looked for: this compiles in no time.
        folder = build_folder() / "programs" / digest(str(source.resolve()), compiler, *flags)[:16]
        with held(folder), replacing(folder / f"{source.stem}.o") as temporary:
            run([compiler, *flags, "-c", str(source), "-o", temporary])
        return folder / f"{source.stem}.o"

    def _standard(self, flag: str) -> str:
        """The simulator's own standard, which its headers need, unless the program wants a newer one."""
        wanted = [of for of in self.more if of.startswith("-std=")]
        newer = wanted and re.search(r"2[0-9a-z]$", wanted[-1])
        return "-std=gnu++20" if flag.startswith("-std=gnu++") and newer else flag

    def library(self, mode: str) -> Path:
        """The program as a library, for runner.py."""
        simulator = _library(mode)
        objects = self._objects(mode)
        how = ("-shared", "-Wl,-z,defs")
        parts = (
            simulator.soname,
            *_texts_of_wrapped(),
            *(digest(path.read_bytes()) for path in objects),
            *self.libraries,
            *self.more,
            *how,
        )
        folder = build_folder() / "programs" / digest(*parts)[:16]
        path = folder / "program.so"
        with building(path) as is_missing:
            if is_missing:
                self._link(simulator, objects, path, how)
        return path

    def executable(self, path: Path, how: Sequence[str] = ()):
        """Writes the program as an executable, which needs the simulator where it was built, or as what `how`
        says to the linker."""
        objects = self._objects(RUN)
        self._link(SIMULATOR, objects, path, how)

    def _link(self, simulator: Library, objects: Sequence[Path], path: Path, how: Sequence[str]):
        built = simulator.build()
        wraps = [f"-Wl,--wrap={name}" for name in WRAPPED]
        with replacing(path) as temporary:
            link = [
                _compiler(),
                *how,
                *self.more,
                *map(str, objects),
                str(wrapped_object(self._of_cpp_library())),
                "-o",
                temporary,
                *wraps,
            ]
            link += [str(built), f"-Wl,-rpath,{_by_its_name(simulator)}", *self.libraries, "-lm", "-lpthread"]
            link += blas().link_flags() if blas() else ()
            ran = subprocess.run(link, capture_output=True, text=True)
            if ran.returncode != 0:
                raise BuildError(_undefined(ran.stderr))


def command(mode: str, library: Path, name: str, arguments: Sequence[str], table: str = "") -> list[str]:
    """What runs a program in a process of its own. name: as main() gets it. table: a file for counts;
    what to predict, as `of_programs.show()` takes it."""
    return [sys.executable, "-m", "cudasim.programs.runner", mode, str(library), table, name, *arguments]


def _by_its_name(simulator: Library) -> Path:
    """A folder where the loader finds the simulator for an executable: by the name that tells its sources."""
    folder = (
        build_folder() / "programs" / digest(simulator.soname, _compiler(), identity_of(_compiler()))[:16]
    )
    path = folder / simulator.soname
    with building(path) as is_missing:
        if is_missing:
            with replacing(path) as temporary:
                shutil.copyfile(simulator.build(), temporary)
    return folder


def _undefined(said: str) -> str:
    """What a linker misses, in one sentence each."""
    missing = list(dict.fromkeys(re.findall(r"undefined reference to [`'‘]([^'’\n]+)['’]", said)))
    lines = [f"error: {name} is called, and neither the program nor the simulator has it" for name in missing]
    return "\n".join(lines) or said


def _library(mode: str) -> Library:
    return SIMULATOR if mode == RUN else COUNTED_SIMULATOR


@functools.cache
def _compiler() -> str:
    return cpp_compiler("programs cannot be compiled")


def _texts_of_wrapped() -> tuple[str, ...]:
    return tuple(source.read_text() for source in sorted(PROGRAM.glob("*.cpp")))


def wrapped_object(more: tuple[str, ...] = ()) -> Path:
    """The object that every program is linked with. more: as `Program._of_cpp_library()` says."""
    sources = sorted(PROGRAM.glob("*.cpp"))
    flags = ("-std=gnu++17", "-O2", "-w", *(f"-I{folder}" for folder in HEADER_FOLDERS), *more)
    parts = (_compiler(), identity_of(_compiler()), headers_digest(), *_texts_of_wrapped(), *flags)
    path = build_folder() / "programs" / digest(*parts)[:16] / "wrapped.o"
    with building(path) as is_missing:
        if is_missing:
            with TemporaryDirectory() as folder, ThreadPoolExecutor(os.cpu_count()) as pool:

                def compiled(source: Path) -> str:
                    made = f"{folder}/{source.stem}.o"
                    run([_compiler(), *flags, "-fPIC", "-c", str(source), "-o", made])
                    return made

                objects = list(pool.map(compiled, sources))
                with replacing(path) as temporary:
                    run([_compiler(), *flags, "-r", *objects, "-o", temporary, "-nostdlib"])
    return path
