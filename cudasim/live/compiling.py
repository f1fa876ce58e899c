"""Compiling a source with its kernels: as C++ for the simulator, by nvcc for a GPU.

Beside the kernels, the library has functions that Python calls: one for each kernel that launches it, and
functions that describe the types of its parameters, of structs' members and of variables in device memory.
"""

from __future__ import annotations

import functools
import platform
import re
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from cudasim.arrays import loaded_torch
from cudasim.building import full_disk
from cudasim.building.compilers import MissingToolError, command_output, find_cpp_compiler, spelled_for
from cudasim.building.kept import building, folder_of, made_before
from cudasim.building.library import (
    BuildError,
    Library,
    digest,
    digest_of_headers,
    held,
    replacing,
    simulator,
)
from cudasim.building.places import HEADER_FOLDERS, SOURCES, build_folder
from cudasim.building.toolchains import ALL_FLAGS, ONLY_CHECKED_FLAGS, nvcc_toolchain
from cudasim.counting.counted import only_checks
from cudasim.live import cccl, torch_headers
from cudasim.live.blind_loops import BLIND_LOOPS, flags_of_loops, list_blind_loops
from cudasim.live.copies import (
    COPIES,
    LISTING,
    WITH_COPIES,
    has_unseen_copies,
    indices,
    initial_values,
    name_the_lines_that_copy,
)
from cudasim.live.empty_loops import EMPTY_LOOP, let_empty_loops_stop
from cudasim.live.host import HOST_ASSEMBLY
from cudasim.live.messages import LAUNCH_CODE, explained, warnings_about
from cudasim.live.padding import ASSEMBLY, PADDING, pad_shared_variables
from cudasim.live.signature import Signature, Variable
from cudasim.live.source import CPP, HOPPER, PROGRAM, Included, names_special_functions
from cudasim.live.tree import rewritten

# ------------------------------------------------------------------------------------------------------------
# The code that is added after a source


@dataclass(frozen=True)
class Instance:
    """A kernel to compile. template: a template kernel's arguments, "" for other kernels."""

    signature: Signature
    template: str = ""

    @property
    def instantiates(self) -> bool:
        """Whether the kernel is a template. All its arguments may be defaults."""
        declared = self.signature.template
        return bool(self.template) or (bool(declared) and all("=" in parameter for parameter in declared))

    @property
    def expression(self) -> str:
        signature = self.signature
        arguments = f"<{self.template}>" if signature.template else ""
        kernel = f"&::{signature.qualified}{arguments}"
        if signature.template or signature.scope or not signature.is_overloaded:
            return kernel
        types = ", ".join(parameter.declaration for parameter in signature.parameters)
        return f"static_cast<void (*)({types})>({kernel})"


def _describing(instances: Sequence[Instance], variables: Sequence[Variable], structs: dict) -> list[str]:
    lines = []
    for index, instance in enumerate(instances):
        lines += [
            f"SIM_EXPORT const sim_named *parameters_{index}() {{",
            f"    return sim_parameters({instance.expression});",
            "}",
        ]
    for index, (name, members) in enumerate(structs.items()):
        entries = [
            f'{{"{member}", sim_describe<decltype({name}::{member})>(), offsetof({name}, {member}), 0}}, '
            for member in members
        ]
        lines += [
            f"SIM_EXPORT const sim_named *members_{index}() {{",
            f"    static const sim_named members[] = {{{''.join(entries)}",
            f"        {{0, sim_describe<{name}>(), 0, 0}}}};",
            "    return members;",
            "}",
        ]
    entries = [
        f'{{"{v.name}", sim_describe<decltype({v.qualified})>(), 0, sim_address({v.qualified})}}, '
        for v in variables
    ]
    lines += [
        "SIM_EXPORT const sim_named *device_variables() {",
        f"    static const sim_named variables[] = {{{''.join(entries)}{{0, 0, 0, 0}}}};",
        "    return variables;",
        "}",
    ]
    return lines


def _template_constants(instance: Instance) -> list[str]:
    """Definitions of the template parameters that the cluster's size uses."""
    lines = []
    given = [piece.strip() for piece in instance.template.split(",")]
    for declared, value in zip(instance.signature.template, given, strict=False):
        name = re.fullmatch(
            r"(?:const\s+)?(?:int|unsigned|size_t|auto|bool)\b.*?\b(\w+)(?:\s*=.*)?", declared
        )
        if name and re.search(rf"\b{name[1]}\b", instance.signature.cluster):
            lines.append(f"    constexpr auto {name[1]} = {value};")
    return lines


def _simulator_text(text: str, instances, variables, structs) -> str:
    """The source, and for each kernel a function that calls it with arguments given by pointers."""
    lines = [
        "template <class SimVariable> static void *sim_address(SimVariable &variable) {",
        "    return (void *)&variable;",
        "}",
    ]
    for index, instance in enumerate(instances):
        lines += [
            f'SIM_EXPORT __attribute__((no_sanitize("thread"))) void enter_{index}(const void *arguments) {{',
            f"    sim_enter<(decltype(sim_entered({instance.expression}))){instance.expression}>"
            f"({instance.expression}, arguments);",
            "}",
            f"SIM_EXPORT unsigned cluster_{index}(int axis) {{",
            *_template_constants(instance),
            f"    const dim3 size{{{instance.signature.cluster}}};",
            "    return axis == 0 ? size.x : axis == 1 ? size.y : size.z;",
            "}",
        ]
    return "\n".join(
        [text, f'#line 1 "{LAUNCH_CODE}"', *lines, *_describing(instances, variables, structs), ""]
    )


def _gpu_text(source: str, file: str, instances, variables, structs) -> str:
    """The source, and for each kernel a function that launches it with arguments given by pointers. The
    header comes first, as on the simulator: macros of the source would change it."""
    lines = [
        "SIM_EXPORT const char *error_string(int error) {",
        "    return cudaGetErrorString((cudaError_t)error);",
        "}",
        "template <class SimVariable> static void *sim_address(SimVariable &variable) {",
        "    void *address = NULL;",
        "    cudaGetSymbolAddress(&address, variable);",
        "    return address;",
        "}",
    ]
    for index, instance in enumerate(instances):
        # A launch has to ask for more than 48 KiB of dynamic shared memory.
        lines += [
            f"SIM_EXPORT int launch_{index}(dim3 grid, dim3 block, unsigned long long shared_bytes,",
            "                         void **arguments, void *stream) {",
            f"    const void *kernel = (const void *){instance.expression};",
            "    cudaError_t error = cudaSuccess;",
            "    if (shared_bytes > 48 << 10)",
            "        error = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,",
            "                                     (int)shared_bytes);",
            "    if (error == cudaSuccess)",
            "        error = cudaLaunchKernel(kernel, grid, block, arguments, shared_bytes,",
            "                                 (cudaStream_t)stream);",
            "    cudaGetLastError();",
            "    return error;",
            "}",
        ]
    return "\n".join(
        [
            '#include "sim/cpp/entry.hpp"',
            f'#line 1 "{file}"',
            source,
            f'#line 1 "{LAUNCH_CODE}"',
            *lines,
            *_describing(instances, variables, structs),
            "",
        ]
    )


# ------------------------------------------------------------------------------------------------------------
# Compilers


@functools.cache
def identity_of(compiler: str) -> str:
    return command_output([compiler, "--version"]) or ""


def cpp_compiler(without: str) -> str:
    """The C++ compiler. MissingToolError if there is none; without: what is then impossible."""
    compiler = find_cpp_compiler()
    if compiler is None:
        raise MissingToolError(f"no C++ compiler was found ($CXX, g++, clang++), so {without}")
    return compiler


@functools.cache
def headers_digest() -> str:
    """A digest of the headers with which kernels in C++ are compiled."""
    of_both = (SOURCES / "sim/calls.h", SOURCES / "sim/vectors.h", *HOPPER.glob("*.h"), *PROGRAM.glob("*"))
    files = sorted((*CPP.rglob("*"), *of_both))
    return digest(*(part for path in files if path.is_file() for part in (path.name, path.read_bytes())))


@functools.cache
def toolchain_of(library: Library):
    return library.toolchain()


_nvcc = functools.cache(nvcc_toolchain)


_NO_WARNING = (
    *("unused-function", "unused-but-set-variable", "unknown-pragmas", "narrowing", "unused-local-typedefs"),
    *("invalid-offsetof", "attributes", "unused-value", "sign-compare", "comment", "format"),
    *("subobject-linkage", "sometimes-uninitialized"),
)


def nvcc_language(text: str) -> tuple[str, ...]:
    """Flags that many kernels rely on: constexpr functions are also the device's, and the host's lambdas may
    be, as a word or a macro behind the brackets says. That takes nvcc a tenth of a second."""
    is_marked = re.search(r"\]\s*(?:__(?:host|device)__|[A-Za-z_]\w*\s*[({])", text)
    return ("--expt-relaxed-constexpr", *(("--extended-lambda",) if is_marked else ()))


def standard_of(text: str) -> str:
    return "++20" if re.search(r"\bconcept\s+\w+\s*=", text) else "++17"


def _flags_of_kernels(text: str, only_checks: bool) -> tuple[str, ...]:
    """The flags of kernels that the simulator itself does not have."""
    # They find operations that C++ leaves undefined but a GPU defines (sim/undefined.c). A kernel's array in
    # shared or local memory has the program's memory beside it, so indices are checked.
    added = ("-fsanitize=float-cast-overflow,shift-exponent,bounds,return",)
    # x86-64 has a signal for a division by zero, AArch64 a quotient.
    if platform.machine() in ("aarch64", "arm64"):
        added = (*added, "-fsanitize=integer-divide-by-zero")
    checks = ONLY_CHECKED_FLAGS if only_checks else ()
    # Device code has no exceptions. Without them a function has one exit, on which traces and counts rely.
    exceptions = () if re.search(r"\b(?:throw|try|catch)\b", text) else ("-fno-exceptions",)
    return (
        *checks,
        *added,
        *("-fvisibility=hidden", "-fno-threadsafe-statics"),
        "-gdwarf-4",  # in DWARF 5, binutils 2.40 takes a header's function that comes first for the source's
        "-fno-delete-null-pointer-checks",  # a kernel that only copies to a null pointer is left out without
        "-fno-plt",  # the simulator is called often
        "-fno-finite-loops",  # C++ lets a compiler leave out a loop that has no effect, also if it never ends
        *("-fsigned-char", *exceptions, *(f"-Wno-{name}" for name in _NO_WARNING)),
    )


def _is_watched(flags: Sequence[str]) -> bool:
    """Whether these flags compile kernels for the counted simulator."""
    return any(flag.startswith("-fsanitize=thread") for flag in flags)


def simulator_flags(library: Library, text: str, only_checks: bool) -> tuple[str, ...]:
    dropped = ("-x", "c", "-std=gnu11", "-Wextra")
    flags = [flag for flag in toolchain_of(library).flags if flag not in dropped]
    if not _is_watched(flags):
        flags += flags_of_loops(text)
    return ("-x", "c++", f"-std=gnu{standard_of(text)}", *flags, *_flags_of_kernels(text, only_checks))


def known_of(library: Library, text: str, only_checks: bool) -> tuple[str, ...]:
    """The part of the cache key for the simulator, beside the source's text, that is known without a
    compiler. text: as `simulator_flags()` takes it."""
    flags = (*ALL_FLAGS, *flags_of_loops(text), standard_of(text), *_flags_of_kernels(text, only_checks))
    return (library.soname, headers_digest(), *REWRITES, *WRAPPED, *flags)


def _gpu_flags(capability: tuple[int, int], text: str) -> tuple[str, ...]:
    flags = [flag for flag in _nvcc().flags if not flag.startswith("-Xcompiler")]
    # The GPU is this machine's, so from Hopper on code may be specific to its architecture (wgmma).
    architecture = "{}{}{}".format(*capability, "a" if capability >= (9, 0) else "")
    made_for = f"-gencode=arch=compute_{architecture},code=sm_{architecture}"
    return (*flags, *nvcc_language(text), made_for, "-Xcompiler=-fPIC")


def _precompiled(compiler: str, flags: Sequence[str], header: str = "cuda.hpp") -> Path:
    """A folder where g++ finds the simulator's header of that name precompiled: compiling it takes two
    seconds, once and not for every source.
    """
    key = digest(compiler, identity_of(compiler), headers_digest(), header, *flags)[:16]
    folder = build_folder() / "live" / f"headers-{key}"
    with held(folder):
        if not (folder / header).exists():
            if "clang" not in identity_of(compiler):
                with replacing(folder / f"{header}.gch") as temporary:
                    command = [compiler, *flags[:1], "c++-header", *flags[2:], f"-I{SOURCES}", CPP / header]
                    made = subprocess.run([*command, "-o", temporary], capture_output=True, text=True)
                    if made.returncode != 0:
                        raise BuildError(made.stderr)
            (folder / header).write_text(f'#include "sim/cpp/{header}"\n')
    return folder


# ------------------------------------------------------------------------------------------------------------
# Libraries

# Functions of the C library, and C++'s new and delete, that the device's replace in a kernel (sim/heap.c).
WRAPPED = (
    *("malloc", "calloc", "free", "exit", "_Exit", "_exit", "abort", "system", "clock", "printf"),
    *("__cxa_allocate_exception", "__cxa_rethrow"),
    *("_Znwm", "_Znam", "_ZdlPv", "_ZdlPvm", "_ZdaPv", "_ZdaPvm"),
)


def build(
    device: str,
    file: str,
    source: str,
    read: Included,
    instances: Sequence[Instance],
    variables: Sequence[Variable],
    structs: dict[str, list[str]],
    folders: Sequence[Path],
) -> tuple[Path, str]:
    """Compiles the source, or finds the earlier result. Returns the library and the compiler's warnings."""
    known = (file, *read.texts.values())
    if device == "cpu":
        library, checks = simulator(), only_checks()
        text = _simulator_text(read.text, instances, variables, structs)
        headers = (*torch_headers.flags(read.text), *cccl.flags_for_cub(read.text))
        known = (*known, text, *headers, *known_of(library, read.text, checks))
        try:
            compiler = cpp_compiler("kernels from a cell or a string have no simulator to run on")
            flags = spelled_for(compiler, simulator_flags(library, read.text, checks))
        except MissingToolError as error:
            return _with_messages(made_before("live", known, "kernels.so", error))
        libraries = (str(library.build()), "-Wl,-z,defs", *(f"-Wl,--wrap={name}" for name in WRAPPED))
        link_flags = toolchain_of(library).link_flags
        by = (compiler, identity_of(compiler), *flags, *headers, *libraries)
    else:
        compiler, libraries, link_flags = _nvcc().compiler, (), ("-shared",)
        text = _gpu_text(source, file, instances, variables, structs)
        flags = _gpu_flags(loaded_torch().cuda.get_device_capability(device), source)
        # nvcc reads the user's headers itself, so their texts are part of the key.
        extra = ("-include", "sim/portable.h", *(f"-I{folder}" for folder in folders))
        known = (*known, text, digest_of_headers(HEADER_FOLDERS))
        by = (compiler, _nvcc().identity, *flags, *extra)
    folder = folder_of("live", known, by)
    path = folder / "kernels.so"
    with building(path) as is_missing:
        if is_missing:
            (folder / file).write_text(text)
            if device == "cpu":
                messages = compile_for_simulator(compiler, flags, (), file, folder, read, libraries=headers)
            else:
                # The compiler runs in the file's folder, so that its messages use the name that the user
                # knows.
                command = [compiler, *flags, *(f"-I{of}" for of in HEADER_FOLDERS), *extra]
                messages = _run([*command, "-c", file, "-o", "kernels.o"], folder, read)
            _messages_of(path).write_text(messages)
            with replacing(path) as temporary:
                link = [compiler, "kernels.o", "-o", temporary, *libraries, *link_flags]
                _link(link, device, folder, read)
    return _with_messages(path)


def _link(command: list[str], device: str, folder: Path, read: Included) -> None:
    if device == "cpu":
        # Few kernels need C++'s library, which takes the linker as long to read as all else.
        with suppress(BuildError):
            _run([*command, "-nodefaultlibs", "-lc", "-lgcc"], folder, read)
            return
    _run(command, folder, read)


def _messages_of(path: Path) -> Path:
    return path.with_name("warnings.txt")


def _with_messages(path: Path) -> tuple[Path, str]:
    return path, _messages_of(path).read_text()


def compile_for_simulator(
    compiler: str,
    flags: Sequence[str],
    more: Sequence[str],
    file: str,
    folder: Path,
    read: Included,
    header: str = "cuda.hpp",
    libraries: Sequence[str] = (),
) -> str:
    """Compiles a C++ source in the folder to kernels.o; returns the compiler's warnings.

    flags, header: the precompiled header's, which g++ uses with these very flags only. libraries: flags
    before those that name the simulator's own headers. more: flags after them.
    """
    included = f"{Path(header).stem}_with_cub.hpp" if cccl.names_cub(read.text) else header
    precompiled = _precompiled(compiler, (*flags, *cccl.flags_for_cub(read.text)), included)
    first = ("-Winvalid-pch", "-include", str(precompiled / included))
    if names_special_functions(read.text):
        first = (*first, "-include", str(CPP / "special_functions.hpp"))
    folders = (f"-fdebug-prefix-map={folder}=.", *(f"-I{of}" for of in HEADER_FOLDERS), f"-I{CPP}")
    is_clang = "clang" in identity_of(compiler)
    # clang's own assembler would read the text of asm statements.
    own = ("-fno-integrated-as",) if is_clang else LISTING if _is_watched(flags) else ()
    command = [compiler, *flags, *first, *libraries, *folders, *more, *own, "-S", file, "-o", "kernels.s"]
    messages = _run(command, folder, read)
    if own == LISTING and has_unseen_copies(folder) and WITH_COPIES[0] not in flags:
        flags, text = (*flags, *WITH_COPIES), (folder / file).read_text()
        (folder / file).write_text(rewritten(text, [indices, initial_values]))
        try:
            return compile_for_simulator(compiler, flags, more, file, folder, read, header, libraries)
        except BuildError:  # an index of the source's own kind
            (folder / file).write_text(text)
            return compile_for_simulator(compiler, flags, more, file, folder, read, header, libraries)
    _refuse_inline_ptx(folder / "kernels.s", read)
    _name_a_line_for_each(folder / "kernels.s")
    if _is_watched(flags):
        let_empty_loops_stop(folder / "kernels.s")
        name_the_lines_that_copy(folder / "kernels.s")
    else:
        list_blind_loops(folder / "kernels.s", read.texts.values())
    pad_shared_variables(folder / "kernels.s")
    _run([compiler, "-c", "kernels.s", "-o", "kernels.o"], folder, read)
    return messages


# What gcc and clang write around the text of an asm statement; clang names no line there.
_INLINE = re.compile(r'^# (?P<line>\d+) "(?P<file>[^"]*)" 1\n(?P<text>.*?)^# 0 "" 2$', re.M | re.S)
_INLINE_OF_CLANG = re.compile(r"^\s*(?:#|//)APP\n(?P<text>.*?)^\s*(?:#|//)NO_APP$", re.M | re.S)
_FILE = re.compile(r'^\s*\.file\s+(\d+) (?:"[^"]*" )?"([^"]*)"', re.M)
_LINE = re.compile(r"^\s*\.loc\s+(\d+) (\d+) .*\n", re.M)


def _inline(assembly: str) -> Iterator[tuple[str, str, str]]:
    """The asm statements: file, line and text of each."""
    for match in _INLINE.finditer(assembly):
        yield match["file"], match["line"], match["text"]
    files = dict(_FILE.findall(assembly))
    for match in _INLINE_OF_CLANG.finditer(assembly):
        lines = _LINE.findall(assembly, 0, match.start())
        if lines:
            yield files.get(lines[-1][0], "").removeprefix("./"), lines[-1][1], match["text"]


def _refuse_inline_ptx(assembly: Path, read: Included) -> None:
    """Raises BuildError for inline PTX left in a kernel: this processor has other instructions, some with the
    same names."""
    errors = []
    for file, line, inline in _inline(assembly.read_text(ASSEMBLY)):
        text = " ".join(inline.split())
        if text and file in read.texts and HOST_ASSEMBLY not in text:
            errors.append(f"{file}:{line}:0: error: inline PTX, here `{text}`")
    if errors:
        raise BuildError(explained("\n".join(dict.fromkeys(errors)), read))


# A block of code that begins without a line number, up to its first line number.
_BLOCK_WITHOUT_LINE = re.compile(
    r"^[ \t]*\.loc[ \t]+\d+ 0 .*\n"
    r"(?P<begin>(?:[ \t]*(?:#|//).*\n)*[ \t]*(?:callq?|bl)[ \t]+__sanitizer_cov_trace_pc\b.*\n"
    r"(?:[ \t]*(?:#|//).*\n|\.Ltmp\d+:.*\n)*)(?P<line>[ \t]*\.loc[ \t]+\d+ [1-9].*\n)",
    re.M,
)


def _name_a_line_for_each(assembly: Path) -> None:
    """Adds line numbers that clang leaves out: code from several lines gets the line before it, and the
    beginning of a block, such as a loop's, gets the line after it."""
    text = assembly.read_text(ASSEMBLY)
    named = _BLOCK_WITHOUT_LINE.sub(r"\g<line>\g<begin>\g<line>", text)
    named = _LINE.sub(lambda found: "" if found[2] == "0" else found[0], named)
    if named != text:
        assembly.write_text(named, ASSEMBLY)


# The version of the changes in a compiler's assembly: after a new one, kernels are compiled again.
REWRITES = (*PADDING, *COPIES, *BLIND_LOOPS, EMPTY_LOOP.pattern, _BLOCK_WITHOUT_LINE.pattern)


def _run(command: list[str], folder: Path, read: Included) -> str:
    result = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    said = (result.stdout + result.stderr).strip()
    if result.returncode != 0 and full_disk.is_full(said):
        raise BuildError(full_disk.words(folder))
    if result.returncode != 0:
        raise BuildError(explained(said, read))
    return warnings_about(said, read)
