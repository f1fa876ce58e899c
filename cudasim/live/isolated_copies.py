"""Copies of tensors with no memory near them, on which launches run (cudasim/sim/isolation.c). A counted
launch runs on the tensors themselves, because their addresses decide what its caches hold."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from cudasim.arrays import Array
from cudasim.building.library import ffi


def _extent(tensor: Array) -> tuple[int, int]:
    return tensor.address, tensor.address + tensor.nbytes


def _numbers(value) -> Iterable[int]:
    if isinstance(value, Mapping):
        value = tuple(value.values())
    if isinstance(value, (list, tuple)):
        for item in value:
            yield from _numbers(item)
    elif isinstance(value, int):
        yield value


def copied(
    library, tensors: Mapping[str, Array], staying: Iterable[Array], arguments: Sequence = ()
) -> list[tuple[int, int, int]]:
    """Asks for copies of these tensors in the next launch of this thread. Overlapping tensors are copied as
    one. If a number among the arguments, or in a tensor's memory, is an address in a tensor, nothing is
    copied: a kernel that uses it as a pointer would miss the copy.

    library: what `Library.load()` returned. staying: memory that is not copied. Returns (begin, end, distance
    to the copy) of the copied memory.
    """
    stay = [_extent(tensor) for tensor in staying]
    groups = []  # begin, end, name, bytes of an element
    for name, tensor in sorted(tensors.items(), key=lambda item: item[1].address):
        begin, end = _extent(tensor)
        if end == begin or any(begin < other_end and other < end for other, other_end in stay):
            continue
        if groups and begin < groups[-1][1]:
            groups[-1][1] = max(end, groups[-1][1])
        else:
            groups.append([begin, end, name, tensor.itemsize])
    moves = []
    library.sim_isolate_nothing()
    for begin, end, name, size in groups:
        copy = library.sim_isolate(ffi().cast("void *", begin), end - begin, size, name.encode())
        if copy != ffi().NULL:
            moves.append((begin, end, int(ffi().cast("uintptr_t", copy)) - begin))
    is_address = any(begin <= number < end for number in _numbers(arguments) for begin, end, _ in moves)
    if is_address or library.sim_isolated_have_addresses():
        library.sim_isolate_nothing()
        return []
    return moves
