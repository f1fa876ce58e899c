"""Padding around a kernel's static shared memory.

On the simulator a __shared__ array is a thread-local variable of the kernel's library, and the C library
takes the memory of such variables from malloc(), as torch does for its tensors. The checker knows addresses
only, so an access a little beyond a tensor would pass for an access to a neighbouring array. With the padding
no tensor is near, and an access to the padding is out of bounds.
"""

from __future__ import annotations

import re
from pathlib import Path

# The encoding of a compiler's assembly: clang writes the bytes of a string as they are.
ASSEMBLY = "latin-1"

_BYTES = 64 << 10  # on each side

# The linker puts thread-local sections in the order of the object file, those with values first.
_WITH_VALUES, _ZEROED = '.tdata,"awT",@progbits', '.tbss,"awT",@nobits'
_BEFORE = f"""\
	.section	{{section}}
	.zero	{_BYTES}
	.text
"""
# At the end is an ELF note by which cudasim/sim/hopper/statics.c finds the variables: the lengths of its name
# and content, its type, its name, and as content the bytes of padding on each side.
_AFTER = f"""
	.section	.tbss.after,"awT",@nobits
	.zero	{_BYTES}
	.section	.note.cudasim,"a",@note
	.balign	4
	.long	8, 4, 1
	.asciz	"cudasim"
	.long	{_BYTES}
"""

# This text is also part of the cache key of a compiled library.
PADDING = (_WITH_VALUES, _ZEROED, _BEFORE, _AFTER)


def pad_shared_variables(assembly: Path) -> None:
    """Adds the padding if the compiler's output has thread-local variables."""
    text = assembly.read_text(ASSEMBLY)
    sections = re.findall(r"^\s*\.section\s+\.(tdata|tbss)\b", text, re.M)
    if sections:
        before = _BEFORE.format(section=_WITH_VALUES if "tdata" in sections else _ZEROED)
        assembly.write_text(before + text + _AFTER, ASSEMBLY)
