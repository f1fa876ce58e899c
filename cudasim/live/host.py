"""Host code of a whole program, written as C++: launches, names of its own, allocations with their names.

    k<<<grid, block>>>(x, n)        (sim_launcher(SIM_HERE, "k", k, [&](auto &...sim_a) { k(sim_a...); })
                                     ->*sim_configuration(grid, block))(x, n)
    cudaMalloc(&d_x, bytes)         cudaMalloc(&d_x, bytes, "d_x")
    dim3 blockDim(16, 16);          dim3 host_blockDim(16, 16);
    asm("rdtsc" : "=a"(low));       asm("/* sim: of the host */ " "rdtsc" : "=a"(low));

A name of CUDA's built-in variables stands for the host's own in a function that declares it.
cudasim/sim/cpp/program_launch.hpp has what the first line becomes.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Generator, Iterable, Iterator
from dataclasses import dataclass

from cudasim.live.text import blanked, closing
from cudasim.live.tree import Change, Node, Source

HOST_ASSEMBLY = "/* sim: of the host */"
_BUILT_IN = {b"threadIdx", b"blockIdx", b"blockDim", b"gridDim"}
_DECLARE = {"declaration", "parameter_declaration", "init_declarator", "optional_parameter_declaration"}
# Declarations of variables in device memory, and what of them declares none that each device has.
_OF_DEVICE = re.compile(rb"(?:\w+\s+)*?(?:__device__|__constant__)\b")
_NO_VARIABLE = re.compile(
    rb"\b(?:extern|__managed__|__shared__|template|texture|surface|operator)\b|\w\s*\((?!\s*\d)"
)
_BEFORE_VALUE = re.compile(rb"[^={]*")
_LAST_NAME = re.compile(rb"(\w+)\s*(?:\[[^\]]*\]\s*)*\)?$")
_IN_BRACKETS = r"\((?:[^()]|\([^()]*\))*\)"
# The size of a kernel's clusters, and the kernel's name.
_CLUSTERED = re.compile(
    rf"\b__cluster_dims__\s*\((?P<dims>(?:[^()]|{_IN_BRACKETS})*)\)"
    rf"(?:\s|\b(?:void|static|extern|inline|__global__|(?:__launch_bounds__|__maxnreg__)\s*{_IN_BRACKETS}))*"
    r"\b(?P<name>\w+)\s*\("
)
_LAUNCH = re.compile(
    rb"(?P<kernel>[A-Za-z_][\w:]*(?:\s*<[^<>;{}()]*>)?)\s*(?P<begin><<<)(?!<)[^;{}]*?(?P<end>>>>)(?=\s*\()"
)
_AROUND_VARIABLES = {
    "translation_unit", "declaration_list", "namespace_definition", "linkage_specification", "preproc_if",
    "preproc_ifdef", "preproc_else", "preproc_elif",
}  # fmt: skip
# Functions that allocate, with the number of their arguments, and what is to be said before the name.
_NAMED = {
    (b"cudaMalloc", 2): b"",
    (b"cudaMallocAsync", 3): b"",
    (b"cudaMallocFromPoolAsync", 4): b"",
    (b"cudaMallocPitch", 4): b"",
    (b"cudaMalloc3D", 2): b"",
    (b"cudaMallocManaged", 2): b"cudaMemAttachGlobal, ",
    (b"cudaMallocManaged", 3): b"",
}


@dataclass(frozen=True)
class Host:
    """What the rules have to know of a program. templates: the names of its kernels whose launches only the
    arguments resolve, as those of templates, and which of their parameters are pointers. known: the names of
    all. overloaded: the names of several kernels. of_device: a pattern of the words that mark a function for
    the device."""

    templates: dict[str, frozenset[int]]
    known: frozenset[str]
    overloaded: frozenset[str]
    of_device: re.Pattern

    def is_host_function(self, source: Source, node: Node) -> bool:
        if node.type != "function_definition" or (body := node.field("body")) is None:
            return False
        return not self.of_device.search(source.data[node.begin : body.begin].decode(errors="replace"))

    def of_kernels(self, rule: Callable[[Source], Iterable[Change]]) -> Callable[[Source], Iterator[Change]]:
        """The rule, for all but the functions of the host."""

        def within(source: Source) -> Iterator[Change]:
            nodes = (node for tree in source.trees() for node in tree.walk())
            host = [(n.begin, n.end) for n in nodes if self.is_host_function(source, n)]
            for change in rule(source):
                if not any(begin <= change[0] < end for begin, end in host):
                    yield change

        return within

    def launches(self, source: Source) -> Iterator[Change]:
        """Writes launches as calls."""
        found = set()
        for node in source.walk():
            if node.type != "call_expression":
                continue
            configuration = next((c for c in node.children if c.type == "kernel_call_syntax"), None)
            if configuration is None:
                continue
            kernel = node.field("function")
            begin, end = configuration.children[0].begin, configuration.children[-1].begin
            found.add(begin)
            pointers = yield from self._launch(kernel.begin, source.text(kernel), begin, end)
            if pointers is not None:
                given = [of for of in node.field("arguments").children if of.type not in ("(", ",", ")")]
                for place, argument in enumerate(given):
                    text = source.text(argument)
                    if text == b"NULL" or (text == b"0" and place in pointers):
                        yield argument.begin, len(text), b"nullptr"
        # Behind a macro without a semicolon, or with an #if in it, a launch is none to the grammar.
        code = blanked(source.data.decode("latin-1")).encode("latin-1")
        for match in _LAUNCH.finditer(code):
            if match.start("begin") not in found:
                yield from self._launch(
                    match.start(), match["kernel"], match.start("begin"), match.start("end")
                )

    def _launch(
        self, at: int, kernel: bytes, begin: int, end: int
    ) -> Generator[Change, None, frozenset[int] | None]:
        """Of a kernel's name at this place, with a configuration that begins and ends there. Returns which
        parameters of a template are pointers, and None for what is none."""
        name = re.sub(rb"\s*<.*", b"", kernel, flags=re.S).split(b"::")[-1].strip()
        pointers = self.templates.get(name.decode(errors="replace"))
        before, after = b"", b""
        if pointers is not None:
            types = b"std::remove_reference_t<decltype(sim_a)>..."
            before = b"sim_deduced([&](auto... sim_a) { "
            after = b"(sim_a...); }, [&](auto &...sim_a) -> decltype(static_cast<void (*)(" + types + b")>("
            after += kernel + b")) { return " + kernel + b"; })"
        elif name.decode(errors="replace") in self.known:
            after = b", [&](auto &...sim_a) { " + kernel + b"(sim_a...); }"
        yield at, 0, b'(sim_launcher(SIM_HERE, "' + name + b'", ' + before
        yield begin, len(b"<<<"), after + b")->*sim_configuration("
        yield end, len(b">>>"), b"))"
        return pointers

    def assembly(self, source: Source) -> Iterator[Change]:
        """Marks the host's own inline assembly, which is no PTX and stays."""
        for tree in source.trees():
            for function in (node for node in tree.walk() if self.is_host_function(source, node)):
                for node in function.walk():
                    if node.type == "gnu_asm_expression":
                        yield node.field("assembly_code").begin, 0, b'"' + HOST_ASSEMBLY.encode() + b' "'

    def kernels(self, source: Source) -> Iterator[Change]:
        """Notes each kernel that is no template, for launches by its address."""
        found = [node for node in source.tree.walk() if self._is_plain_kernel(source, node)]
        names = [source.text(self._name_of(node)) for node in found]
        for node, name in zip(found, names, strict=True):
            if name.decode(errors="replace") not in self.overloaded:
                yield node.end, 0, b" static const sim_known_kernel sim_knows_" + name + b"(" + name + b");"
        code = blanked(source.data.decode("latin-1"))
        for found in _CLUSTERED.finditer(code):
            yield from self._clustered(code, found)

    def _clustered(self, code: str, found: re.Match) -> Iterator[Change]:
        """Notes the size of the clusters of a kernel, with which all its launches run. One that is a template
        or has the name of another function does not compile."""
        begin = max(code.rfind(end, 0, found.start()) for end in ";}#")
        name, dims = found["name"], found["dims"]
        end = re.compile(r"[;{]").search(code, found.end())
        if end is None:
            return
        place = end.start() if end[0] == ";" else closing(code, end.start())  # declared alone, or with a body
        if name in self.overloaded or re.search(r"\btemplate\b", code[begin + 1 : found.start()]):
            yield found.start(), len("__cluster_dims__"), b"sim_follows_cluster_dims_of_plain_kernels_only"
            return
        noted = f"sim_clusters_{name}_{found.start()}({name}, dim3({dims}))"
        yield place + 1, 0, f" static const sim_clustered_kernel {noted};".encode("latin-1")

    def variables(self, source: Source) -> Iterator[Change]:
        """Notes each variable in device memory, of which every device has its own values."""
        for node in source.tree.walk():
            text = source.text(node)
            if node.type != "declaration" or not _OF_DEVICE.match(text):
                continue
            is_inside = any(around.type not in _AROUND_VARIABLES for around in node.above())
            if is_inside or _NO_VARIABLE.search(_BEFORE_VALUE.match(text)[0]):
                continue
            declared = [
                child
                for child in node.children
                if child.type.endswith("declarator") or child.type == "identifier"
            ]
            names = [_LAST_NAME.search(_BEFORE_VALUE.match(source.text(child))[0]) for child in declared]
            for name in filter(None, names):
                yield (
                    node.end,
                    0,
                    b' static const sim_known_variable sim_variable_%s(%s, "%s");' % ((name[1],) * 3),
                )

    @staticmethod
    def _name_of(function: Node) -> Node:
        declarator = function.field("declarator")
        while (inner := declarator.field("declarator")) is not None:
            declarator = inner
        return declarator

    def _is_plain_kernel(self, source: Source, node: Node) -> bool:
        if node.type != "function_definition" or (body := node.field("body")) is None or node.node.has_error:
            return False
        if b"__global__" not in source.data[node.begin : body.begin]:
            return False
        others = ("template_declaration", "class_specifier", "struct_specifier")
        is_inside = any(around.type in others for around in node.above())
        return not is_inside and self._name_of(node).type == "identifier"

    def names(self, source: Source) -> Iterator[Change]:
        """Renames the host's own variables that are called as CUDA's built-in ones, and structs' members."""
        for tree in source.trees():
            functions = [node for node in tree.walk() if self.is_host_function(source, node)]
            outside = {source.text(name) for name in self._names(source, tree) if self._is_outside(name)}
            for function in functions:
                names = list(self._names(source, function))
                own = outside | {source.text(name) for name in names if self._declares(name)}
                yield from ((name.begin, 0, b"host_") for name in names if source.text(name) in own)
            for node in tree.walk():
                is_outside = (
                    node.type == "identifier" and source.text(node) in outside and self._is_outside(node)
                )
                if is_outside or (node.type == "field_identifier" and source.text(node) in _BUILT_IN):
                    yield node.begin, 0, b"host_"

    @staticmethod
    def _names(source: Source, within: Node) -> Iterator[Node]:
        # In `dim3 block(blockDim, 2);` the grammar takes the argument for a type of a function's parameter.
        kinds = ("identifier", "type_identifier")
        return (n for n in within.walk() if n.type in kinds and source.text(n) in _BUILT_IN)

    def _is_outside(self, name: Node) -> bool:
        """Whether it is declared there, and in no function."""
        inside = ("function_definition", "parameter_list", "preproc_def")
        return not any(around.type in inside for around in name.above()) and self._declares(name)

    @staticmethod
    def _declares(name: Node) -> bool:
        parent = name.parent
        while parent is not None and parent.type.endswith("_declarator") and parent.type != "init_declarator":
            parent = parent.parent
        if parent is None or parent.type not in _DECLARE:
            return False
        value = parent.field("value")
        return value is None or not value.begin <= name.begin < value.end

    def allocations(self, source: Source) -> Iterator[Change]:
        """Says to the runtime what the program calls its memory."""
        for node in source.walk():
            if node.type != "call_expression":
                continue
            called, arguments = node.field("function"), node.field("arguments")
            given = [child for child in arguments.children if child.node.is_named] if arguments else []
            before = _NAMED.get((source.text(called), len(given)))
            if before is None:
                continue
            if name := re.search(rb"&\s*([\w.\->\[\]]+)\s*\)?$|(\w+)$", source.text(given[0])):
                text = (name[1] or name[2])[:40]
                yield given[-1].end, 0, b", " + before + b'"' + text.replace(b'"', b"") + b'"'
