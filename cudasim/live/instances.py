"""The template arguments that a source's own host code gives its kernels, as in `sum<float, kBlock><<<…>>>`.

Host code is not compiled, and so its functions' constants and its templates' parameters are missing. So their
values are inserted: with `constexpr int kBlock = 256;` before the launch it is `sum<float, (256)>`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from cudasim.live.items import Item, items
from cudasim.live.signature import split_at_commas
from cudasim.live.text import blanked, without_directives

_NAME = r"(?<![\w:.])[A-Za-z_]\w*\b(?!\s*(?:::|\())"
_BUILT_IN = {
    *("bool", "char", "short", "int", "long", "unsigned", "signed", "float", "double", "true", "false"),
    *("half", "__half", "half2", "__half2", "nv_bfloat16", "__nv_bfloat16", "sizeof", "const", "size_t"),
    *(f"{sign}int{bits}_t" for sign in ("", "u") for bits in (8, 16, 32, 64)),
    *(f"{kind}{count}" for kind in ("float", "double", "int", "uint") for count in (2, 3, 4)),
}
_CONSTANT = re.compile(
    r"\b(?:constexpr|const)\s+(?:static\s+)?(?!char\s*\*)(?:(?:unsigned|signed|long|short)\s+)*[\w:]+\s+(?P<all>\w+\s*[={][^;]*);"
    r"|\busing\s+(?P<alias>\w+)\s*=\s*(?P<type>[^;]+);|\btypedef\s+(?P<old>[^;]+?)\s+(?P<new>\w+)\s*;"
)


def _replaced(text: str, values: dict[str, str]) -> str:
    return re.sub(_NAME, lambda name: values.get(name[0], name[0]), text)


def _functions(text: str, begin: int, end: int) -> Iterator[Item]:
    for item in items(text, begin, end):
        if item.scope is not None or item.is_class:
            yield from _functions(text, item.body[0] + 1, item.body[1] - 1)
        elif item.is_function and "__global__" not in item.head:
            yield item


def _constants(text: str) -> dict[str, str]:
    """The constants and types that a function names, with their values."""
    found = {}
    for match in _CONSTANT.finditer(text):
        if match["alias"] or match["new"]:
            found[match["alias"] or match["new"]] = (match["type"] or match["old"]).strip()
            continue
        for piece in split_at_commas(match["all"]):
            declared = re.fullmatch(r"(\w+)\s*(?:=\s*(.+)|\{(.*)\})", piece, re.S)
            if declared:
                found[declared[1]] = f"({(declared[2] or declared[3]).strip()})"
    return found


@dataclass(frozen=True)
class _Host:
    """A function of the host. body: its text. template: the names of its template's parameters."""

    name: str
    body: str
    template: tuple[str, ...]


def _host(text: str, item: Item) -> _Host:
    name = re.search(r"([~\w]+)\s*\(", re.sub(r"\b__attribute__\s*\(\(.*?\)\)", "", item.head))
    declared = re.match(r"\s*template\s*<([^(){};]*?)>\s*[\w_]", item.head)
    names = (
        re.search(r"(\w+)\s*(?:=.*)?$", piece) for piece in split_at_commas(declared[1] if declared else "")
    )
    return _Host(
        name[1] if name else "", text[slice(*item.body)], tuple(match[1] for match in names if match)
    )


def _asked(kernel: str, host: _Host, hosts: list[_Host], depth: int = 0) -> Iterator[str]:
    """The arguments of `kernel<...>` in a function, without its own constants and template parameters."""
    for match in re.finditer(rf"\b{kernel}\s*<(?!<)([^;{{}}]*?)>\s*(?=<<<|[(),;])", host.body):
        constants = _constants(host.body[: match.start()])
        arguments = match[1].replace("\\", " ")
        for _ in range(6):  # a constant may name another
            arguments = _replaced(arguments, constants)
        own = [name for name in host.template if re.search(rf"\b{name}\b", arguments)]
        if not own:
            yield arguments
        elif depth < 2:
            for caller in hosts:
                for given in _asked(host.name, caller, hosts, depth + 1) if caller != host else ():
                    yield _replaced(arguments, dict(zip(host.template, split_at_commas(given), strict=False)))


def asked_for(source: str, kept: str, kernels: Iterable[str]) -> dict[str, tuple[str, ...]]:
    """The template arguments that the host code of `source` asks for, by the kernel's name.

    kept: the part of the source that is compiled. An argument that names anything else becomes "".
    """
    text = without_directives(blanked(source))
    hosts = [_host(text, item) for item in _functions(text, 0, len(text))]
    kept = blanked(kept)
    parameters = set(re.findall(r"\b(?:typename|class)\s+(\w+)\s*[,>=]", kept))
    types = set(re.findall(r"\b(?:struct|class|union|enum|using)\s+(\w+)\s*[:={;]", kept))
    visible = (set(re.findall(r"\w+", kept)) - (parameters - types)) | _BUILT_IN
    found = {}
    for kernel in kernels:
        instances = []
        for host in hosts:
            for arguments in _asked(kernel, host, hosts):
                pieces = [
                    piece if set(re.findall(_NAME, piece)) <= visible else ""
                    for piece in split_at_commas(arguments)
                ]
                instances.append(", ".join(pieces))
        if instances:
            found[kernel] = tuple(dict.fromkeys(instances))
    return found
