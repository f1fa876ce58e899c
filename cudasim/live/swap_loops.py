"""The first read of a compare-and-swap loop, written so that it does not race with atomics.

    unsigned old = *address, assumed;
    do {
        assumed = old;
        old = atomicCAS(address, assumed, f(assumed));
    } while (assumed != old);

is how the CUDA programming guide builds an atomic operation from atomicCAS() ("Atomic Functions"). Others
swap once in front of the loop, or in its condition: do { old = *p; } while (atomicCAS(p, old, f) != old).
The plain read races with other threads' swaps. But its value is only a guess, which the swap compares with
memory, and a word is read as a whole. So only this read is written as a volatile one.
"""

from __future__ import annotations

import re

from cudasim.live.signature import split_at_commas
from cudasim.live.text import blanked, closing

_READ = re.compile(
    r"\b(?P<old>\w+)\s*=\s*(?:__\w+_as_\w+\s*\(\s*)?"
    r"(?P<place>\*\s*(?P<pointer>(?:\(\s*[\w\s]*\*\s*\)\s*)?\w+)|\w+\s*\[[^\[\];]*\])"
    r"\s*\)?\s*(?:,[\w\s,]*)?;"
)
# Only declarations may precede the loop, and no branch may precede the swap.
_SWAP = r"\batomicCAS(?:_block|_system)?\s*(?=\()"
_LOOPS = (
    re.compile(rf"\s*(?:[\w\s,*]+;\s*)*do\s*\{{(?P<body>[^{{}}]*?){_SWAP}"),
    re.compile(rf"(?P<body>[^{{}}]*?)\}}\s*while\s*\(\s*(?:\(?\s*\w+\s*(?:=|!=)\s*)?{_SWAP}"),
    re.compile(rf"\s*(?:[\w\s,*]+;\s*)*(?P<body>[\w\s]*=\s*){_SWAP}"),  # and the loop comes after it
)
_LOOP_BEHIND = re.compile(r"\s*;\s*while\s*\(")
_BRANCHES = re.compile(r"\b(?:if|return|break|continue|goto|asm)\b|\?")


def _is_guess(text: str, read: re.Match) -> bool:
    loop = next(filter(None, (kind.match(text, read.end()) for kind in _LOOPS)), None)
    if loop is None or _BRANCHES.search(loop["body"]):
        return False
    end = closing(text, loop.end())
    if loop.re is _LOOPS[-1] and not _LOOP_BEHIND.match(text, end + 1):
        return False
    arguments = split_at_commas(text[loop.end() + 1 : end])
    copies = re.findall(rf"\b(\w+)\s*=\s*{read['old']}\s*[;,]", loop["body"])
    names = "|".join((read["old"], *copies))
    where = re.findall(r"\w+", read["place"])
    return (
        len(arguments) == 3
        and re.findall(r"\w+", arguments[0])[-1:] == where[-1:]
        and re.search(rf"\b(?:{names})\b", arguments[1]) is not None
    )


def with_volatile_first_reads(source: str) -> str:
    """The source with such reads rewritten; lines keep their numbers."""
    if "atomicCAS" not in source:
        return source
    text = blanked(source)
    for read in reversed(list(_READ.finditer(text))):
        if _is_guess(text, read):
            begin, end = read.span("place")
            place = source[begin:end]
            pointer = read["pointer"]
            guess = f"*sim_guess({pointer})" if pointer else f"*sim_guess(&{place})"
            source = source[:begin] + guess + source[end:]
    return source
