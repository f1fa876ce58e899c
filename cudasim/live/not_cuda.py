"""What nvcc refuses but the simulator's compiler accepts, as far as the syntax tree shows it: exceptions,
arrays of variable size, variables of the host and objects of its library in device code, and calls between
host and device that are no launch.

These rules decide without nvcc (judge.py). They must never refuse valid CUDA: code in an #if, code that may
also be the host's, and ambiguous names are left to the compiler.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import chain

from cudasim.live.source import device_macros
from cudasim.live.text import blanked, places_in
from cudasim.live.tree import Node, Source

# Types and objects of C++'s library without any function for the device, not even a constexpr one.
_CONTAINERS = (
    "vector|string|wstring|map|multimap|unordered_map|unordered_set|set|multiset|list|forward_list|deque|queue|"
    "stack|priority_queue"
)
_OBJECTS = re.compile(
    rf"(?:{_CONTAINERS}|unique_ptr|shared_ptr|weak_ptr|make_unique|make_shared|function|any|thread|mutex|"
    r"lock_guard|unique_lock|condition_variable|cout|cerr|endl|[io]?stringstream|[io]?fstream|random_device|"
    r"mt19937|to_string)"
)
_HOST_TYPES = re.compile(
    r"\b(?:const|constexpr|constinit|texture|surface|auto|using|typedef|friend|concept)\b"
)
_NUMBERS = ("primitive_type", "sized_type_specifier")
# What may stand before a function's name, beside its type's name. Another word may be a macro for __device__.
_BEFORE_NAME = re.compile(
    r"static|inline|extern|const|unsigned|signed|struct|class|template|typename|__(?:host|device|global)__|"
    r"__forceinline__|__noinline__|__inline__|__launch_bounds__|C"
)
_OF_LANGUAGE = re.compile(r"void|bool|char|short|int|long|float|double|size_t|auto")
# Names that libraries have too, so that a call by the host may mean theirs.
_OF_LIBRARIES = re.compile(
    r"(?:abs|min|max|swap|clamp|lerp|mod|pow|r?sqrt|cbrt|exp\d*|log\d*|a?(?:sin|cos|tan)h?|floor|ceil|round|trunc|"
    r"fma|fmod|hypot|div|gcd|midpoint|distance|reduce|fill|copy|sort|find|count|equal|less|plus|dot|cross|norm|"
    r"length|is(?:nan|inf|finite)|rand|(?:atomic|make_|tex|__|operator)\w*)[fl]?"
)
_BUILT_IN = {"threadIdx", "blockIdx", "blockDim", "gridDim"}
_HOST, _DEVICE, _KERNEL = "__host__", "__device__", "__global__"
_NO_VALUE = ("sizeof_expression", "decltype", "alignof_expression", "template_argument_list")
_CONDITIONAL = ("preproc_if", "preproc_else", "preproc_elif", "preproc_elifdef")

Refusal = tuple[str, int, str]  # file, line, message


@dataclass(frozen=True)
class _Function:
    """A function for the device alone. is_member: whether a class may have declared its names."""

    head: str
    name: str
    node: Node
    body: Node
    is_member: bool

    @property
    def described(self) -> str:
        kind = "__global__" if "__global__" in self.head else "__device__"
        return f'a {kind} function("{self.name}")'


def _walk(node: Node, *, but: tuple[str, ...] = ()) -> Iterator[Node]:
    """The node and all below it, without nodes of these types and without what an #if may leave out."""
    waiting = [node]
    while waiting:
        node = waiting.pop()
        if node.type not in (*but, *_CONDITIONAL) and not _is_optional(node):
            yield node
            waiting.extend(reversed(node.children))


def _is_optional(node: Node) -> bool:
    """Whether it is an #ifdef or #ifndef that guards no header."""
    if node.type != "preproc_ifdef":
        return False
    name, first = node.field("name"), next((c for c in node.children if c.type == "preproc_def"), None)
    guards = first and name and first.field("name").node.text == name.node.text
    return not guards


def _text(node: Node) -> str:
    return node.node.text.decode(errors="replace")


def _declared_name(declarator: Node | None) -> Node | None:
    """The identifier of a declarator: of `*p = q`, of `a[3]`."""
    while declarator is not None and declarator.type in (
        "init_declarator",
        "array_declarator",
        "pointer_declarator",
    ):
        declarator = declarator.field("declarator")
    return declarator if declarator is not None and declarator.type == "identifier" else None


def _declarators(declaration: Node) -> list[Node]:
    fields = declaration.node.children_by_field_name("declarator")
    return [Node(child, declaration.shift) for child in fields]


class _Text:
    """A source and what it declares."""

    def __init__(self, text: str):
        self.source = Source.of(text)
        code = blanked(text)
        self.device = re.compile(device_macros(code))
        self.macros = set(re.findall(r"^[ \t]*#[ \t]*define[ \t]+(\w+)", code, re.M))
        nodes = list(self.source.tree.walk())
        self.fields = {_text(node) for node in nodes if node.type == "field_identifier"}
        self.types = {_text(n) for node in nodes if _is_class(node) and (n := node.field("name"))}
        self.uses_std = bool(re.search(r"\busing\s+namespace\s+std\b", code))

    def functions(self) -> Iterator[_Function]:
        for node in _walk(self.source.tree):
            body = node.field("body") if node.type == "function_definition" else None
            if body is None or body.type != "compound_statement":
                continue
            # For the grammar, attributes and macros before a function may not belong to it.
            before = self.source.data[: node.begin].decode("latin-1")
            around = blanked(before[max(map(before.rfind, ";}")) + 1 :])
            head = around + self.source.data[node.begin : body.begin].decode(errors="replace")
            words = re.findall(r"\b__(?:global|device|host)__\b", head)
            if words and "__host__" not in words and not re.search(r"\bconst(?:expr|eval)\b", head):
                declarator = next((n for n in _walk(node) if n.type == "function_declarator"), node)
                name = declarator.field("declarator")
                called = _text(name) if name else "?"
                is_member = "::" in called or any(_is_class(above) for above in node.above())
                yield _Function(head, called, node, body, is_member)

    @cached_property
    def code(self) -> str:
        """The text without comments and strings, a character for each byte."""
        return blanked(self.source.data.decode("latin-1"))

    @cached_property
    def sides(self) -> dict[str, str]:
        """The functions outside of classes that are the host's or the device's alone, by name."""
        found: dict[str, set[str]] = {}
        for node in self.source.tree.walk():
            if node.type != "function_declarator" or (name := node.field("declarator")) is None:
                continue
            if name.type == "identifier":
                found.setdefault(_text(name), set()).add(self.side_of(node))
        return {
            name: next(iter(sides))
            for name, sides in found.items()
            if len(sides) == 1 and name not in self.macros and not _OF_LIBRARIES.fullmatch(name)
        }

    def side_of(self, declarator: Node) -> str:
        """Of a function; "" for one that may be of both."""
        begin = max(self.code.rfind(end, 0, declarator.begin) for end in ";}{") + 1
        head = self.code[begin : declarator.begin]
        head = re.sub(r"^[ \t]*#.*|<[^<>]*>|__launch_bounds__\s*\([^()]*\)", " ", head, flags=re.M)
        words = re.findall(r"\b[A-Za-z_]\w*", head.replace("std::", ""))
        marks = {_HOST, _DEVICE, _KERNEL} & {*words}
        if len(marks) == 1:
            return marks.pop()
        unknown = [word for word in words if not _BEFORE_NAME.fullmatch(word)]
        is_plain = len(unknown) == 1 or (unknown and all(map(_OF_LANGUAGE.fullmatch, unknown)))
        return _HOST if is_plain and not marks else ""

    @cached_property
    def host_variables(self) -> set[str]:
        """The variables at namespace level that only the host has."""
        found, others = set(), set()
        for node in _namespace_level(self.source.tree):
            names = {_text(n) for d in _declarators(node) if (n := _declared_name(d))}
            begin = max(self.code.rfind(end, 0, node.begin) for end in ";}{") + 1  # an #if may have the word
            marks = self.code[begin : node.begin] + _text(node)
            is_host = not (self.device.search(marks) or _HOST_TYPES.search(_text(node)))
            (found if is_host else others).update(names)
        return found - others - self.macros


def _is_class(node: Node) -> bool:
    return node.type in ("struct_specifier", "class_specifier", "union_specifier", "enum_specifier")


def _namespace_level(tree: Node) -> Iterator[Node]:
    """The declarations outside of functions and classes."""
    inside = ("function_definition", "template_declaration", "linkage_specification")
    for node in _walk(tree, but=(*inside, "field_declaration_list", "compound_statement")):
        if node.type == "declaration":
            yield node


def _names_in(function: Node) -> set[str]:
    """All names that the function itself declares."""
    found = set()
    for node in function.walk():
        if node.type.endswith(("declaration", "declarator", "for_range_loop", "capture_specifier")):
            found |= {_text(child) for child in node.children if child.type == "identifier"}
            if name := _declared_name(node.field("declarator")):
                found.add(_text(name))
    above = "".join(_text(node.field("parameters")) for node in function.above() if _is_template(node))
    return found | set(re.findall(r"\w+", above))


def _is_template(node: Node) -> bool:
    return node.type == "template_declaration" and node.field("parameters") is not None


def _exceptions(function: _Function, _: _Text) -> Iterator[tuple[Node, str]]:
    for node in _walk(function.body):
        if node.type in ("try_statement", "throw_statement"):
            yield node, "device code does not support exception handling"


def _host_reads(function: _Function, text: _Text) -> Iterator[tuple[Node, str]]:
    wanted = text.host_variables - _names_in(function.node)
    if function.is_member:
        wanted -= text.fields
        if any(
            child.type == "base_class_clause" for node in function.node.above() for child in node.children
        ):
            return
    for node in _walk(function.body, but=(*_NO_VALUE, "qualified_identifier")):
        if node.type == "identifier" and _text(node) in wanted:
            yield (
                node,
                f'identifier "{_text(node)}" is undefined in device code: it is a variable of the host\'s; '
                "pass it to the kernel, or write __device__ or __constant__ before it",
            )


def _run_time_numbers(function: _Function) -> set[str]:
    """Names of numbers known only at run time in the function, each declared once."""
    declared, found = [], set()
    for node in _walk(function.node):
        kind = node.field("type")
        if node.type not in ("parameter_declaration", "declaration") or kind is None:
            continue
        is_number = kind.type in _NUMBERS or re.fullmatch(r"(?:size_t|u?int\w*_t|uint)", _text(kind))
        is_constant = re.search(r"\b(?:const|constexpr)\b", _text(node)) and node.type == "declaration"
        for declarator in _declarators(node):
            name = _declared_name(declarator)
            declared.append(_text(name) if name else "")
            is_plain = name is not None and declarator.type in ("identifier", "init_declarator")
            if is_number and is_plain and not is_constant:
                found.add(declared[-1])
    return {name for name in found if declared.count(name) == 1}


def _arrays(function: _Function, text: _Text) -> Iterator[tuple[Node, str]]:
    numbers = _run_time_numbers(function) - text.macros
    for node in _walk(function.body, but=("lambda_expression", "struct_specifier")):
        size = node.field("size") if node.type == "array_declarator" else None
        if size is None:
            continue
        above = next(n.type for n in node.above() if not n.type.endswith("declarator"))
        for inside in _walk(size, but=(*_NO_VALUE, "qualified_identifier")) if above == "declaration" else ():
            if inside.type == "identifier" and _text(inside) in numbers:
                yield (
                    size,
                    f'expression must have a constant value: the value of "{_text(inside)}" cannot be used '
                    "as a constant",
                )
                break


def _library(function: _Function, text: _Text) -> Iterator[tuple[Node, str]]:
    plain = text.uses_std and re.compile(rf"(?:{_CONTAINERS})")
    for node in _walk(function.body, but=("template_argument_list", "alias_declaration", "type_definition")):
        name = None
        if node.type == "qualified_identifier":
            scoped = re.match(r"std\s*::\s*(\w+)", _text(node))
            parent = node.parent
            is_whole = parent is None or parent.type != "qualified_identifier"
            name = scoped[1] if scoped and is_whole and _OBJECTS.fullmatch(scoped[1]) else None
        elif plain and node.type == "template_type" and node.parent.type != "qualified_identifier":
            of = _text(node.field("name"))
            name = of if plain.fullmatch(of) and of not in text.types else None
        if name:
            yield (
                node,
                f"calling a __host__ function of std::{name} from {function.described} is not allowed: "
                "the C++ library's objects are the host's",
            )


def _parts(function: Node) -> tuple[Node | None, Node | None]:
    """The declarator and the body of a function's definition. Of one with others in it there are none: the
    grammar may have lost a brace in an #if, so that what follows the function is in it."""
    declarator, body = function.field("declarator"), function.field("body")
    while declarator is not None and declarator.type != "function_declarator":
        declarator = declarator.field("declarator")
    if function.type != "function_definition" or declarator is None or body is None:
        return None, None
    is_alone = all(inside.type != "function_definition" for inside in body.walk())
    return (declarator, body) if is_alone else (None, None)


def _calls(text: _Text) -> Iterator[tuple[Node, str]]:
    """Calls of a function of the other side, and of a kernel without a launch."""
    for function in _walk(text.source.tree):
        declarator, body = _parts(function)
        if body is None:
            continue
        name, side = declarator.field("declarator"), text.side_of(declarator)
        is_inside = any(of.type == "template_declaration" or _is_class(of) for of in function.above())
        if not side or is_inside or name is None or name.type != "identifier":
            continue
        own = _names_in(function)
        for node in _walk(body, but=_NO_VALUE):
            called = node.field("function") if node.type == "call_expression" else None
            is_launch = any(child.type == "kernel_call_syntax" for child in node.children)
            if called is None or called.type != "identifier" or is_launch or _text(called) in own:
                continue
            its = text.sides.get(_text(called), "")
            if its == _KERNEL:
                yield node, f"a __global__ function call must be configured: {_text(called)}<<<...>>>(...)"
            elif its and (its == _HOST) != (side == _HOST):
                yield (
                    node,
                    f'calling a {its} function("{_text(called)}") from a {side} function("{_text(name)}") '
                    "is not allowed",
                )


def _built_in(text: _Text) -> Iterator[tuple[Node, str]]:
    """Variables of kernels in host code, which nvcc takes and the linker refuses."""
    for function in _walk(text.source.tree):
        declarator, body = _parts(function)
        # In what the grammar does not know a lambda may be the device's, by a macro.
        if body is None or body.node.has_error or text.side_of(declarator) != _HOST:
            continue
        own = text.host_variables | _names_in(function)
        for node in _walk(body, but=(*_NO_VALUE, "lambda_expression")):
            if node.type == "identifier" and _text(node) in _BUILT_IN and _text(node) not in own:
                yield node, f"{_text(node)} is a variable of kernels, which the linker misses in host code"


_RULES = (_exceptions, _arrays, _host_reads, _library)


def refusals(text: str, has_compiled: bool = False) -> list[Refusal]:
    """What is not CUDA in a text, by the files and lines that its #line directives name. has_compiled: nvcc
    has taken it, and only what the linker refuses is looked for."""
    known, found = _Text(text), []
    places = places_in(text)
    told = [_built_in(known)]
    if not has_compiled:
        told += [_calls(known), *(rule(of, known) for of in known.functions() for rule in _RULES)]
    for node, message in chain(*told):
        found.append((*places[known.source.data.count(b"\n", 0, node.begin)], message))
    return found
