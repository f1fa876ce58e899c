"""A pasted source as the text that a C++ compiler takes.

What is there for the host alone (main, launches, allocations) is left out, and the headers that it includes
from its own folders come in place of their `#include`. All else stays where it is, so that lines stay lines.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from fgn.live.reached import without_unreached
from fgn.live.text import blanked, closing, line_of, spaces, without_directives
from fgn.live.translation import ALL, as_cpp
from fgn.native.places import SOURCES

CPP = SOURCES / "sim" / "cpp"
HOPPER = SOURCES / "sim" / "hopper"  # its headers are for C and for C++

# ------------------------------------------------------------------------------------------------------------
# Items: what stands in a file, a namespace or a class


@dataclass(frozen=True)
class Item:
    """A declaration or definition. head: without its body. body: where the braces are, None when it has
    none.
    """

    begin: int
    end: int
    head: str
    body: tuple[int, int] | None

    @property
    def scope(self) -> str | None:
        """The name of the namespace that it is ("" for a nameless one or extern "C"); None when it is
        none.
        """
        match = re.match(r"\s*(?:inline\s+)?namespace\b\s*([\w:]*)\s*$", self.head)
        if match:
            return match[1]
        return "" if re.match(r"\s*extern\s*$", self.head) and self.body else None

    @property
    def is_class(self) -> bool:
        head = re.sub(r"^\s*(?:template\s*<.*?>\s*(?=struct|class|union|enum))", "", self.head, flags=re.S)
        kind = re.match(r"\s*(?:typedef\s+|static\s+|const\s+)*(struct|class|union|enum)\b", head)
        if kind is None or self.body is None:
            return False
        # `struct P f(int a) {` is a function.
        return re.search(r"\w\s*\([^()]*\)\s*(?:const\s*)?$", self.without_alignment(head)) is None

    @staticmethod
    def without_alignment(head: str) -> str:
        return re.sub(
            r"\b(?:__align__|alignas|__attribute__|__builtin_align__)\s*\((?:[^()]|\([^()]*\))*\)", " ", head
        )

    @property
    def is_function(self) -> bool:
        """A definition with a parameter list."""
        head = self.without_alignment(self.head)
        return (
            self.body is not None
            and not self.is_class
            and self.scope is None
            and "(" in head
            and not re.search(
                r"(?<![=!<>])=(?!=)",
                re.sub(r"\([^()]*(?:\([^()]*\)[^()]*)*\)|<[^<>]*>|operator\s*\S+", " ", head),
            )
        )


def items(text: str, begin: int, end: int, macros: set[str] = frozenset()) -> Iterator[Item]:
    """The items between two places of a blanked text without directives.

    macros: names that stand for an item of their own when they are called where an item begins.
    """
    place = begin
    while place < end:
        start = re.compile(r"[\s;]*").match(text, place, end).end()
        if start >= end:
            return
        call = re.compile(r"(\w+)\s*\(").match(text, start, end)
        if call and call[1] in macros:
            stop = min(closing(text, call.end() - 1) + 1, end)
            yield Item(start, stop, text[start:stop], None)
            place = stop
            continue
        stop, body = start, None
        scan = re.compile(r"[;({\[]")
        while True:
            match = scan.search(text, stop, end)
            if match is None:
                stop = end
                break
            if match[0] == ";":
                stop = match.end()
                break
            close = closing(text, match.start())
            if match[0] != "{":
                stop = close + 1
                continue
            head = text[start : match.start()]
            body = (match.start(), min(close + 1, end))
            item = Item(start, body[1], head, body)
            if item.scope is not None or item.is_function:
                stop = body[1]
                # A constructor's initialisers may have braces: `: x{0} {`.
                following = re.compile(r"\s*([{,])").match(text, stop, end)
                if item.is_function and following and re.search(r"\)\s*(?:noexcept\s*)?:[^:]", head):
                    continue
                break
            stop = close + 1  # a class or an initialiser goes on to its semicolon
        head_end = body[0] if body else stop
        yield Item(start, min(stop, end), text[start:head_end], body)
        place = max(stop, start + 1)


# ------------------------------------------------------------------------------------------------------------
# The host's part

_DEVICE_WORDS = r"__global__|__device__|constexpr|consteval|__shared__|__constant__|__managed__"
# In a class or a header a function without any of the words above may still be needed: but not with these in
# it.
_HOST_WORDS = (
    r"<<<|\bcuda(?!Success\b|Error_t\b|Stream_t\b|TextureObject_t\b|SurfaceObject_t\b)[A-Z]\w*\s*\(|\bstd\s*::\s*"
    r"(?:cout|cerr|vector|string|chrono|ofstream|ifstream|map|unordered_map|mt19937|thread|function|unique_ptr|"
    r"shared_ptr|runtime_error|exception|ostream)\b|\b(?:fprintf|fopen|exit|getenv|cublas\w+|cudnn\w+|cusparse\w+|"
    r"cusolver\w+|curandGenerate\w+|curandCreate\w+|torch|at|thrust|checkCudaErrors|throw|"
    r"gl(?:ut)?[A-Z]\w+|PFNGL\w+|nvtx\w+)\b"
)


@dataclass
class HostCode:
    """What was left out of a source because only the host needs it."""

    functions: list[tuple[str, int]] = field(default_factory=list)  # name and line
    headers: list[tuple[str, int]] = field(default_factory=list)

    def __str__(self) -> str:
        """One line; "" when there is nothing to say."""
        pieces = []
        if self.functions:
            names = list(dict.fromkeys(name for name, _ in self.functions))
            shown = ", ".join(names[:4]) + (f" and {len(names) - 4} more" if len(names) > 4 else "")
            pieces.append(f"host code left out: {shown}")
        if self.headers:
            names = list(dict.fromkeys(name for name, _ in self.headers))
            pieces.append("headers left out: " + ", ".join(names))
        return "; ".join(pieces)


def _device_macros(text: str) -> str:
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


def _host_parts(
    text: str, begin: int, end: int, device: re.Pattern, macros: dict[str, str], only: str | None
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
            yield from _host_parts(text, item.body[0] + 1, item.body[1] - 1, device, macros, only)
        elif item.is_class:
            for member in items(text, item.body[0] + 1, item.body[1] - 1):
                inside = text[member.begin : member.end]
                if member.is_function and not device.search(member.head) and re.search(_HOST_WORDS, inside):
                    yield member
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
            if not is_needed and (prototype or of_host):
                yield item
        elif re.search(_HOST_WORDS, text[item.begin : item.end]) and not device.search(item.head):
            yield item


def _called_macros(source: str) -> dict[str, str]:
    """Macros with parameters by name, with what they stand for."""
    found = re.findall(r"^[ \t]*#[ \t]*define[ \t]+(\w+)\([^()]*\)((?:\\\n|[^\n])*)", source, re.M)
    return {name: value for name, value in found if "{" in value or ";" in value}


def without_host_code(source: str, left_out: HostCode, known: str = "", only: str | None = None) -> str:
    """The source with spaces in place of what only the host needs, and of all kernels but `only`, if one is
    named.

    known: other text, whose macros may mark functions for the device.
    """
    text = blanked(source)
    device = re.compile(_device_macros(known + text))
    plain = without_directives(text)
    cuts = list(_host_parts(plain, 0, len(plain), device, _called_macros(text), only))
    for item in reversed(cuts):
        if "__global__" not in item.head and (item.body is not None or "(" in item.head):
            left_out.functions.append((_name_of(item.head), line_of(source, item.begin)))
        kept = source[item.begin : item.end]
        # Directives stay, so that an #if inside still has its #endif.
        lines = [
            line if re.match(r"[ \t]*#[ \t]*(?:if|ifdef|ifndef|else|elif|endif)\b", line) else spaces(line)
            for line in kept.splitlines(keepends=True)
        ]
        source = source[: item.begin] + "".join(lines) + source[item.end :]
    left_out.functions.sort(key=lambda entry: entry[1])
    return source


# ------------------------------------------------------------------------------------------------------------
# Headers

# Headers of C and C++ that device code may use; all others of the standard library are for the host.
_STANDARD = {
    "cassert", "cfloat", "climits", "cmath", "cstddef", "cstdint", "cstdio", "cstdlib", "cstring", "limits",
    "type_traits", "utility", "tuple", "array", "algorithm", "functional", "initializer_list", "numeric",
    "bit",
    "assert.h", "float.h", "limits.h", "math.h", "stddef.h", "stdint.h", "stdio.h", "stdlib.h", "string.h",
    "stdbool.h", "inttypes.h", "cinttypes", "complex", "iterator", "ratio", "new", "time.h", "ctime",
    "sys/types.h", "vector", "string", "map", "memory", "optional", "variant",
}  # fmt: skip
_INCLUDE = re.compile(r'^([ \t]*#[ \t]*include[ \t]*)(?:"([^"\n]+)"|<([^>\n]+)>)[^\n]*', re.M)


@dataclass
class Included:
    """A source with its own headers in place. texts: each file's own text, by the name that messages have."""

    text: str
    left_out: HostCode
    texts: dict[str, str]


def _found(name: str, folders: Sequence[Path]) -> Path | None:
    for folder in folders:
        path = folder / name
        if path.is_file():
            return path.resolve()
    return None


def included(
    source: str, file: str, folders: Sequence[Path], only: str | None = None, values: frozenset[str] = ALL
) -> Included:
    """The source without its host code, and with the headers found in `folders` and in `cuda_c/` in place.

    only: the one kernel that is wanted; None for all. values: what is rewritten, see `as_cpp()`.
    """
    left_out, texts, seen = HostCode(), {file: source}, set()
    known = [blanked(source)]

    def resolve(text: str, name: str, around: Sequence[Path]) -> str:
        kept = without_host_code(text, left_out if name == file else HostCode(), "".join(known), only)
        visible = blanked(re.sub(r'"', "\x01", kept)).replace("\x01", '"')
        pieces, end = [], 0
        for match in _INCLUDE.finditer(kept):
            if not visible[match.start() : match.end()].strip():
                continue
            header = match[2] or match[3]
            replacement = match[0]
            own = _found(header, [*around, *folders])
            of_project = _found(header, [SOURCES]) if match[2] else None
            if (CPP / header).is_file():
                replacement = f'{match[1]}"sim/cpp/{header}"'
            elif own or of_project:
                path = own or of_project
                replacement = ""
                if path not in seen:
                    seen.add(path)
                    content = path.read_text(errors="replace")
                    texts[header] = content
                    known.append(blanked(content))
                    if own:
                        inner = resolve(content.replace("#pragma once", " " * 12), header, [path.parent])
                    else:
                        inner = _of_project(content, lambda t, h=header, p=path: resolve_project(t, h, p))
                    after = line_of(kept, match.end()) + 1
                    replacement = f'\n#line 1 "{header}"\n{inner}\n#line {after} "{name}"'
            elif not (match[3] and header in _STANDARD):
                replacement = ""
                if (
                    not re.match(r"(?:cuda|cublas|curand|cu[a-z]+_|[a-z_]+$)", header)
                    and name == file
                    and match[2]
                ):
                    left_out.headers.append((header, line_of(kept, match.start())))
            pieces += [as_cpp(kept[end : match.start()], line_of(kept, end), values), replacement]
            end = match.end()
        return "".join(pieces) + as_cpp(kept[end:], line_of(kept, end), values)

    def resolve_project(text: str, name: str, path: Path) -> str:
        def replace(match: re.Match) -> str:
            inner = _found(match[2] or match[3], [SOURCES, path.parent])
            if match[2] is None or (inner is not None and inner.is_relative_to(HOPPER)):
                return match[0]
            if inner is None or inner.is_relative_to(SOURCES / "sim"):
                return ""
            after = line_of(text, match.end()) + 1
            return f'{resolve_project(inner.read_text(), match[2], inner)}\n#line {after} "{name}"'

        # It may be included on both sides of an #if, so the preprocessor decides which one counts.
        guard = "FGN_HAS_" + re.sub(r"\W", "_", str(path.relative_to(SOURCES)))
        inner = _INCLUDE.sub(replace, text.replace("#pragma once", " " * 12))
        return f'\n#ifndef {guard}\n#define {guard}\n#line 1 "{name}"\n{inner}\n#endif'

    text = resolve(source, file, ())
    text = without_unreached(text, _device_macros(blanked(text)), items)
    return Included(text, left_out, texts)


def _of_project(content: str, resolve) -> str:
    """A header of the project, as the simulator has it: not as nvcc has it."""
    hidden = '#pragma push_macro("{0}")\n#undef {0}\n'
    shown = '\n#pragma pop_macro("{0}")'
    names = ("__CUDACC__", "__CUDA_ARCH__")
    before, after = "".join(hidden.format(n) for n in names), "".join(shown.format(n) for n in names)
    return before + resolve(content) + after
