"""Times of a call's launches of kernels in files, for a library that uses cudasim."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from cudasim.counting.counted import Launch, recording
from cudasim.predicting import machine_code
from cudasim.predicting.cards import Card, card
from cudasim.predicting.machine_code import MachineCode
from cudasim.predicting.prediction import Prediction, l1_share, predicted
from cudasim.predicting.sampling import Sample, chosen_blocks, expect_seconds, most_blocks, only

_HEADER = re.compile(r'#\s*include\s+"([^"]+)"')


def _run(call: Callable[[], object], l1_bytes: int, *blocks: Sequence[int]) -> list[Launch]:
    with only(*blocks), recording(l1_bytes=l1_bytes) as launches:
        call()
    return launches


def _by_name(launch: Launch) -> Launch:
    """Places by the files' names alone, as in the machine code."""

    def named(one):
        return replace(one, place=replace(one.place, file=Path(one.place.file).name))

    instructions, blocks = map(named, launch.instructions), map(named, launch.basic_blocks)
    return replace(launch, instructions=tuple(instructions), basic_blocks=tuple(blocks))


def _texts(file: Path, folders: Sequence[Path], found: dict[Path, str]) -> dict[Path, str]:
    """A source and the headers that it includes in quotes."""
    if file not in found:
        found[file] = file.read_text()
        for name in _HEADER.findall(found[file]):
            where = [folder / name for folder in (file.parent, *folders) if (folder / name).is_file()]
            if where:
                _texts(where[0], folders, found)
    return found


def _code(launch: Launch, folders: Sequence[Path], architecture: str) -> MachineCode:
    file = Path(launch.file)
    texts = _texts(file, folders, {})
    flags = [f"-I{folder}" for folder in (file.parent, *folders)]
    folder = machine_code.compiled(texts[file], file.name, architecture, (), flags, list(texts.values()))
    every = machine_code.codes_in(folder, architecture)
    for name, code in every.items():
        if re.match(rf"(?:void )?{re.escape(launch.kernel)}\b", machine_code.demangled(name)):
            return code
    raise ValueError(f"{file.name}: expected the kernel {launch.kernel}, got {', '.join(every)}")


def predict_call(
    call: Callable[[], object],
    *,
    gpu="H200",
    wanted: Callable[[int, Launch], bool] = lambda number, launch: True,
    seconds: float = 4.0,
) -> dict[int, Prediction]:
    """Predicts the launches of kernels in files that `call()` makes on the CPU, like `predict()` for one
    launch: by their number in the call.

    wanted: selects launches by their number and their first block's counts. The call is made several times,
    and each time only some blocks of its launches run. So its result has no meaning, and it must make the
    same launches whatever its kernels compute; ValueError if it does not.
    """
    expect_seconds(seconds)
    cards: list[Card] = [card(one) for one in (gpu if isinstance(gpu, (list, tuple)) else [gpu])]
    folders = machine_code.HEADER_FOLDERS
    _run(call, 1, [0])  # what is done once, such as preparing a weight, is done then
    firsts = _run(call, 1, [0])
    has_nvcc = machine_code.is_there()
    found = {}
    for number, first in enumerate(firsts):
        if not wanted(number, first):
            continue
        began = time.perf_counter()
        cluster = len(first.blocks)
        codes = None
        if has_nvcc:
            names = {machine_code.architecture_for(of.capability) for of in cards}
            codes = {name: _code(first, folders, name) for name in names}
        code = codes[machine_code.architecture_for(cards[0].capability)] if codes else None
        x, y, z = first.block
        l1_bytes = l1_share(cards[0], code, x * y * z, first.dynamic_shared_bytes)
        blocks = chosen_blocks(first.grid, max(cluster, most_blocks(first, cluster, seconds)), cluster)
        # The others run one cluster.
        launches = _run(call, l1_bytes, *[[0]] * number, blocks, [0])
        if [of.kernel for of in launches] != [of.kernel for of in firsts]:
            raise ValueError("call: expected the same launches each time, got others")
        took = time.perf_counter() - began
        own = _by_name(launches[number])
        sample = Sample(own.kernel, own.grid, own.block, own.dynamic_shared_bytes, (own,), own.memory, took)
        texts = {path.name: text for path, text in _texts(Path(own.file), folders, {}).items()}
        found[number] = predicted(own.kernel, sample, codes, cards, texts, took)
    return found
