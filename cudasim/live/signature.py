"""Reads the names and the declarations of a source's kernels and device variables.

Only the text is read here. The compiler knows the types (cudasim/sim/cpp/entry.hpp).
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from cudasim.live.items import Item, items
from cudasim.live.text import blanked, closing, line_of, without_directives


@dataclass(frozen=True)
class Parameter:
    """A parameter of a kernel. declaration: its text in the source."""

    name: str
    declaration: str


@dataclass(frozen=True)
class Signature:
    """A kernel's name and parameters.

    scope: its namespace with "::", or "". template: its template parameters as declared, () if it is no
    template. instances: template arguments that the source itself uses, in explicit instantiations or
    launches.
    """

    kernel: str
    scope: str
    parameters: tuple[Parameter, ...]
    template: tuple[str, ...]
    line: int
    instances: tuple[str, ...] = ()
    cluster: str = ""  # what __cluster_dims__ says of its blocks; "" when it says nothing
    is_overloaded: bool = False  # another function has its name, perhaps one of the C library

    @property
    def qualified(self) -> str:
        return self.scope + self.kernel

    def with_instances(self, more: Sequence[str]) -> Signature:
        return replace(self, instances=tuple(dict.fromkeys((*self.instances, *more))))

    def __str__(self) -> str:
        template = f"<{', '.join(self.template)}>" if self.template else ""
        return f"{self.kernel}{template}({', '.join(parameter.declaration for parameter in self.parameters)})"


def split_at_commas(text: str) -> list[str]:
    """The pieces between commas outside brackets; [] for an empty text."""
    pieces, brackets, angles, begin = [], 0, 0, 0
    for place, character in enumerate(text):
        if character in "([{":
            brackets += 1
        elif character in ")]}":
            brackets -= 1
        elif brackets > 0:
            continue  # there an angle may be a shift or a comparison
        elif character == "<" and "<" not in (text[place - 1 : place], text[place + 1 : place + 2]):
            angles += 1
        elif character == ">" and angles > 0 and text[place - 1] != "-":
            angles -= 1
        elif character == "," and angles == 0:
            pieces.append(text[begin:place])
            begin = place + 1
    pieces.append(text[begin:])
    pieces = [" ".join(piece.split()) for piece in pieces]
    return [] if pieces in ([""], ["void"]) else pieces


_NOT_SAID = r"\b(?:__restrict__|__restrict|__grid_constant__)\b"


def _parameter(text: str, number: int) -> Parameter:
    without_default = re.split(r"(?<![=<>!])=(?!=)", text)[0]
    words = re.sub(r"\s*\*\s*", " *", without_default).replace("* *", "**").strip()
    declaration = " ".join(re.sub(rf" ?{_NOT_SAID} ?", "", words).split())
    bare = re.sub(_NOT_SAID, " ", without_default)
    name = re.search(r"(?<![\w:])(\w+)\s*(?:\[[^]]*\]\s*)*$", bare)
    named = name is not None and re.search(r"[\w>\]*&]\s*$", bare[: name.start()]) is not None
    return Parameter(name[1] if named else f"argument {number}", declaration)


def _attributes_removed(head: str) -> str:
    for word in (
        "__launch_bounds__",
        "__cluster_dims__",
        "__maxnreg__",
        "__attribute__",
        "__align__",
        "alignas",
    ):
        while match := re.search(rf"\b{word}\s*\(", head):
            head = head[: match.start()] + " " + head[closing(head, match.end() - 1) + 1 :]
    # A macro for some of them has arguments as well, and the kernel's name follows.
    while match := re.search(r"\b__global__(?:\s+\w+)*?\s+([A-Z][A-Z0-9_]*)\s*\(", head):
        after = closing(head, match.end() - 1) + 1
        if not re.match(r"\s*(?:\w+\s+)*\w+\s*\(", head[after:]):
            break
        head = f"{head[: match.start(1)]} {head[after:]}"
    return head


def _argument_of(word: str, head: str) -> str:
    """The text in brackets after a word; "" if the head does not have the word."""
    match = re.search(rf"\b{word}\s*\(", head)
    return " ".join(head[match.end() : closing(head, match.end() - 1)].split()) if match else ""


def _template_parameters(head: str) -> tuple[str, ...] | None:
    """The declared parameters of all `template <...>` of a head; None if it is no template."""
    match = re.match(r"\s*template\s*<", head)
    if match is None:
        return None
    depth, place = 1, match.end()
    while place < len(head) and depth > 0:
        depth += {"<": 1, ">": -1, "(": 1, ")": -1}.get(head[place], 0)
        place += 1
    return tuple(split_at_commas(head[match.end() : place - 1]))


def _scoped(text: str, begin: int, end: int, scope: str, macros) -> list[tuple[str, Item]]:
    found = []
    for item in items(text, begin, end, macros):
        if item.scope is not None:
            name = f"{item.scope}::" if item.scope else ""
            found += _scoped(text, item.body[0] + 1, item.body[1] - 1, scope + name, macros)
        else:
            found.append((scope, item))
    return found


_C_FUNCTIONS = {*dir(math), "abs", "div", "index", "round", "select", "signal", "time", "wait"}
_OF_CUDA = re.compile(r"atomic[A-Z]\w*|max|min|u?ll?m(?:ax|in)|__\w+|tex\dD\w*|make_\w+|cuda[A-Z]\w*")


def signatures(source: str) -> dict[str, Signature]:
    """A source's kernels by name, in its order."""
    text = without_directives(blanked(source))
    found: dict[str, Signature] = {}
    instances: dict[str, list[str]] = {}
    for scope, item in _scoped(text, 0, len(text), "", frozenset()):
        if "__global__" not in item.head:
            continue
        head = _attributes_removed(item.head)
        template = _template_parameters(head)
        if item.body is None:
            explicit = re.match(r"\s*template\b(?!\s*<)[^;]*?(\w+)\s*<", head)
            if explicit:
                close = _closing_angle(head, explicit.end())
                instances.setdefault(explicit[1], []).append(" ".join(head[explicit.end() : close].split()))
            continue
        name = re.search(r"__global__.*?(\w+)\s*\(", head, re.S)
        if name is None:
            continue
        opening = name.end() - 1
        inside = head[opening + 1 : closing(head, opening)]
        pieces = split_at_commas(inside)
        parameters = tuple(_parameter(piece, index + 1) for index, piece in enumerate(pieces))
        if template is not None and re.match(r"\s*template\s*<\s*>", head):
            continue  # a specialisation of a template that is already there
        found[name[1]] = Signature(
            name[1],
            scope,
            parameters,
            template or (),
            line_of(source, item.begin),
            cluster=_argument_of("__cluster_dims__", item.head),
            is_overloaded=name[1] in _C_FUNCTIONS
            or _OF_CUDA.fullmatch(name[1]) is not None
            or len(re.findall(rf"\bvoid\s+{name[1]}\s*\(", text)) > 1,
        )
    for launched in re.finditer(r"\b(\w+)\s*<(?!<)([^;{}]*?)>\s*<<<", text):
        instances.setdefault(launched[1], []).append(" ".join(launched[2].replace("\\", " ").split()))
    return {
        name: (
            replace(s, instances=tuple(dict.fromkeys(instances[name])))
            if s.template and name in instances
            else s
        )
        for name, s in found.items()
    }


def _closing_angle(text: str, place: int) -> int:
    depth = 1
    while place < len(text):
        depth += {"<": 1, ">": -1}.get(text[place], 0)
        if depth == 0:
            return place
        place += 1
    return place


# ------------------------------------------------------------------------------------------------------------
# Variables in device memory, and structs


@dataclass(frozen=True)
class Variable:
    """A `__constant__`, `__device__` or `__managed__` variable, or a texture reference.

    is_constant: kernels only read it.
    """

    name: str
    qualified: str
    is_constant: bool


_VARIABLE_WORDS = re.compile(r"\b(?:(?:__constant__|__device__|__managed__)\b|texture\s*<)")


def variables(source: str) -> list[Variable]:
    text = without_directives(blanked(source))
    found = []
    for scope, item in _scoped(text, 0, len(text), "", frozenset()):
        head = _attributes_removed(item.head)
        word = _VARIABLE_WORDS.search(head)
        if (
            word is None
            or item.is_function
            or "__global__" in head
            or re.match(r"\s*(?:extern|template|using)\b", head)
        ):
            continue
        declarator = re.split(r"(?<![=<>!])=(?!=)", head)[0].strip().rstrip(";")
        if re.search(r"\w\s*\(", declarator):
            continue  # a function's declaration, or a pointer to one
        is_constant = "__constant__" in head
        for index, piece in enumerate(split_at_commas(declarator)):
            name = re.search(r"(\w+)\s*(?:\[[^]]*\]\s*)*$", piece)
            if name and (index > 0 or len(re.findall(r"\w+", piece[: name.start()])) >= 2):
                found.append(Variable(name[1], scope + name[1], is_constant))
    return found


@dataclass(frozen=True)
class Struct:
    """members: the names of the public data members, including those of public bases. uses: the words of its
    declaration, and so the names of structs in it.
    """

    members: list[str]
    uses: frozenset[str]


_ACCESS = re.compile(r"\s*(public|protected|private)\s*:(?!:)")


def _declared_names(declarators: str) -> list[str]:
    """The names at the end of a declaration of data members, without bit-fields, which have no address."""
    declared = re.split(r"(?<![=<>!])=(?!=)", declarators)[0].rstrip("; \n")
    if "(" in _attributes_removed(declared):
        return []
    names = [re.search(r"(\w+)\s*(?:\[[^]]*\]\s*)*$", piece) for piece in split_at_commas(declared)]
    return [name[1] for name in names if name and not re.search(r"[^:]:\s*\w+$", declared)]


def _public_bases(head: str) -> list[str]:
    listed = re.search(r"[^:]:([^:].*)$", head, re.S)
    of_class = re.match(r"\s*(?:typedef\s+)?class\b", head) is not None
    bases = []
    for piece in split_at_commas(listed[1]) if listed else []:
        words = piece.split()
        if "public" in words or not (of_class or {"private", "protected"} & {*words}):
            bases.append(words[-1])
    return bases


def _nested_name(owner: str, head: str, variables: list[str]) -> str:
    """The C++ name of a struct inside another; "" if it has none."""
    named = re.match(r"\s*(?:struct|class|union)\s+(\w+)", _attributes_removed(head))
    if named:
        return f"{owner}::{named[1]}"
    return f"decltype({owner}::{variables[0]})" if variables else ""


def _read_struct(text: str, item: Item, name: str, found: dict[str, Struct]) -> Struct:
    """Describes a struct. Adds the structs inside it to those found so far."""
    head = _attributes_removed(item.head)
    access = "private" if re.match(r"\s*(?:typedef\s+)?class\b", head) else "public"
    members, uses = [], set(re.findall(r"\w+", text[item.begin : item.end]))
    for base in _public_bases(head):
        known = found.get(name.rpartition("::")[0] + "::" + base) or found.get(base)
        members += known.members if known else []
    for member in items(text, item.body[0] + 1, item.body[1] - 1):
        label = 0
        while said := _ACCESS.match(member.head, label):
            access, label = said[1], said.end()
        member = replace(member, head=member.head[label:])
        no_data = r"\s*(?:using|typedef|static|friend|template|enum)\b"
        if access != "public" or re.match(no_data, member.head):
            continue
        if member.is_class:
            variables = _declared_names(text[member.body[1] : member.end])
            key = _nested_name(name, member.head, variables)
            nested = _read_struct(text, member, key, found)
            # The members of a nameless struct or union are its owner's.
            members += variables if key else nested.members
            if key:
                found[key] = nested
                uses.add(key)
        elif not member.is_function:
            members += _declared_names(member.head)
    return Struct(list(dict.fromkeys(members)), frozenset(uses))


def structs(source: str) -> dict[str, Struct]:
    """Each struct and class of the source, except templates, by its name with its namespace."""
    text = without_directives(blanked(source))
    found: dict[str, Struct] = {}
    for scope, item in _scoped(text, 0, len(text), "", frozenset()):
        head = re.match(r"\s*(?:typedef\s+)?(?:struct|class)\b[^{]*", item.head)
        if not item.is_class or head is None or item.head.lstrip().startswith("template"):
            continue
        name = re.search(r"(\w+)\s*(?:final\s*)?(?::[^:].*)?$", _attributes_removed(item.head).strip(), re.S)
        typedef = re.match(r"\s*(\w+)\s*;", text[item.body[1] : item.end])
        name = typedef[1] if item.head.lstrip().startswith("typedef") and typedef else name and name[1]
        if name and name not in ("struct", "class"):
            found[scope + name] = _read_struct(text, item, scope + name, found)
    return found


def structs_used_by(declarations: str, known: dict[str, Struct]) -> dict[str, list[str]]:
    """The members of the structs that the declarations have by value, and of the structs inside these."""
    used: dict[str, list[str]] = {}

    def use(words: frozenset[str]):
        for name, struct in known.items():
            if name not in used and (name in words or name.split("::")[-1] in words):
                used[name] = struct.members
                use(struct.uses)

    use(frozenset(re.findall(r"\w+\b(?!\s*\*)", declarations)))
    return used
