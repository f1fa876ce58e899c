"""Finds what no kernel of a source reaches: types and variables of the host, such as a window handle.

It follows the names in kernels and device functions to their declarations. All other code is removed, so it
may use libraries that only the host has. Names are compared without their scope, so that it may keep too much
but never too little.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from cudasim.live.text import blanked, directives_of, without_directives

_WORD = re.compile(r"[A-Za-z_]\w*")
_MACRO = re.compile(r"^[ \t]*#[ \t]*define[ \t]+(\w+)((?:\\\n|[^\n])*)", re.M)
_HOST_NAMESPACE = (
    r"using\s+namespace\s+(?:std\s*::\s*)?(?:chrono|chrono_literals|literals|filesystem|DirectX)\b"
)
_SPECIFIERS = set(_WORD.findall("static inline extern thread_local const volatile struct class union enum"))
_OF_A_TYPE = set(_WORD.findall("void bool char short int long float double signed unsigned auto"))


def _declared(item, text: str) -> set[str] | None:
    """The names that an item declares; None if the text alone does not show them, and then the item is
    kept."""
    head = " ".join(item.without_alignment(item.head).split())
    if re.match(_HOST_NAMESPACE, head):
        return set()
    if re.match(
        r"(?:template\b|friend\b|static_assert\b|namespace\b|using\s+namespace\b|extern\s+template\b)", head
    ):
        return None
    alias = re.match(r"using\s+(\w+)\s*=", head)
    if alias:
        return {alias[1]}
    if item.is_class:
        named = re.match(
            r"(?:typedef\s+|static\s+|const\s+)*(?:struct|class|union|enum(?:\s+class)?)\s+(\w+)", head
        )
        after = text[item.body[1] : item.end]
        inside = set(_WORD.findall(text[slice(*item.body)])) if " enum" in f" {head}" else set()
        return inside | ({named[1]} if named else set()) | set(_WORD.findall(after))
    if head.startswith("typedef "):
        # From (* name)(…) and (* name)[…], with or without a macro before the name: no parameter, no size.
        pointer = re.match(r"typedef\b[^()]*\(([^()]*\w)\s*\)\s*[(\[]", head)
        return set(_WORD.findall(pointer[1] if pointer else head)[-1:])
    if item.body is not None and "(" in head:
        return None
    head = re.sub(r"^extern\s+", "", head)
    declarators, *initialisers = re.split(r"(?<![=<>!])=(?!=)", head)
    if re.match(r"(?:static\s+|inline\s+)*(?:const|constexpr)\b", head):
        called = set(re.findall(r"(\w+)\s*\(", " ".join(initialisers))) - _OF_A_TYPE - {"sizeof", "alignof"}
        if not called or "constexpr" in head:
            return None  # a template's argument, perhaps
    if "(" in declarators:
        return None
    words = _WORD.findall(re.sub(r"<[^<>]*>|\[[^\]]*\]", " ", declarators))
    of_type = sum(word in _OF_A_TYPE for word in words)
    names = [word for word in words if word not in _SPECIFIERS | _OF_A_TYPE]
    # The first word is a type's name, unless the language's own words name the type.
    return set(names if of_type else names[1:]) or None


def _entries(text: str, begin: int, end: int, items: Callable) -> Iterator:
    for item in items(text, begin, end):
        if item.scope is not None:
            yield from _entries(text, item.body[0] + 1, item.body[1] - 1, items)
        else:
            yield item


def without_unreached(source: str, device_words: str, items: Callable) -> str:
    """The source with spaces instead of what no kernel reaches; no line moves.

    device_words: a pattern of the words that mark a function or a variable for the device. items: a function
    that splits a text into its items.
    """
    text = blanked(source)
    macros = {match[1]: set(_WORD.findall(match[2])) for match in _MACRO.finditer(text)}
    text = without_directives(text)
    reached: set[str] = set()
    waiting = []  # items that nobody has reached, with the names that they declare
    takes_any_type = False
    defined = set()
    for item in _entries(text, 0, len(text), items):
        head = item.head
        if "__global__" in head and re.match(r"\s*template\b[^;{(]*\b(?:typename|class)\b", head):
            takes_any_type = True  # types that only the call names
        instance = re.match(r"\s*template\b(?!\s*<)[^;(]*?(\w+)\s*(?:<[^;]*>\s*)?\(", head)
        if instance and item.body is None and instance[1] not in defined:
            waiting.append((item, set()))  # of a function of the host's
            continue
        defined |= set(re.findall(r"(\w+)\s*\(", head)) if item.is_function else set()
        names = None if re.search(device_words, text[item.begin : item.end]) else _declared(item, text)
        if names is None:
            reached |= set(_WORD.findall(text[item.begin : item.end]))
        else:
            waiting.append((item, names))
    if takes_any_type:
        is_type = re.compile(r"\s*(?:typedef|using|struct|class|union|enum)\b")
        for item, _ in waiting:
            whole = text[item.begin : item.end]
            members = re.findall(r"\bstruct\s+(\w+)\s+\w+\s*;", whole)
            is_whole = all(re.search(rf"\bstruct\s+{name}\s*[{{:]", text) for name in members)
            if is_type.match(item.head) and is_whole:
                reached |= set(_WORD.findall(whole))
    while True:
        for name in list(reached & macros.keys()):
            reached |= macros.pop(name)
        now = [item for item, names in waiting if names & reached]
        if not now and not reached & macros.keys():
            break
        waiting = [(item, names) for item, names in waiting if not names & reached]
        for item in now:
            reached |= set(_WORD.findall(text[item.begin : item.end]))
    for item, _ in waiting:
        source = source[: item.begin] + directives_of(source[item.begin : item.end]) + source[item.end :]
    return source
