"""Reads of unwritten shared memory whose value is not used, as in `v = s[i + 1]; y = i < n ? v : 0;`.

The checker sees the read, but not whether its value is used. So a launch with such a read runs twice more,
with two different bytes in all unwritten shared memory. If its tensors are then the same, bit for bit, the
value was not used, and the read is a KernelWarning and no fault.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable

from cudasim.arrays import Array
from cudasim.building.library import ffi
from cudasim.counting.faults import KernelFault, KernelWarning, callers_level

_FILLERS = (0x00, 0xFF)  # as floats 0 and NaN, as integers 0 and -1
_NO_FILLER = -1


def _memory(tensor: Array):
    return ffi().buffer(ffi().cast("char *", tensor.address), tensor.nbytes)


def launch_unless_unused(library, launch: Callable[[], None], tensors: dict[str, Array]):
    """Calls `launch`, which runs a kernel under the checker on these tensors.

    library: the simulator that counts and checks. Raises the KernelFault of `launch`, except for a read of
    unwritten shared memory on which no tensor depends.
    """
    __tracebackhide__ = True
    before = {name: _memory(tensor)[:] for name, tensor in tensors.items()}
    try:
        launch()
        return
    except KernelFault as error:
        if error.kind != "uninitialised":
            raise
        found = error
    if not _is_unused(library, launch, tensors, before):
        raise found
    message = f"{found}; the launch's results do not depend on it"
    warnings.warn(message, KernelWarning, stacklevel=callers_level())


def _is_unused(library, launch, tensors: dict[str, Array], before: dict[str, bytes]) -> bool:
    results = []
    for filler in _FILLERS:
        for name, tensor in tensors.items():
            _memory(tensor)[:] = before[name]
        library.counted_fill_unwritten(filler)
        try:
            launch()
        except KernelFault:
            return False
        finally:
            library.counted_fill_unwritten(_NO_FILLER)
        results.append([_memory(tensor)[:] for tensor in tensors.values()])
    return results[0] == results[1]
