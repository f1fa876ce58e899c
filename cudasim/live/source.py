"""Turns a pasted source into text for a C++ compiler.

Host code (main, launches, allocations) is left out, and headers from the source's own folders replace their
`#include`. All else stays in place, so that lines keep their numbers.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from cudasim.building.places import HEADER_FOLDERS, SOURCES
from cudasim.live import cccl, torch_headers
from cudasim.live.host import Host
from cudasim.live.items import Item, items
from cudasim.live.ptx_macros import macros_of, written_out
from cudasim.live.reached import without_unreached
from cudasim.live.signature import signatures, split_at_commas
from cudasim.live.text import blanked, directives_of, line_of, spaces, without_directives
from cudasim.live.translation import ALL, as_cpp

CPP = SOURCES / "sim" / "cpp"
HOPPER = SOURCES / "sim" / "hopper"  # its headers are for C and for C++
PROGRAM = SOURCES / "sim" / "program"
# The simulator's headers that a kernel's source includes by name; cuda.hpp has the others.
_FOR_KERNELS = (SOURCES / "sim" / "ptx", SOURCES / "sim" / "portable.h")

# ------------------------------------------------------------------------------------------------------------
# The host's part

_DEVICE_WORDS = r"__global__|__device__|constexpr|consteval|__shared__|__constant__|__managed__"
# In a class or a header a function without the words above may still be needed, but not if it contains these.
_HOST_WORDS = (
    r"<<<|\bcuda(?!Success\b|Error_t\b|Stream_t\b|TextureObject_t\b|SurfaceObject_t\b)[A-Z]\w*\s*\(|\bstd\s*::\s*"
    r"(?:cout|cerr|vector|string|chrono|ofstream|ifstream|map|unordered_map|mt19937|thread|function|unique_ptr|"
    r"shared_ptr|runtime_error|exception|ostream)\b|\b(?:fprintf|fopen|exit|getenv|cublas\w+|cudnn\w+|cusparse\w+|"
    r"cusolver\w+|curandGenerate\w+|curandCreate\w+|torch|at|thrust|checkCudaErrors|throw|"
    r"gl(?:ut)?[A-Z]\w+|PFNGL\w+|nvtx\w+)\b"
)


@dataclass
class HostCode:
    """What was left out of a source as host code."""

    functions: list[tuple[str, int]] = field(default_factory=list)  # name and line
    headers: list[tuple[str, int]] = field(default_factory=list)

    def __str__(self) -> str:
        """One line, or ""."""
        pieces = []
        if self.functions:
            names = list(dict.fromkeys(name for name, _ in self.functions))
            shown = ", ".join(names[:4]) + (f" and {len(names) - 4} more" if len(names) > 4 else "")
            pieces.append(f"host code left out: {shown}")
        if self.headers:
            names = list(dict.fromkeys(name for name, _ in self.headers))
            pieces.append("headers left out: " + ", ".join(names))
        return "; ".join(pieces)


def device_macros(text: str) -> str:
    """A pattern of the words that mark a function for the device: CUDA's, and macros that stand for them."""
    words, known = [], _DEVICE_WORDS
    for _ in range(2):  # a macro may stand for another
        for name, value in re.findall(
            r"^[ \t]*#[ \t]*define[ \t]+(\w+)(?:\([^()]*\))?((?:\\\n|[^\n])*)", text, re.M
        ):
            if name not in words and re.search(rf"\b(?:{known})\b", value):
                words.append(name)
        known = "|".join((_DEVICE_WORDS, *map(re.escape, words)))
    return rf"\b(?:{known})\b"


def _name_of(head: str) -> str:
    names = re.findall(r"([~\w]+)\s*\(", Item.without_alignment(head))
    return names[0] if names else head.strip()[:20]


def _is_unknown_call(head: str, defined: set[str]) -> bool:
    """Whether it is a call that only a missing header's macro can declare, such as NVBENCH_BENCH(f);"""
    call = re.match(r"\s*([A-Za-z]\w*)\s*\(", head)
    words = {"static_assert", "asm", "alignas", "decltype", "typeof", "extern"}
    return call is not None and call[1] not in words | defined


_ACCESS = re.compile(r"\s*(?:(?:public|protected|private)\s*:(?!:)\s*)*")


def _host_members(text: str, item: Item, device: re.Pattern) -> list[Item]:
    """The member functions of a class that call the host, and those that call these: a constructor that calls
    one which calls cudaMalloc() is the host's too."""
    members = [
        replace(member, begin=member.begin + _ACCESS.match(member.head).end())  # which stays for what follows
        for member in items(text, item.body[0] + 1, item.body[1] - 1)
        if member.is_function and not device.search(member.head)
    ]
    found = [member for member in members if re.search(_HOST_WORDS, text[member.begin : member.end])]
    # The class's name is that of all its constructors.
    while names := {_name_of(member.head) for member in found} - set(re.findall(r"\w+", item.head)):
        calls = rf"(?:\bthis\s*->\s*|(?<![~\w.>]))(?:{'|'.join(map(re.escape, names))})\s*\("
        more = [m for m in members if m in found or re.search(calls, text[slice(*m.body)])]
        if len(more) == len(found):
            break
        found = more
    return found


def _host_parts(
    text: str,
    begin: int,
    end: int,
    device: re.Pattern,
    macros: dict[str, str],
    defined: set[str],
    only: str | None,
) -> Iterator[Item]:
    for item in items(text, begin, end, macros.keys()):
        if only and re.search(r"\b__global__\b", item.head) and not re.search(rf"\b{only}\b", item.head):
            yield item
            continue
        call = re.match(r"(\w+)\s*\(", item.head)
        if item.body is None and call and call[1] in macros:
            if re.search(_HOST_WORDS, macros[call[1]]) and not device.search(macros[call[1]]):
                yield item
        elif item.scope is not None:
            yield from _host_parts(text, item.body[0] + 1, item.body[1] - 1, device, macros, defined, only)
        elif item.is_class:
            yield from _host_members(text, item, device)
        elif item.is_function:
            if not device.search(item.head):
                yield item
        elif item.body is None and not device.search(item.head):
            prototype = re.match(
                r"\s*(?!using\b|typedef\b|return\b)[\w:&*<>,\s]+?[\s&*]\w+\s*\(.*\)\s*;?$", item.head, re.S
            )
            is_needed = re.match(
                r"\s*(?:template\b|using\s+namespace\b|using\s+\w+\s*=|typedef\b|static_assert)", item.head
            )
            of_host = re.search(r"\b(?:std|thrust|torch|at|cub)\s*::|\b(?:cublas|cudnn)\w*", item.head)
            if not is_needed and (prototype or of_host or _is_unknown_call(item.head, defined)):
                yield item
        elif re.search(_HOST_WORDS, text[item.begin : item.end]) and not device.search(item.head):
            yield item


def _called_macros(source: str) -> dict[str, str]:
    """Macros that stand for items or parts of items, by name, with their text: those with parameters that
    contain statements or braces, and those without parameters that are empty or an odd brace.
    """
    found = re.findall(r"^[ \t]*#[ \t]*define[ \t]+(\w+)(\([^()]*\))?((?:\\\n|[^\n])*)", source, re.M)
    return {
        name: value
        for name, parameters, value in found
        if (("{" in value or ";" in value) if parameters else not value.strip())
        or value.count("{") != value.count("}")
    }


def without_host_code(source: str, left_out: HostCode, known: str = "", only: str | None = None) -> str:
    """The source with spaces instead of host code, and of all kernels except `only`, if given.

    known: other text, whose macros may mark functions for the device.
    """
    text = blanked(source)
    device = re.compile(device_macros(known + text))
    plain = without_directives(text)
    defined = set(re.findall(r"^[ \t]*#[ \t]*define[ \t]+(\w+)", known + text, re.M))
    cuts = list(_host_parts(plain, 0, len(plain), device, _called_macros(text), defined, only))
    for item in reversed(cuts):
        if "__global__" not in item.head and (item.body is not None or "(" in item.head):
            left_out.functions.append((_name_of(item.head), line_of(source, item.begin)))
        # Directives stay, so that an #if inside still has its #endif, and macros are there for what follows.
        kept = directives_of(source[item.begin : item.end])
        source = source[: item.begin] + kept + source[item.end :]
    left_out.functions.sort(key=lambda entry: entry[1])
    return source


# ------------------------------------------------------------------------------------------------------------
# Headers

# Headers of C and C++ that device code may use; all other standard headers are for the host.
_STANDARD = {
    "cassert", "cfloat", "climits", "cmath", "cstddef", "cstdint", "cstdio", "cstdlib", "cstring", "limits",
    "type_traits", "utility", "tuple", "array", "algorithm", "functional", "initializer_list", "numeric",
    "bit", "atomic",
    "assert.h", "float.h", "limits.h", "math.h", "stddef.h", "stdint.h", "stdio.h", "stdlib.h", "string.h",
    "stdbool.h", "inttypes.h", "cinttypes", "complex", "iterator", "ratio", "new", "time.h", "ctime",
    "sys/types.h", "vector", "string", "map", "memory", "optional", "variant",
}  # fmt: skip
INCLUDE = re.compile(r'^([ \t]*#[ \t]*include[ \t]*)(?:"([^"\n]+)"|<([^>\n]+)>)[^\n]*', re.M)


@dataclass
class Included:
    """A source with its own headers inserted. texts: each file's own text, by its name in messages."""

    text: str
    left_out: HostCode
    texts: dict[str, str]
    is_program: bool = False


def _is_simulators(header: str) -> bool:
    """Whether the simulator has a header of that name for sources to include: its internal parts are .hpp."""
    return (CPP / header).is_file() and not header.endswith(".hpp")


def _found(name: str, folders: Sequence[Path]) -> Path | None:
    for folder in folders:
        path = folder / name
        if path.is_file():
            return path.resolve()
    return None


def _text_of(header: Path) -> str:
    return header.read_text(encoding="utf-8-sig", errors="replace")


def own_headers(source: str, folders: Sequence[Path]) -> dict[Path, str]:
    """The texts of the headers in these folders that a source includes, directly or not. Their macros may
    mark functions of the source for the device.
    """
    found, waiting = {}, [(source, ())]
    while waiting:
        text, around = waiting.pop()
        for match in INCLUDE.finditer(text):
            name = match[2] or match[3]
            path = None if _is_simulators(name) else _found(name, [*around, *folders])
            if path is not None and path not in found:
                found[path] = _text_of(path)
                waiting.append((found[path], (path.parent,)))
    return found


_OF_CUDA = re.compile(r"\bcuda[A-Z]\w*|\bcu(?:blas|rand|fft)[A-Z]\w*|__(?:global|device|host|shared)__|<<<")


def names_cuda(source: str, folders: Sequence[Path]) -> bool:
    """Whether the source, or a header that it includes from these folders, uses CUDA."""
    for text in (source, *own_headers(source, folders).values()):
        headers = {match[2] or match[3] for match in INCLUDE.finditer(text)} - {"assert.h"}
        if any(_is_simulators(of) or re.match(r"(?:thrust|cub|cuda|nv)/", of) for of in headers):
            return True
        if _OF_CUDA.search(blanked(text)):
            return True
    return False


# C++'s special functions, which cuda.hpp has only for a source that may mean them.
_NAMES = (
    r"\b(?:(?:assoc_)?(?:laguerre|legendre)|beta|(?:comp_)?ellint_[123]|cyl_(?:bessel_[ijk]|neumann)|expint|"
    r"hermite|riemann_zeta|sph_(?:bessel|legendre|neumann))[fl]?\b"
)
_SPECIAL = re.compile(rf"\bstd\s*::\s*{_NAMES}|\busing\s+namespace\s+std\b.*{_NAMES}", re.S)


def names_special_functions(text: str) -> bool:
    return _SPECIAL.search(text) is not None


# What may stand between a kernel's type and its name.
_BOUNDS = r"(?:(?:__launch_bounds__|__maxnreg__)\s*\([^()]*\)\s*)*"
_PRAGMA_ONCE = re.compile(r"^[ \t]*#[ \t]*pragma[ \t]+once\b[^\n]*", re.M)
_GUARD = re.compile(r"\s*#[ \t]*ifndef[ \t]+(\w+)\s*\n[ \t]*#[ \t]*define[ \t]+\1\b")


def _without_pragma_once(text: str) -> str:
    return _PRAGMA_ONCE.sub(lambda found: spaces(found[0]), text)


def _is_unconditional(before: str) -> bool:
    """Whether no #if but the guard is open after this blanked beginning of a file."""
    opened = []
    for found in re.finditer(r"^[ \t]*#[ \t]*(if|endif)", before, re.M):
        if found[1] == "if":
            opened.append(found.start())
        elif opened:
            opened.pop()
    is_guard = len(opened) == 1 and not before[: opened[0]].strip() and _GUARD.match(before)
    return not opened or bool(is_guard)


def _is_guarded(text: str) -> bool:
    """Whether nothing of this blanked file is outside its guard. Of a library in one header the code is, for
    the source that defines a macro."""
    if not _GUARD.match(text):
        return False
    depth = 0
    for found in re.finditer(r"^[ \t]*#[ \t]*(if|endif)[^\n]*", text, re.M):
        depth += 1 if found[1] == "if" else -1
        if depth == 0:
            return not text[found.end() :].strip()
    return True


# What a source may use without its own #include, because a missing header includes it.
_BY_OTHERS = (
    ("cub::", "cub/cub.cuh"),
    ("thrust::", "thrust/functional.h"),
    (torch_headers.NAMES, "c10/util/Half.h"),
)
_NAMESPACES = {"std", "cuda", "cub", "nvcuda", "cooperative_groups", "thrust", "c10", "at", "placeholders"}


def _part_of(header: str, for_nvcc: bool) -> str:
    """A pattern of what includes the simulator's header, or any of the library that it stands for."""
    library = header.partition("/")[0]
    return rf'[<"]{library}/' if for_nvcc else rf'"sim/cpp/{header}"|#error {library}/'


def _including(header: str, file: str, line: int) -> str:
    """An #include of the simulator's header; of CUB's without the wheel, what to install."""
    refused = header.startswith("cub/") and cccl.refusing(header, file, line)
    return refused or f'#include "sim/cpp/{header}"'


def _with_headers_of_others(text: str, file: str, for_nvcc: bool) -> str:
    """Adds the simulator's headers, or CUDA's and torch's, that the text needs and does not include."""
    code = blanked(text)
    needed = [
        f"#include <{header}>\n" if for_nvcc else f"{_including(header, file, 1)}\n"
        for names, header in _BY_OTHERS
        if re.search(rf"\b(?:{names})", code) and not re.search(_part_of(header, for_nvcc), text)
    ]
    return "".join((*needed, f'#line 1 "{file}"\n', text)) if needed else text


def _without_unknown_namespaces(text: str) -> str:
    """Removes `using namespace cv;` for namespaces that only the host's headers declare."""
    code = blanked(text)
    declared = set(re.findall(r"\bnamespace\s+(\w+)", re.sub(r"\busing\s+namespace\b", " ", code)))
    for match in reversed(list(re.finditer(r"\busing\s+namespace\s+(?:::\s*)?(\w+)[\w\s:]*;", code))):
        if match[1] not in _NAMESPACES | declared:
            text = text[: match.start()] + spaces(match[0]) + text[match.end() :]
    return text


def included(
    source: str,
    file: str,
    folders: Sequence[Path],
    only: str | None = None,
    values: frozenset[str] = ALL,
    is_program: bool = False,
    for_nvcc: bool = False,
) -> Included:
    """The source without its host code, with the headers of `folders` and of the project in their places.

    only: the one wanted kernel; None for all. values: what is rewritten, see `as_cpp()`. is_program: whether
    the host code stays, with headers that are in no folder. for_nvcc: whether the text stays CUDA C++, and
    includes CUDA's own headers and those that are in no folder.
    """

    def written(text: str, line: int) -> str:
        return text if for_nvcc else as_cpp(written_out(text, macros), line, values, host)

    # A Makefile may name folders that are not there.
    if missing := [] if is_program else [folder for folder in folders if not folder.is_dir()]:
        raise ValueError(f"include (-I): expected folders, got {missing[0]}, where none is")
    source = source.removeprefix("\ufeff")
    left_out, texts = HostCode(), {file: source}
    names, settled = {}, set()  # of headers: what messages call each, and those that no #if can have left out
    plain = [source, *own_headers(source, folders).values()]
    macros, known = macros_of(plain), [blanked(text) for text in plain]
    of_device = "\n".join(known)
    host = None
    if is_program:
        # The arguments also choose among overloads, and a call may leave out some.
        declared = re.findall(rf"\bvoid\s+{_BOUNDS}(\w+)\s*\(([^;{{}}]*)\)\s*([;{{])", of_device)
        defined = [name for name, _, end in declared if end == "{"]
        has_defaults = {name for name, parameters, _ in declared if "=" in parameters}
        lengths = {(name, len(split_at_commas(parameters))) for name, parameters, _ in declared}
        lengths = Counter(name for name, _ in lengths)
        overloaded = {name for name in {*defined, *lengths} if defined.count(name) > 1 or lengths[name] > 1}
        kernels = signatures(of_device)
        templates = {
            name: frozenset(i for i, of in enumerate(kernel.parameters) if "*" in of.declaration)
            for name, kernel in kernels.items()
            if kernel.template or name in overloaded | has_defaults
        }
        for name, parameters, _ in declared:  # and are defined in another source
            of_kernel = re.compile(rf"\b__global__\b[^;{{}}]*\b{name}\s*\(")
            if name in (overloaded | has_defaults) - {*kernels} and of_kernel.search(of_device):
                pointers = {i for i, of in enumerate(split_at_commas(parameters)) if "*" in of}
                templates[name] = templates.get(name, frozenset()) | pointers
        host = Host(
            templates, frozenset(kernels), frozenset(overloaded), re.compile(device_macros(of_device))
        )

    def resolve(
        text: str, name: str, around: Sequence[Path], open_files: tuple[Path, ...], sure: bool
    ) -> str:
        kept = text
        if not is_program:
            kept = without_host_code(text, left_out if name == file else HostCode(), of_device, only)
        visible = blanked(re.sub(r'"', "\x01", kept)).replace("\x01", '"')
        pieces, end = [], 0
        for match in INCLUDE.finditer(kept):
            if not visible[match.start() : match.end()].strip():
                continue
            header = match[2] or match[3]
            replacement = match[0]
            own = _found(header, [*around, *folders])
            of_project = _found(header, HEADER_FOLDERS) if match[2] else None
            after = line_of(kept, match.end()) + 1
            if for_nvcc and (own is None or _is_simulators(header)):
                pass
            elif own is None and header.startswith("cub/"):
                replacement = _including("cub/cub.cuh", name, after - 1)
            elif is_program and own is None and cccl.is_there(header, _is_simulators(header)):
                replacement = f'{cccl.including(header)}\n#line {after} "{name}"'
            elif _is_simulators(header):
                replacement = f'{match[1]}"sim/cpp/{header}"'
            elif own or of_project:
                path = own or of_project
                replacement = ""
                if path not in settled and path not in open_files:
                    content = _text_of(path)
                    called = names.setdefault(path, header if header not in texts else str(path))
                    texts[called] = content
                    is_sure = sure and _is_unconditional(visible[: match.start()])
                    if own:
                        once = _PRAGMA_ONCE.search(blanked(content))
                        opened = (*open_files, path)
                        inner = resolve(_without_pragma_once(content), called, [path.parent], opened, is_sure)
                    else:
                        once = True
                        inner = _of_project(content, lambda t, h=called, p=path: resolve_project(t, h, p))
                    if is_sure and (once or _is_guarded(blanked(content))):
                        settled.add(path)
                    inner = f'#line 1 "{called}"\n{inner}'
                    if once:
                        guard = f"SIM_INCLUDED_{list(names).index(path)}"
                        inner = f"#ifndef {guard}\n#define {guard}\n{inner}\n#endif"
                    replacement = f'\n{inner}\n#line {after} "{name}"'
            elif is_program:
                replacement = cccl.refusing(header, name, after - 1) or match[0]
            elif not (match[3] and header in _STANDARD):
                replacement = ""
                if (
                    not re.match(r"(?:cuda|cublas|curand|cu[a-z]+_|[a-z_]+$)", header)
                    and name == file
                    and match[2]
                ):
                    left_out.headers.append((header, line_of(kept, match.start())))
            pieces += [written(kept[end : match.start()], line_of(kept, end)), replacement]
            end = match.end()
        return "".join(pieces) + written(kept[end:], line_of(kept, end))

    def resolve_project(text: str, name: str, path: Path) -> str:
        def replace(match: re.Match) -> str:
            inner = _found(match[2] or match[3], [*HEADER_FOLDERS, path.parent])
            if match[2] is None or (inner is not None and inner.is_relative_to(HOPPER)):
                return match[0]
            of_simulator = inner is None or inner.is_relative_to(SOURCES / "sim")
            if of_simulator and not any(inner and inner.is_relative_to(of) for of in _FOR_KERNELS):
                return ""
            after = line_of(text, match.end()) + 1
            return f'{resolve_project(inner.read_text(), match[2], inner)}\n#line {after} "{name}"'

        # It may be included on both sides of an #if, so the preprocessor decides which one counts.
        guard = "SIM_HAS_" + re.sub(r"\W", "_", "/".join(path.parts[-3:]))
        inner = INCLUDE.sub(replace, _without_pragma_once(text))
        return f'\n#ifndef {guard}\n#define {guard}\n#line 1 "{name}"\n{inner}\n#endif'

    text = resolve(_without_pragma_once(source), file, (), (), True)
    if not is_program:
        text = without_unreached(text, device_macros(blanked(text)), items)
        text = _without_unknown_namespaces(text)
    text = _with_headers_of_others(text, file, for_nvcc)
    return Included(text, left_out, texts, is_program)


def _of_project(content: str, resolve) -> str:
    """A header of the project, in the simulator's version and not nvcc's."""
    hidden = '#pragma push_macro("{0}")\n#undef {0}\n'
    shown = '\n#pragma pop_macro("{0}")'
    names = ("__CUDACC__", "__CUDA_ARCH__")
    before, after = "".join(hidden.format(n) for n in names), "".join(shown.format(n) for n in names)
    return before + resolve(content) + after
