"""nvcc decides what is CUDA: a source that it refuses does not run on the simulator either.

The simulator's compiler takes C++ and accepts more than nvcc does in device code: a `std::vector`, `try`, an
array of variable size, a variable of the host. If there is an nvcc, it reads the source too, without host
code, while the simulator's compiler runs. Only its front end and code generator run (`-ptx`), which needs no
GPU. Its verdict is kept beside the compiled library.

nvcc may fail for reasons outside the source: a missing header, an unknown host compiler. Then, and without
nvcc, the rules of not_cuda.py decide.

CUDASIM_NVCC_JUDGE=0 disables nvcc.
"""

from __future__ import annotations

import functools
import os
import re
import subprocess
import tempfile
import warnings
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from cudasim.building.library import BuildError, digest, digest_of_headers, replacing
from cudasim.building.own_files import locked, make_folder
from cudasim.building.places import HEADER_FOLDERS, build_folder, is_writable
from cudasim.building.toolchains import find_nvcc, nvcc_toolchain
from cudasim.live.compiling import nvcc_language, standard_of
from cudasim.live.messages import LAUNCH_CODE, MOST_ERRORS, excerpt, nvcc_errors
from cudasim.live.not_cuda import refusals
from cudasim.live.source import INCLUDE, Included, included
from cudasim.live.text import blanked, places_in

# The simulator's __CUDA_ARCH__ is 900. The "a" adds instructions of this architecture alone.
_ARCHITECTURE = "-arch=compute_90a"
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
_MISSING = "sim_missing_header"


class NotCudaError(BuildError):
    """A source that the simulator would run and that nvcc refuses."""


@dataclass(frozen=True)
class _Case:
    """A source to judge. text: without host code, with explicit instances of its templates."""

    file: str
    text: str
    read: Included
    folders: tuple[Path, ...]

    @classmethod
    def of(cls, program, instance) -> _Case:
        read = included(program.source, program.file, program.folders, program.only, for_nvcc=True)
        used = [f"    (void)({instance.expression});"] if instance and instance.instantiates else []
        source = with_what_is_there(f'#line 1 "{program.file}"\n{read.text}')
        text = "\n".join((source, f'#line 1 "{LAUNCH_CODE}"', "void sim_judged() {", *used, "}", ""))
        return cls(program.file, text, read, program.folders)

    def refuse_by_rules(self):
        found = refusals(self.text)
        if found:
            raise NotCudaError(_told("not CUDA, and no GPU would run it", found, self.read))

    def refusal(self, said: str) -> NotCudaError | None:
        """Raises for errors in the user's own lines, unless other errors show that nvcc itself is at
        fault."""
        errors = [error for error in nvcc_errors(said) if error[0] != LAUNCH_CODE]
        own = [error for error in errors if error[0] in self.read.texts]
        others = [what for file, _, what in errors if file not in self.read.texts]
        # nvcc also misses what a missing header declares.
        doubtful = [what for _, _, what in own] + others if _MISSING in said else others
        is_nvccs = any(_OF_A_VERSION.match(what) for _, _, what in own) or "fatal error:" in said
        if own and not is_nvccs and all(_OF_DEVICE_CODE.search(what) for what in doubtful):
            return NotCudaError(_told("nvcc refuses it, so no GPU would run it", own, self.read))
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
    shown = [
        "\n".join(filter(None, (f"{file}:{line}: error: {message}", excerpt(read, file, line))))
        for (file, line), message in sorted(first.items(), key=lambda error: error[0][1])
    ]
    return "\n".join((f"{what}:", *shown[:MOST_ERRORS]))


@functools.cache
def _identity(_nvcc: str) -> str:
    return digest(nvcc_toolchain().identity, digest_of_headers(HEADER_FOLDERS))


def _command(nvcc: str, case: _Case) -> list[str]:
    folders = (f"-I{folder}" for folder in (*HEADER_FOLDERS, *case.folders))
    standard = (f"-std=c{standard_of(case.text)}", "-allow-unsupported-compiler")
    return [nvcc, "-ptx", "-rdc=true", _ARCHITECTURE, *nvcc_language(case.text), *standard, *folders]


_PORTABLE = ("-include", "sim/portable.h")


def _verdict(case: _Case, nvcc: str) -> str:
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
        result = _run([*command, *_PORTABLE], case.file, folder)
        # The source may declare a name of that header for itself.
        if result.returncode != 0 and _run(command, case.file, folder).returncode == 0:
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
        command = [*command, file, "-o", f"{made}/kernels.ptx"]
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


def _nvcc_for(case: _Case) -> str | None:
    """nvcc, unless the source is for the simulator alone or nothing can be kept."""
    is_simulators = re.search(r'#\s*include\s*"sim/(?:ptx|hopper)/', case.text)
    is_off = os.environ.get("CUDASIM_NVCC_JUDGE") == "0" or is_simulators or not is_writable(build_folder())
    return None if is_off else find_nvcc()


def judged(build: Callable) -> Callable:
    """Program.build() that raises NotCudaError for a source that is compiled and is not CUDA."""

    @functools.wraps(build)
    def build_judged(program, device: str, extra=None):
        if device != "cpu":
            return build(program, device, extra)
        case = _Case.of(program, extra)
        nvcc = _nvcc_for(case)
        if nvcc is None:
            built = build(program, device, extra)
            case.refuse_by_rules()
            return built
        pool = ThreadPoolExecutor(1)
        asked = pool.submit(_verdict, case, nvcc)
        pool.shutdown(wait=False)
        built = build(program, device, extra)
        said = asked.result()  # however long nvcc needs: who is refused does not depend on the machine
        if refusal := case.refusal(said):
            raise refusal
        if said != _ACCEPTED:
            case.refuse_by_rules()
            _tell_once(nvcc, case.file, said)
        return built

    return build_judged
