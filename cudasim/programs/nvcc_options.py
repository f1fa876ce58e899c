"""nvcc's options, in the spelling of `cudasim build`.

`nvcc --help` lists them: a long name and a short one, behind one dash or two, with a value behind "=" or as
the next argument. Most are for a GPU's code, and mean nothing on a CPU.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path

# Those that mean something on a CPU: the short names of long ones.
_KEPT_WITH_VALUE = {
    "pre-include": "include",
    "library": "l",
    "define-macro": "D",
    "undefine-macro": "U",
    "include-path": "I",
    "system-include": "isystem",
    "library-path": "L",
    "output-file": "o",
    "x": "x",
    "std": "std",
    "compiler-options": "Xcompiler",
    "linker-options": "Xlinker",
    "options-file": "optf",
    "dependency-output": "MF",
    "dependency-target-name": "MT",
}
_KEPT_ALONE = {"compile": "c", "device-c": "dc", "device-link": "dlink", "shared": "shared", "lib": "lib"}
# The others, by all their names: those with a value, and those that stand alone.
_WITH_VALUE = """
O Ofast-compile Ofc Werror Xarchive Xcudafe Xnvlink Xptxas arbin arch archive-options archiver-binary
brief-diag brief-diagnostics ccbin code compiler-bindir compress-mode cudadevrt cudafe-options cudart
default-stream device-entity-has-hidden-visibility device-stack-protector diag-error diag-suppress diag-warn
dopt e entries fdevice-time-trace fmad frandom-seed ftemplate-backtrace-limit ftemplate-depth ftz gencode
generate-code gpu-architecture gpu-code hls host-linker-script jtd jump-table-density keep-dir ldir
libdevice-directory m machine maxrregcount nvlink-options opt-info optimization-info optimize prec-div
prec-sqrt ptxas-options rdc relocatable-device-code sanitize split-compile split-compile-extended
static-global-template-stub t target-dir target-directory threads time
"""
_ALONE = """
G MD MMD MP Wdefault-stream-launch Wext-lambda-captures-this Wmissing-launch-bounds
Wno-deprecated-declarations Wno-deprecated-gpu-targets Wreorder allow-unsupported-compiler aug-hls
augment-host-linker-script debug device-debug disable-warnings display-error-number dlink-time-opt dlto
dont-use-profile err-no ewp expt-extended-lambda expt-relaxed-constexpr extended-lambda
extensible-whole-program extra-device-vectorization g gen-opt-lto generate-dependencies-with-compile
generate-dependency-targets generate-line-info generate-nonsystem-dependencies-with-compile jobserver keep
keep-device-functions lineinfo link lto m64 no-align-double no-compress no-device-link
no-display-error-number no-err-no no-host-device-initializer-list no-host-device-move-forward nodlink
nohdinitlist nohdmoveforward noprof objdir-as-tempdir objtemp pg profile relaxed-constexpr reloc-ptx
relocatable-ptx res-usage resource-usage restrict save-temps source-in-ptx src-in-ptx use-local-env
use_fast_math v verbose w
"""
_OTHER_WITH_VALUE, _OTHER_ALONE = frozenset(_WITH_VALUE.split()), frozenset(_ALONE.split())
_SHORT_WITH_VALUE = _KEPT_WITH_VALUE | {short: short for short in _KEPT_WITH_VALUE.values()}
_SHORT_ALONE = _KEPT_ALONE | {short: short for short in _KEPT_ALONE.values()}
# Those whose value may follow without a space.
_TOGETHER = re.compile(r"-(?P<name>[IDULlOmt]|isystem)(?P<value>[^=].*)")
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
        elif not equals and name in _SHORT_ALONE:
            yield f"-{_SHORT_ALONE[name]}"
        elif not equals and name in _OTHER_ALONE:
            continue
        elif name in _SHORT_WITH_VALUE or name in _OTHER_WITH_VALUE:
            if not equals:
                value = waiting.pop(0) if waiting else ""
            if name in _SHORT_WITH_VALUE:
                yield from _with_value(_SHORT_WITH_VALUE[name], value)
        elif together:
            if together["name"] in _SHORT_WITH_VALUE:
                yield from _with_value(together["name"], together["value"])
        else:
            yield word


def _with_value(short: str, value: str) -> Iterator[str]:
    if short == "optf":
        for file in value.split(","):
            yield from spelled(shlex.split(Path(file).read_text()))
    elif short == "isystem":
        yield f"-I={value}"
    elif short != "l" or not _LIBRARY_OF_CUDA.fullmatch(value):
        yield f"-{short}={value}"
