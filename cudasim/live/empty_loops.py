"""A kernel's loops without an end and without a body, compiled so that a checked launch can stop them."""

from __future__ import annotations

import re
from pathlib import Path

from cudasim.live.padding import ASSEMBLY

# A loop without an end and without a body: one instruction that jumps to itself. clang writes comments too.
_NO_MORE = r"[ \t]*(?:(?:#|//).*)?\n"
EMPTY_LOOP = re.compile(
    rf"^(?P<label>\.\w+):{_NO_MORE}"
    rf"(?P<between>(?:[ \t]*\.(?:loc|p2align)\b.*\n|\.\w+:{_NO_MORE}|{_NO_MORE})*)"
    r"[ \t]*(?P<jump>jmp|b)[ \t]+(?P=label)[ \t]*$",
    re.M,
)


def let_empty_loops_stop(assembly: Path) -> None:
    """Adds the call of the counted simulator (sim/counted/basic_blocks.c) to loops without a body, where the
    compiler adds none."""
    # The loop never ends, so it needs no register; the stack pointer may not be aligned for a call.
    calls = {
        "jmp": "andq\t$-16, %rsp\n\tcall\t__sanitizer_cov_trace_pc@PLT",
        "b": "bl\t__sanitizer_cov_trace_pc",
    }

    def with_call(match: re.Match) -> str:
        label, jump = match["label"], match["jump"]
        return f"{label}:\n{match['between']}\t{calls[jump]}\n\t{jump}\t{label}"

    text = assembly.read_text(ASSEMBLY)
    if EMPTY_LOOP.search(text):
        assembly.write_text(EMPTY_LOOP.sub(with_call, text), ASSEMBLY)
