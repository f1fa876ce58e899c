"""From CUDA C++ to the C++ that the simulator's compiler takes."""

from __future__ import annotations

import re

from cudasim.live.casts import casts
from cudasim.live.dependent import dependent
from cudasim.live.exits import exits
from cudasim.live.host import Host
from cudasim.live.launch_bounds import launch_bounds
from cudasim.live.ptx import with_ptx
from cudasim.live.shifts import shifts
from cudasim.live.swap_loops import with_volatile_first_reads
from cudasim.live.text import blanked, closing, line_of, open_braces, without_directives
from cudasim.live.tree import rewritten

# A block's dynamic shared memory, as CUDA declares it. Here it is a pointer.
_ALIGNMENT = (
    r"(?:__align__|alignas|__attribute__|__builtin_align__)\s*\((?:[^()]|\((?:[^()]|\([^()]*\))*\))*\)"
)
_EXTERN_SHARED = re.compile(
    rf"(?:{_ALIGNMENT}\s*)?\bextern\b(?P<before>[^;(){{}}=]*?(?:{_ALIGNMENT}[^;(){{}}=]*?)?)\b__shared__\b"
    rf"(?P<after>(?:[^;(){{}}=]|{_ALIGNMENT})*?)\b(?P<name>\w+)\s*(?P<array>\[\s*\])?"
    rf"(?P<more>(?(array)(?:\s*\[[^\]]*\])*))"
    rf"\s*(?:{_ALIGNMENT}\s*)?;"
)

# Not a loop that asks for a single turn.
_UNROLL = re.compile(
    r"#[ \t]*pragma[ \t]+unroll\b(?![ \t]*\(?[ \t]*[01]\b)[^\n\\]*(?=\n\s*for\s*(?P<opening>\())"
)


def _unrolled(source: str) -> str:
    """Writes SIM_UNROLL (language.hpp) before innermost loops, which take most of the time. All loops of a
    nest would take the compiler six times as long."""
    text = blanked(source)
    for pragma in reversed(list(_UNROLL.finditer(text))):
        begin = closing(text, pragma.start("opening")) + 1
        brace = re.compile(r"\s*\{").match(text, begin)
        end = closing(text, brace.end() - 1) if brace else text.find(";", begin)
        if not re.search(r"\b(?:for|while)\b", text[begin:end]):
            source = source[: pragma.start()] + "SIM_UNROLL" + source[pragma.end() :]
    return source


def _dynamic_shared(source: str, first_line: int) -> str:
    text = blanked(source)
    for match in reversed(list(_EXTERN_SHARED.finditer(text))):
        kind = re.sub(_ALIGNMENT, " ", f"{match['before']} {match['after']}")
        kind = " ".join(re.sub(r"\b(?:__device__|static)\b", " ", kind).split())
        name, more = match["name"], match["more"].strip()
        before = without_directives(text)[: match.end()]
        is_in_macro = not before[match.start() :].strip()
        in_function = is_in_macro or not _in_namespace_only(before[: match.start()])
        lines = "\n" * match[0].count("\n")
        if in_function:
            new = f"{kind} (*{name}){more} = ({kind} (*){more})SIM_DYNAMIC_SHARED;{lines}"
            if not more:
                new = f"{kind} *{name} = ({kind} *)SIM_DYNAMIC_SHARED;{lines}"
            if not match["array"]:
                new = f"{kind} &{name} = *({kind} *)SIM_DYNAMIC_SHARED;{lines}"
        else:
            line = first_line - 1 + line_of(source, match.end())
            value = f"(({kind} {f'(*){more}' if more else '*'})SIM_DYNAMIC_SHARED)"
            value = value if match["array"] else f"(*{value})"
            new = f"\n#define {name} {value}\n#line {line}\n"
        source = source[: match.start()] + new + source[match.end() :]
    return source


def with_own_name(text: str, source: str | None) -> str:
    """A text about a kernel's dynamic shared memory, with the name of the source's `extern __shared__` array,
    if there is one."""
    if source is None or "dynamic_shared" not in text:
        return text
    names = {match["name"] for match in _EXTERN_SHARED.finditer(blanked(source))}
    return re.sub(r"\bdynamic_shared\b", names.pop(), text) if len(names) == 1 else text


def _in_namespace_only(text: str) -> bool:
    """Whether all braces that are open at the text's end belong to namespaces and extern "C"."""
    return all(re.search(r"(?:namespace\s*[\w:]*|extern)\s*$", text[:place]) for place in open_braces(text))


# nvcc takes a launch's brackets with a space in them, as some formatters write them: k << <1, 32 >> > (x).
_APART = re.compile(r"<<(?P<first>\s)<(?!<)(?P<configuration>[^;{}]*?)>>(?P<last>\s)>(?=\s*\()")


def _launches_together(source: str) -> str:
    for match in _APART.finditer(blanked(source)):
        begin, end = match.span("configuration")
        opened, closed = f"<<<{match['first']}", f">>>{match['last']}"
        source = source[: match.start()] + opened + source[begin:end] + closed + source[match.end() :]
    return source


ALL = frozenset({"casts", "shifts"})


def as_cpp(source: str, first_line: int = 1, values: frozenset[str] = ALL, host: Host | None = None) -> str:
    """Rewrites the parts of CUDA C++ that are not C++; lines keep their numbers.

    values: what is rewritten to have a GPU's value where C++ defines none: casts to integers (casts.py) and
    shifts (shifts.py). Also "dependent": adds the word `template` where C++ needs it (dependent.py). host:
    for a whole program, whose host code is rewritten too (host.py) and keeps C++'s values.
    """
    rules = {"shifts": shifts, "casts": casts, "dependent": dependent}
    chosen = [*(rules[name] for name in values), exits, launch_bounds]
    if host is not None:
        chosen = [host.of_kernels(rule) for rule in chosen]
        chosen += [host.launches, host.kernels, host.variables, host.names, host.allocations, host.assembly]
    source = with_ptx(with_volatile_first_reads(_launches_together(source)))
    source = rewritten(source, chosen)
    source = _unrolled(_dynamic_shared(source, first_line))
    text = blanked(source)
    changes = (
        (r"\bstatic(\s+(?:__device__\s+)?)(?=__shared__\b)", r"\1"),
        (r"(?<=__shared__)(\s+)static\b", r"\1"),
        (r"(?<=__shared__)(\s+)alignas\b", r"\1__align__"),
        # Constants of C++ cannot share a section with variables that the host fills.
        (r"\b__constant__(?=[^;={(]*\bconst(?:expr)?\b)", "            "),
        (r"(\bconst(?:expr)?\b[^;={}()]*)\b__constant__", r"\1            "),
        (r"\b__noinline__\b(?!\s*\)\s*\))", "__attribute__((noinline))"),
        # The compiler splits these without instrumentation: see cudasim/sim/cpp/memory.hpp.
        (r"\b__builtin_mem(?:cpy|move)\b", "sim_copy_bytes"),
        (r"\b__builtin_memset\b", "sim_set_bytes"),
        (r"#(\s*)pragma(\s+)unroll\b[^\n]*", ""),
    )
    for pattern, new in changes:
        for match in reversed(list(re.finditer(pattern, text))):
            replaced = match.expand(new)
            source = source[: match.start()] + replaced + source[match.end() :]
            text = text[: match.start()] + replaced + text[match.end() :]
    return source
