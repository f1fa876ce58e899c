"""nvcc's options, in the spelling of `cudasim build`.

`nvcc --help` lists them: a long name and a short one, behind one dash or two, with a value behind "=" or as
the next argument. Most are for a GPU's code, and mean nothing on a CPU.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path

# The long names of short ones.
_WITH_VALUE = {
    **{"pre-include": "include", "library": "l", "define-macro": "D", "undefine-macro": "U"},
    **{"include-path": "I", "system-include": "isystem", "library-path": "L", "output-file": "o", "x": "x"},
    **{"std": "std", "compiler-options": "Xcompiler", "linker-options": "Xlinker", "options-file": "optf"},
    **{"dependency-output": "MF", "dependency-target-name": "MT", "optimize": "O", "machine": "m"},
    **{"gpu-architecture": "arch", "gpu-code": "code", "generate-code": "gencode", "entries": "e"},
    **{"compiler-bindir": "ccbin", "archiver-binary": "arbin", "libdevice-directory": "ldir"},
    **{"target-directory": "target-dir", "cudart": "cudart", "cudadevrt": "cudadevrt"},
    **{"optimization-info": "opt-info", "Ofast-compile": "Ofc", "dopt": "dopt", "keep-dir": "keep-dir"},
    **{"ftemplate-backtrace-limit": "ftemplate-backtrace-limit", "ftemplate-depth": "ftemplate-depth"},
    **{"archive-options": "Xarchive", "ptxas-options": "Xptxas", "nvlink-options": "Xnvlink"},
    **{"cudafe-options": "Xcudafe", "static-global-template-stub": "static-global-template-stub"},
    **{"device-entity-has-hidden-visibility": "device-entity-has-hidden-visibility", "threads": "t"},
    **{"split-compile": "split-compile", "split-compile-extended": "split-compile-extended"},
    **{"fdevice-time-trace": "fdevice-time-trace", "time": "time", "maxrregcount": "maxrregcount"},
    **{"relocatable-device-code": "rdc", "ftz": "ftz", "prec-div": "prec-div", "prec-sqrt": "prec-sqrt"},
    **{"fmad": "fmad", "default-stream": "default-stream", "Werror": "Werror", "diag-error": "diag-error"},
    **{"diag-suppress": "diag-suppress", "diag-warn": "diag-warn", "host-linker-script": "hls"},
    **{"brief-diagnostics": "brief-diag", "jump-table-density": "jtd", "compress-mode": "compress-mode"},
    **{"device-stack-protector": "device-stack-protector", "frandom-seed": "frandom-seed"},
    "sanitize": "sanitize",
}
_ALONE = {
    **{"compile": "c", "device-c": "dc", "device-link": "dlink", "link": "link", "shared": "shared"},
    "lib": "lib",
    **{"generate-dependencies-with-compile": "MD", "generate-nonsystem-dependencies-with-compile": "MMD"},
    **{"generate-dependency-targets": "MP", "objdir-as-tempdir": "objtemp", "profile": "pg", "debug": "g"},
    **{"device-debug": "G", "generate-line-info": "lineinfo", "dlink-time-opt": "dlto", "lto": "lto"},
    **{"gen-opt-lto": "gen-opt-lto", "no-host-device-initializer-list": "nohdinitlist", "m64": "m64"},
    **{"no-host-device-move-forward": "nohdmoveforward", "relaxed-constexpr": "relaxed-constexpr"},
    **{"expt-relaxed-constexpr": "expt-relaxed-constexpr", "extended-lambda": "extended-lambda"},
    **{"expt-extended-lambda": "expt-extended-lambda", "dont-use-profile": "noprof", "verbose": "v"},
    **{"allow-unsupported-compiler": "allow-unsupported-compiler", "use-local-env": "use-local-env"},
    **{"keep": "keep", "save-temps": "save-temps", "no-align-double": "no-align-double"},
    **{"no-device-link": "nodlink", "use_fast_math": "use_fast_math", "disable-warnings": "w"},
    **{"extra-device-vectorization": "extra-device-vectorization", "source-in-ptx": "src-in-ptx"},
    **{"keep-device-functions": "keep-device-functions", "restrict": "restrict", "Wreorder": "Wreorder"},
    **{"Wdefault-stream-launch": "Wdefault-stream-launch", "resource-usage": "res-usage"},
    **{"Wmissing-launch-bounds": "Wmissing-launch-bounds", "extensible-whole-program": "ewp"},
    **{"Wext-lambda-captures-this": "Wext-lambda-captures-this", "no-compress": "no-compress"},
    **{"Wno-deprecated-declarations": "Wno-deprecated-declarations", "display-error-number": "err-no"},
    **{"Wno-deprecated-gpu-targets": "Wno-deprecated-gpu-targets", "no-display-error-number": "no-err-no"},
    **{"augment-host-linker-script": "aug-hls", "relocatable-ptx": "reloc-ptx", "jobserver": "jobserver"},
}
_SHORT_WITH_VALUE = _WITH_VALUE | {short: short for short in _WITH_VALUE.values()}
_SHORT_ALONE = _ALONE | {short: short for short in _ALONE.values()}
# Those whose value may follow without a space.
_TOGETHER = re.compile(r"-(?P<name>[IDULlOmt]|isystem)(?P<value>[^=].*)")
# Those that mean something on a CPU.
_KEPT_WITH_VALUE = ("include", "l", "D", "U", "I", "L", "o", "x", "std", "Xcompiler", "Xlinker", "MF", "MT")
_KEPT_ALONE = ("c", "dc", "dlink", "shared", "lib")
# A function of theirs that is not there is refused by its name.
_LIBRARY_OF_CUDA = re.compile(
    r"(?:cuda|cudart|cudadevrt|cublas|cublasLt|cufftw?|curand|cusolver|cusparse|cutil\w*|npp\w*|nvidia-ml"
    r"|nvrtc|nvToolsExt)(?:_static)?"
)


def spelled(arguments: Sequence[str]) -> Iterator[str]:
    """The arguments without options that mean nothing on a CPU. One with a value is one word: `-std=c++17`.
    What is not nvcc's stays as it is."""
    waiting = list(arguments)
    while waiting:
        word = waiting.pop(0)
        name, equals, value = word.lstrip("-").partition("=")
        together = _TOGETHER.fullmatch(word)
        if not word.startswith("-"):
            yield word
        elif (short := _SHORT_ALONE.get(name)) and not equals:
            if short in _KEPT_ALONE:
                yield f"-{short}"
        elif short := _SHORT_WITH_VALUE.get(name):
            if not equals:
                value = waiting.pop(0) if waiting else ""
            yield from _with_value(short, value)
        elif together:
            yield from _with_value(together["name"], together["value"])
        else:
            yield word


def _with_value(short: str, value: str) -> Iterator[str]:
    if short == "optf":
        for file in value.split(","):
            yield from spelled(shlex.split(Path(file).read_text()))
    elif short == "isystem":
        yield f"-I={value}"
    elif short in _KEPT_WITH_VALUE and not (short == "l" and _LIBRARY_OF_CUDA.fullmatch(value)):
        yield f"-{short}={value}"
