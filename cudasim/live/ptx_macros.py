"""Macros whose arguments make inline PTX, written out where they are called:

    #define SHUFFLE(way, r, x) asm("shfl.sync." #way ".b32 %0, %1, 1, 31, -1;" : "=r"(r) : "r"(x))

ptx.py translates the text of an asm statement, which such a macro has only when it is called.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from cudasim.live.signature import split_at_commas
from cudasim.live.text import blanked, closing, without_directives

_DEFINE = re.compile(r"^[ \t]*#[ \t]*define[ \t]+(\w+)\(([^()\n]*)\)((?:\\\n|[^\n])*)", re.M)
_ASM = re.compile(r"\b(?:asm|__asm__|__asm)\s*(?:(?:volatile|__volatile__)\s*)?\(")
_TOKEN = re.compile(r'"(?:\\.|[^"\\])*"|\s*##\s*|#\s*\w+|\w+|\s+|.', re.S)


@dataclass(frozen=True)
class _Macro:
    parameters: tuple[str, ...]
    body: str

    def makes_ptx(self) -> bool:
        """Whether the text of an asm statement in it is not all literals."""
        code = blanked(self.body)
        return any(
            re.search(r"\w", re.match(r"[^:]*", code[found.end() : closing(code, found.end() - 1)])[0])
            for found in _ASM.finditer(code)
        )

    def called(self, arguments: list[str]) -> str:
        values = dict(zip(self.parameters, arguments, strict=False))
        if self.parameters[-1:] == ("...",):
            values["__VA_ARGS__"] = ", ".join(arguments[len(self.parameters) - 1 :])
        pieces = []
        for token in _TOKEN.findall(self.body):
            if token.strip() == "##":
                continue
            if token[0] == "#" and (name := token[1:].strip()) in values:
                pieces.append('"' + values[name].replace("\\", "\\\\").replace('"', '\\"') + '"')
            else:
                pieces.append(values.get(token, token))
        return "".join(pieces)


def macros_of(texts: Iterable[str]) -> dict[str, _Macro]:
    """Those that make PTX of their arguments, and those that call these, by name."""
    defined = [found for text in texts for found in _DEFINE.findall(text)]
    times = Counter(name for name, *_ in defined)
    known = {}
    for name, parameters, body in defined:
        if times[name] == 1:  # another one may be meant by an #if
            body = re.sub(r"\\\n", " ", body).strip()
            known[name] = _Macro(tuple(filter(None, map(str.strip, parameters.split(",")))), body)
    found = {name for name, macro in known.items() if macro.makes_ptx()}
    while found and (more := {n for n in known.keys() - found if _calls(found).search(known[n].body)}):
        found |= more
    return {name: known[name] for name in found}


def _calls(names: Iterable[str]) -> re.Pattern:
    return re.compile(rf"\b({'|'.join(names)})\s*\(")


def written_out(text: str, macros: dict[str, _Macro]) -> str:
    """The text with the macros' bodies in place of their calls; no line moves."""
    if not macros:
        return text
    code = without_directives(blanked(text))
    for found in reversed(list(_calls(macros).finditer(code))):  # an argument's calls before its own
        begin, end = found.start(), closing(code, found.end() - 1) + 1
        arguments = split_at_commas(text[found.end() : end - 1])
        plain = [" ".join(one.replace("\\\n", " ").split()) for one in arguments]
        body = macros[found[1]].called(plain)
        body = written_out(body, {name: of for name, of in macros.items() if name != found[1]})
        body += "\n" * text.count("\n", begin, end)
        text = text[:begin] + body + text[end:]
        code = code[:begin] + blanked(body) + code[end:]
    return text
