"""Copies of structs, compiled so that the simulator sees their loads and stores.

gcc instruments neither the store of a call that returns a struct, as in `s[i] = c ? f(x) : a + b`, nor the
loads of a call that takes one by value. Where such a call, which was not inlined, is among the statements
that gcc lists, the source is compiled again with -fno-elide-constructors. Then each copy is a call of the
struct's assignment or constructor, whose loads and stores gcc does instrument. These functions take
references, and gcc lets a reference be one to the element behind an array's last one. So `s[i]` becomes
`s[sim_index<decltype(s)>(i)]` there (cudasim/sim/cpp/language.hpp), which looks at the index by itself. And a
call constructs a new object in its place: `new (p) V(f(x))` becomes `new (p) V(sim_result(f(x)))`.

C++ declares most of these functions by itself, at the line of the struct, but faults and counts are to name
the line that copies.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from pathlib import Path

from cudasim.building.places import SOURCES
from cudasim.live.padding import ASSEMBLY
from cudasim.live.tree import Change, Source

# The second one comments on the debugging information, where classes have their places.
WITH_COPIES = ("-fno-elide-constructors", "-dA")

_LIST = "statements.txt"
LISTING = (f"-fdump-tree-optimized={_LIST}",)
# A function in gcc's list of statements: its head, the variables that a thread has for itself, and the calls.
_LISTED = re.compile(r"^;; Function (\S+).*\n(?:(?!;; Function ).*\n)*", re.M)
_HEAD = re.compile(r"^\w.*\((.*)\)$", re.M)
_OWN = re.compile(r"^  (?!static )[^=();]*?\b(D\.\d+|[\w#]+)(?:\[\d+\])*;$", re.M)
_CALL = re.compile(
    r"^  (?:(?P<to>\S.*?) = )?(?!\.|__builtin_|__tsan_)\S.*?(?<! =) \((?P<arguments>.*)\);", re.M
)
_OPERAND = re.compile(r"(?:^|, )(MEM\b|\*|[A-Za-z_][\w.#]*(?:\(D\)->|->)?)")
_VALUE = re.compile(r"(|.*\.\d+|(?P<of>.*))_\d+")  # of no variable in memory, which gcc numbers

_BUILT_IN = SOURCES / "sim" / "cpp" / "language.hpp"  # an access in it belongs to the line that calls
_CLASS = re.compile(r"\(DIE \(\w+\) DW_TAG_(?:structure|class|union)_type\)\n(?:(?!.*\(DIE \().*\n)*")
_PLACE = ("decl_file", "decl_line", "decl_column")
_LOC = r"^[ \t]*\.loc[ \t]+(\d+ \d+ \d+)\b"
# A function that is not inlined keeps its line: the first one is where it was declared.
_FUNCTION = re.compile(rf"^\.LFB\d+:\n(?:(?![ \t]*\.loc\b).*\n)*(?:{_LOC})?|\Z", re.M)

# This text is also part of the cache key of a compiled library.
COPIES = (
    *LISTING,
    _CALL.pattern,
    _OPERAND.pattern,
    _VALUE.pattern,
    *WITH_COPIES,
    _CLASS.pattern,
    _LOC,
    _FUNCTION.pattern,
)


def has_unseen_copies(folder: Path) -> bool:
    """Whether a call among gcc's statements has its result or an argument in memory that threads share."""
    listed = folder / _LIST
    text = listed.read_text(ASSEMBLY)
    listed.unlink()
    functions = list(_LISTED.finditer(text))
    names = {function[1] for function in functions}
    for function in functions:
        head = _HEAD.search(function[0])
        own = {*names, *_OWN.findall(function[0]), *re.findall(r"(\w+)(?:,|$)", head[1] if head else "")}
        for call in _CALL.finditer(function[0]):
            for operand in _OPERAND.findall(f"{call['to'] or ''}, {call['arguments']}"):
                value = _VALUE.fullmatch(operand)
                if value and (value["of"] is None or value["of"] in own):
                    continue
                if re.match(r"D\.\d+|[\w#]*", operand)[0] not in own or operand.endswith("->"):
                    return True
    return False


_NAMED = re.compile(rb"(?:\w|\.|->|\[[\w .+*/%-]*\])+")  # an array, by names and simple indices


def indices(source: Source) -> Iterator[Change]:
    """Rewrites the indices of arrays but those whose address is taken."""
    for node in source.walk():
        if node.type != "subscript_expression" or node.parent.type == "pointer_expression":
            continue
        array, index = source.text(node.field("argument")), node.field("indices")
        if _NAMED.fullmatch(array) and not node.node.has_error:
            yield index.begin + 1, 0, b"sim_index<decltype(" + array + b")>("
            yield index.end - 1, 0, b")"


def initial_values(source: Source) -> Iterator[Change]:
    """Rewrites what a constructor's initialiser or a new-expression would let a call store."""
    for node in source.walk():
        if node.type not in ("field_initializer", "new_expression") or node.node.has_error:
            continue
        lists = [child for child in node.children if child.type in ("argument_list", "initializer_list")]
        for value in lists[-1].children if lists else ():
            if value.type in ("call_expression", "binary_expression", "conditional_expression"):
                yield value.begin, 0, b"sim_result("
                yield value.end, 0, b")"


def _place_of(entry: str) -> str | None:
    """Where the class of this entry is declared, as .loc has it. A value that all entries of a kind share is
    in the comment alone."""
    found = [
        re.search(rf"^[ \t]*(?:\.\w+[ \t]+(\w+))?.*\bDW_AT_{name}\b(?: \((\w+))?", entry, re.M)
        for name in _PLACE
    ]
    return " ".join(str(int(of[1] or of[2], 0)) for of in found) if all(found) else None


def name_the_lines_that_copy(assembly: Path) -> None:
    """Gives an inlined member function that C++ has declared by itself the line of its call."""
    text = assembly.read_text(ASSEMBLY)
    classes = {_place_of(found[0]) for found in _CLASS.finditer(text)}
    if not classes.intersection(re.findall(_LOC, text, re.M)):
        return
    number = 1 + max(map(int, re.findall(r"^[ \t]*\.file[ \t]+(\d+)", text, re.M)))

    def renamed(found: re.Match) -> str:
        return found[0].replace(found[1], f"{number} 1 0") if found[1] in classes else found[0]

    begins = list(_FUNCTION.finditer(text))
    parts = [text[: begins[0].start()]]
    for begin, end in itertools.pairwise(begins):
        part = text[begin.start() : end.start()]
        parts.append(part if begin[1] in classes else re.sub(_LOC, renamed, part, flags=re.M))
    assembly.write_text(f'\t.file {number} "{_BUILT_IN}"\n{"".join(parts)}', ASSEMBLY)
