"""Copies of tensors with nothing near them, on which launches run (cudasim/sim/isolation.c). A launch that is
counted runs on the tensors themselves, for where they are decides what its caches hold."""

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
    """Asks for copies of these tensors in the next launch of this thread. Tensors that overlap are copied as
    one. Nothing is copied where a number among the launch's arguments, or in the memory of a tensor, is an
    address in a tensor: a kernel that makes a pointer of it would miss the copy.

    library: what `Library.load()` returned. staying: what the launch is to use itself.
    Returns (begin, end, how far away the copy is) of the memory that is copied.
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
