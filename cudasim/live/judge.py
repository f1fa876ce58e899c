"""nvcc decides what is CUDA: a source that it refuses does not run on the simulator either.

The simulator's compiler takes C++ and accepts more than nvcc does in device code: a `std::vector`, `try`, an
array of variable size, a variable of the host; and in a program's host code a call of a function of the
device. If there is an nvcc, it reads the source too while the simulator's compiler runs: that of a cell
without its host code (`-ptx`), that of a program whole (`-cuda`). This needs no GPU. Its verdict is kept.

nvcc may fail for reasons outside the source: a missing header, an unknown host compiler, a name that another
version of CUDA has. Then, and without nvcc, the rules of not_cuda.py decide.

CUDASIM_NVCC_JUDGE=0 disables nvcc.
"""

from __future__ import annotations

import functools
import os
import re
import subprocess
import tempfile
import warnings
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from cudasim.building.library import BuildError, digest, digest_of_headers, replacing
from cudasim.building.own_files import locked, make_folder
from cudasim.building.places import HEADER_FOLDERS, build_folder, is_writable
from cudasim.building.toolchains import find_nvcc, nvcc_toolchain
from cudasim.live import not_cuda
from cudasim.live.compiling import nvcc_language, standard_of
from cudasim.live.messages import LAUNCH_CODE, MOST_ERRORS, excerpt, nvcc_errors
from cudasim.live.not_cuda import refusals
from cudasim.live.source import INCLUDE, Included, included
from cudasim.live.text import blanked, places_in

# The simulator's __CUDA_ARCH__ is 900. The "a" adds instructions of this architecture alone.
_OF_CELL = ("-ptx", "-arch=compute_90a")
# The host's copy of a device variable, of which nvcc only warns, is another variable.
_OF_PROGRAM = ("-cuda", "-gencode=arch=compute_90a,code=compute_90a", "-diag-error=20091,20092")
_ACCEPTED = "accepted"

# What other versions of CUDA have, because the simulator has it.
_OF_A_VERSION = re.compile(
    r'namespace "(?:cuda|cub|thrust|nvcuda|cooperative_groups)\b.*" has no member|'
    r'(?:texture|surface) is not a template|no instance of .* function "(?:tex|surf)\w+"'
)
# Errors that neither a missing header nor a C++ library unknown to nvcc can cause.
_OF_DEVICE_CODE = re.compile(
    r"^calling a .*__host__ function|undefined in device code|exception handling|must have a constant value"
)
# nvcc speaks of its own rules in CUDA's words. Any other error of a program that the simulator's compiler
# takes may come of a library, or of a version of CUDA, that nvcc does not know.
_OF_CUDA = re.compile(
    rf"__(?:global|device|host|shared|constant|managed|grid_constant)__|{_OF_DEVICE_CODE.pattern}|device code"
)
_HINTS = (
    ("cannot be directly", "the host's variable of this name is another one: cudaMemcpyToSymbol() copies to "
     "the device's, and cudaMemcpyFromSymbol() from it"),
    ("function call must be configured", "a kernel is launched: name<<<blocks, threads>>>(...)"),
)  # fmt: skip
_REFUSED = "nvcc refuses it, so no GPU would run it"
_REFUSED_PROGRAM = f"{_REFUSED} (CUDASIM_NVCC_JUDGE=0 leaves nvcc out)"
_MANGLED = re.compile(r"\b_ZN?(\d[\w?]*)")
_MISSING = "sim_missing_header"


class NotCudaError(BuildError):
    """A source that the simulator would run and that nvcc refuses."""


@dataclass(frozen=True)
class Case:
    """A source to judge. text: without host code, with explicit instances of its templates; a program's is
    whole. flags: nvcc's."""

    file: str
    text: str
    read: Included
    folders: tuple[Path, ...]
    flags: tuple[str, ...]
    is_of_program: bool

    @classmethod
    def of_cell(cls, program, instance) -> Case:
        read = included(program.source, program.file, program.folders, program.only, for_nvcc=True)
        used = [f"    (void)({instance.expression});"] if instance and instance.instantiates else []
        source = with_what_is_there(f'#line 1 "{program.file}"\n{read.text}')
        text = "\n".join((source, f'#line 1 "{LAUNCH_CODE}"', "void sim_judged() {", *used, "}", ""))
        flags = (*_OF_CELL, f"-std=c{standard_of(text)}")
        return cls(program.file, text, read, program.folders, flags, False)

    @classmethod
    def of_program(
        cls, source: str, file: str, folders: Sequence[Path], more: Sequence[str], is_whole: bool = True
    ) -> Case:
        read = included(source, file, folders, is_program=is_whole, for_nvcc=True)
        text = with_what_is_there(f'#line 1 "{file}"\n{read.text}\n', says=False)
        flags = (*(_OF_PROGRAM if is_whole else _OF_CELL), *more)
        return cls(file, text, read, tuple(folders), flags, True)

    def without_host_code(self) -> Case:
        """Of a program, whose host code may need a library that nvcc misses."""
        folders = [folder for folder in self.folders if folder.is_dir()]
        more = self.flags[len(_OF_PROGRAM) :]
        return self.of_program(self.read.texts[self.file], self.file, folders, more, is_whole=False)

    def refuse_by_rules(self, has_compiled: bool = False):
        """has_compiled: by nvcc. That they do not is kept for a program, which may have long headers."""
        key = digest(self.file, self.text, _rules(), str(has_compiled))[:16]
        folder = build_folder() / "live" / f"judged-{key}"
        kept = folder / "accepted.txt"
        if self.is_of_program and kept.exists():
            return
        found = refusals(self.text, has_compiled)
        if found:
            raise NotCudaError(_told("not CUDA, and no GPU would run it", found, self.read))
        if self.is_of_program and is_writable(build_folder()):
            make_folder(folder, build_folder())
            _kept(kept, _ACCEPTED)

    def refusal(self, said: str) -> NotCudaError | None:
        """Raises for errors in the user's own lines, unless other errors show that nvcc itself is at
        fault."""
        errors = [error for error in nvcc_errors(said) if error[0] != LAUNCH_CODE]
        own = [error for error in errors if error[0] in self.read.texts]
        others = [what for file, _, what in errors if file not in self.read.texts]
        if self.is_of_program:
            own = [error for error in own if _OF_CUDA.search(error[2])]
            is_sure = own and all(map(_OF_CUDA.search, others))
            return NotCudaError(_told(_REFUSED_PROGRAM, own, self.read)) if is_sure else None
        # nvcc also misses what a missing header declares.
        doubtful = [what for _, _, what in own] + others if _MISSING in said else others
        is_nvccs = any(_OF_A_VERSION.match(what) for _, _, what in own) or "fatal error:" in said
        if own and not is_nvccs and all(_OF_DEVICE_CODE.search(what) for what in doubtful):
            return NotCudaError(_told(_REFUSED, own, self.read))
        return None


def with_what_is_there(text: str, says: bool = True) -> str:
    """The text with only those #includes whose headers are found: many are for the host alone. says: whether
    the compiler warns of the others."""
    otherwise = f"#else\n#warning {_MISSING}\n" if says else ""
    places, code = places_in(text), blanked(text.replace('"', " "))

    def asked(match: re.Match) -> str:
        if not code[match.start() : match.end()].strip():
            return match[0]
        file, line = places[text.count("\n", 0, match.start())]
        header = f'"{match[2]}"' if match[2] else f"<{match[3]}>"
        return (
            f'#if __has_include({header})\n#line {line} "{file}"\n{match[0]}\n'
            f'{otherwise}#endif\n#line {line + 1} "{file}"'
        )

    return INCLUDE.sub(asked, text)


def _told(what: str, errors: Iterable[tuple[str, int, str]], read: Included) -> str:
    first = {(file, line): message for file, line, message in reversed(list(errors))}
    shown = []
    for (file, line), message in sorted(first.items(), key=lambda error: error[0][1]):
        told = f"{file}:{line}: error: {_MANGLED.sub(_plain_name, message)}"
        shown.append("\n".join(filter(None, (told, excerpt(read, file, line), _hint(message)))))
    return "\n".join((f"{what}:", *shown[:MOST_ERRORS]))


def _plain_name(mangled: re.Match) -> str:
    """Of a function, as `atomicAdd` for _ZN8_INTERNA9atomicAddE1?1?."""
    rest, name = mangled[1], mangled[0]
    while length := re.match(r"(\d+)(?=[A-Za-z_])", rest):
        end = length.end() + int(length[0])
        name, rest = rest[length.end() : end], rest[end:]
    return name


def _hint(message: str) -> str:
    return next((f"      {hint}" for words, hint in _HINTS if words in message), "")


@functools.cache
def _rules() -> str:
    return Path(not_cuda.__file__).read_text()


@functools.cache
def _version(_nvcc: str) -> str:
    return nvcc_toolchain().identity


@functools.cache
def _identity(nvcc: str) -> str:
    return digest(_version(nvcc), digest_of_headers(HEADER_FOLDERS))


def _command(nvcc: str, case: Case) -> list[str]:
    folders = (f"-I{folder}" for folder in (*HEADER_FOLDERS, *case.folders))
    own = ("-x=cu", "-rdc=true", "-allow-unsupported-compiler", *nvcc_language(case.text))
    # Code that nobody runs, in a seventh of the time where it is long.
    quick = ("-Ofc=max",) if re.search(r"release (?:1[3-9]|[2-9]\d)", _version(nvcc)) else ()
    return [nvcc, *own, *quick, *case.flags, *folders]


_PORTABLE = ("-include", "sim/portable.h")


def _verdict(case: Case, nvcc: str) -> str:
    """nvcc's verdict on the source: _ACCEPTED, or its messages; cached by text."""
    command = _command(nvcc, case)
    folder = (
        build_folder() / "live" / f"judged-{digest(case.file, case.text, _identity(nvcc), *command)[:16]}"
    )
    kept = folder / "verdict.txt"
    if kept.exists():
        return kept.read_text()
    with locked(folder.with_suffix(".lock"), top=build_folder()):
        make_folder(folder)
        (folder / case.file).write_text(case.text)
        portable = () if case.is_of_program else _PORTABLE
        result = _run([*command, *portable], case.file, folder)
        # The source may declare a name of that header for itself.
        if portable and result.returncode != 0 and _run(command, case.file, folder).returncode == 0:
            return _kept(kept, _ACCEPTED)
        said = _ACCEPTED if result.returncode == 0 else (result.stdout + result.stderr).strip()
        return _kept(kept, said) if said == _ACCEPTED or any(nvcc_errors(said)) else said


def _kept(path: Path, said: str) -> str:
    with replacing(path) as temporary:
        Path(temporary).write_text(said)
    return said


def _run(command: list[str], file: str, folder: Path) -> subprocess.CompletedProcess:
    """Runs nvcc in the file's folder, so that its messages use the name that the user knows."""
    with tempfile.TemporaryDirectory(dir=folder) as made:
        command = [*command, file, "-o", f"{made}/kernels"]
        return subprocess.run(command, cwd=folder, capture_output=True, text=True, errors="replace")


_told_of: list[str] = []  # what nvcc has said, when it failed for a reason of its own


def _tell_once(nvcc: str, file: str, said: str):
    if not _told_of:
        _told_of.append(said)
        reason = next((line for line in said.splitlines() if "error" in line), said)
        warnings.warn(
            f"{nvcc} cannot tell whether {file} is CUDA, and the simulator's own rules judge: {reason} "
            "(CUDASIM_NVCC_JUDGE=0 leaves nvcc out)",
            stacklevel=6,
        )


def _nvcc_for(case: Case) -> str | None:
    """nvcc, unless the source is for the simulator alone or nothing can be kept."""
    is_simulators = re.search(r'#\s*include\s*"sim/(?:ptx|hopper)/', case.text)
    is_off = os.environ.get("CUDASIM_NVCC_JUDGE") == "0" or is_simulators or not is_writable(build_folder())
    return None if is_off else find_nvcc()


def _asked(case: Case, nvcc: str) -> tuple[str, NotCudaError | None]:
    """nvcc's verdict, and the refusal that follows from it."""
    said = _verdict(case, nvcc)
    refusal = None if said == _ACCEPTED else case.refusal(said)
    if refusal is None and said != _ACCEPTED and case.is_of_program:
        kernels = case.without_host_code()
        refusal = kernels.refusal(_verdict(kernels, nvcc))
    return said, refusal


def judged_while(case: Case, build: Callable):
    """What `build` returns for a source that is CUDA. NotCudaError for another one that it can compile."""
    nvcc = _nvcc_for(case)
    if nvcc is None:
        built = build()
        case.refuse_by_rules()
        return built
    pool = ThreadPoolExecutor(1)
    asked = pool.submit(_asked, case, nvcc)
    pool.shutdown(wait=False)
    try:
        built = build()
    except BuildError as error:
        # About what a kernel and its launch become here, which the user has not written.
        is_of_launch = case.is_of_program and re.search(r"sim_|-fpermissive", str(error))
        if is_of_launch and (refusal := asked.result()[1]):
            raise refusal from None
        raise
    said, refusal = asked.result()  # however long nvcc needs: who is refused does not depend on the machine
    if refusal:
        raise refusal
    if said != _ACCEPTED or case.is_of_program:
        case.refuse_by_rules(has_compiled=said == _ACCEPTED)
    if said != _ACCEPTED and not case.is_of_program:
        _tell_once(nvcc, case.file, said)
    return built


def judged(build: Callable) -> Callable:
    """Program.build() that raises NotCudaError for a cell that is compiled and is not CUDA."""

    @functools.wraps(build)
    def build_judged(program, device: str, extra=None):
        if device != "cpu":
            return build(program, device, extra)
        return judged_while(Case.of_cell(program, extra), lambda: build(program, device, extra))

    return build_judged
