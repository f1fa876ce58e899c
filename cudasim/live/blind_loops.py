"""Which kernels run the threads of a block in a loop that keeps no account of them.

Every kernel is compiled in such a loop as well (sim/cpp/threads.hpp), and runs in it only if the compiler's
assembly shows that it may: it calls nothing but the C library's mathematics, copies of memory and
conversions, so that no thread can wait, stop or ask who it is, and of `sim_blind`, by which the loop's
variables stand for threadIdx, nothing is left but the zero that is there anyway. No such loop runs where a
source names memory that others may change meanwhile: a thread could wait for that.
"""

from __future__ import annotations

import platform
import re
from collections.abc import Iterable
from pathlib import Path

from cudasim.live.padding import ASSEMBLY

# A GPU's compiler makes one piece of a kernel and of the functions that it calls, and here the kernel is a
# piece of the loop over its threads (sim/cpp/threads.hpp). gcc keeps a call where a function is large, or
# where another library might have one of the same name.
_INLINES = ("--param=max-inline-insns-auto=200", "-fno-semantic-interposition", "-fno-partial-inlining")
# And neighbours compute together there, as in a warp, where the compiler sees how.
_VECTORS = ("-fvect-cost-model=dynamic", "-funswitch-loops")
# Vectors twice as wide make gcc compute the neighbours of a thread's own loop together, which takes longer.
if platform.machine() == "x86_64":
    _VECTORS = (*_VECTORS, "-mprefer-vector-width=256")


def flags_of_loops(text: str) -> tuple[str, ...]:
    """A GPU's functions set no errno, and what one of the host sets is looked at by those who name it."""
    return (*_INLINES, *_VECTORS, *(() if "errno" in text else ("-fno-math-errno",)))


_MAY_CHANGE = re.compile(r"\bvolatile\b|\b_*asm\b|\b__(?:atomic|sync)_|\batomic(?:_ref)?\s*<|\b__nv_atomic")
_LOOP = re.compile(
    r"^(?P<name>[\w.$]*sim_run_blind[\w.$]*):(?P<body>.*?)^\s*\.size\s+(?P=name),", re.M | re.S
)
_ZERO = re.compile(r"^\s*mov[lq]\s+\$0, \S*sim_blind\S*\(%rip\)\n", re.M)
_MATHEMATICS = (
    r"(?:a?(?:sin|cos|tan)h?|atan2|sincos|exp(?:2|10|m1)?|log(?:2|10|1p|b)?|pow|sqrt|cbrt|hypot|erfc?|[lt]gamma|"
    r"fmod|remainder|fmin|fmax|fma|floor|ceil|trunc|rint|nearbyint|round|ldexp|j[01]|y[01])f?"
)
# Each call, and each jump that may be one: to a name that is no label of the function.
_CALL = re.compile(r"^\s*(?:callq?\s+(\S+)|jmpq?\s+(\*?[A-Za-z_]\S*))", re.M)
_ALLOWED = re.compile(
    rf"\*?(?:_ZL17sim_own_registersv|__tls_get_addr|mem(?:cpy|move|set)|{_MATHEMATICS}|"
    r"sim_(?:float_of_half|half_of_double))"
    r"(?:@PLT|@GOTPCREL\(%rip\))?"
)
_SECTION = '\t.section\tsim_blind_loops,"aw",@progbits\n\t.balign\t8\n'

# Of this text the name of a compiled library in the cache is made too.
BLIND_LOOPS = tuple(of.pattern for of in (_MAY_CHANGE, _LOOP, _ZERO, _CALL, _ALLOWED))


def _may_run(body: str) -> bool:
    called = [found[1] or found[2] for found in _CALL.finditer(body)]
    return all(map(_ALLOWED.fullmatch, called)) and "sim_blind" not in _ZERO.sub("", body)


def _is_whole(loop: re.Match, text: str) -> bool:
    """Whether the part that the compiler has put elsewhere, if there is one, was looked at."""
    part = f"\n{loop['name']}.cold"
    return text.count(f"{part}:") == loop["body"].count(f"{part}:") and f"{part}." not in text


def list_blind_loops(assembly: Path, texts: Iterable[str]) -> None:
    """Adds the list of the loops that may run to the compiler's output, whose assembly is that of x86-64."""
    if platform.machine() != "x86_64" or any(_MAY_CHANGE.search(text) for text in texts):
        return
    text = assembly.read_text(ASSEMBLY)
    loops = [found for found in _LOOP.finditer(text) if _may_run(found["body"]) and _is_whole(found, text)]
    for found in loops:
        text = text.replace(found["body"], _ZERO.sub("", found["body"]))
    if loops:
        listed = "".join(f"\t.quad\t{found['name']}\n" for found in loops)
        assembly.write_text(f"{text}{_SECTION}{listed}", ASSEMBLY)
