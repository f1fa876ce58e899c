"""A card of this machine's GPU: `python -m cudasim card --measure`.

nvcc compiles the microbenchmarks beside this file to one program, which prints each figure from several
launches. Figures that they cannot measure come from the card of the same compute capability, and their source
tells that.
"""

from __future__ import annotations

import statistics
import subprocess
import tempfile
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path

import pandas as pd

from cudasim.building.compilers import MissingToolError
from cudasim.building.library import BuildError
from cudasim.building.toolchains import find_nvcc
from cudasim.predicting.cards import Card, card, cards, of_device, plain_name

SOURCES = Path(__file__).resolve().parent / "microbenchmarks"
_WHOLE = ("multiprocessors", "memory_bytes", "warps", "blocks", "threads", "registers", "shared_bytes")
_WHOLE = (*_WHOLE, "shared_per_block", "shared_reserved", "l2_bytes")
_SAID = (*_WHOLE, "dram_bytes_per_second")  # by the GPU's driver
_COPY, _L2 = "dram_bytes_per_second_of_a_copy", "l2_bytes_per_second"


def compiled(folder: Path, *flags: str) -> Path:
    """The program of the microbenchmarks, by nvcc. MissingToolError without it."""
    nvcc = find_nvcc()
    if nvcc is None:
        raise MissingToolError(
            "nvcc was not found ($CUDA_HOME, PATH, /usr/local/cuda), so nothing is measured"
        )
    program = folder / "card"
    command = [nvcc, "-std=c++17", "-O3", *flags, *map(str, sorted(SOURCES.glob("*.cu"))), "-o", str(program)]
    made = subprocess.run(command, capture_output=True, text=True)
    if made.returncode:
        raise BuildError(f"nvcc does not compile the microbenchmarks:\n{made.stderr.strip()}")
    return program


def printed() -> str:
    """The program's output on this machine's GPU. RuntimeError if there is none."""
    with tempfile.TemporaryDirectory() as folder:
        ran = subprocess.run([compiled(Path(folder), "-arch=native")], capture_output=True, text=True)
    if ran.returncode:
        raise RuntimeError(f"the microbenchmarks ended with an error: {ran.stderr.strip()}")
    return ran.stdout


def _like(capability: tuple[int, int]) -> Card:
    """A card of this compute capability, or of the nearest one before it."""
    there = [card(name) for name in cards()]  # by compute capability
    return ([of for of in there if of.capability <= capability] or there[:1])[-1]


def figures_of(text: str) -> tuple[dict, dict[str, str]]:
    """A card's figures, and the source of each. text: what the program printed."""
    said = dict(line.split(maxsplit=1) for line in text.splitlines())
    measured = {
        key: sorted(map(float, of.split()))
        for key, of in said.items()
        if key not in ("name", "capability", *_SAID)
    }
    major, minor = map(int, said["capability"].split("."))
    like = _like((major, minor))
    found = {field.name: getattr(like, field.name) for field in fields(Card) if field.name != "sources"}
    found = {key: dict(of) if isinstance(of, Mapping) else of for key, of in found.items()}
    sources = {key: f"as {like.name}'s: {of}" for key, of in like.sources.items()}
    found |= {"name": said["name"].removeprefix("NVIDIA "), "capability": [major, minor]}
    found |= {key: int(said[key]) for key in _WHOLE}
    found["dram_bytes_per_second"] = float(said["dram_bytes_per_second"])
    sources |= dict.fromkeys(("occupancy", *_SAID), "the GPU's driver says so")

    clock = statistics.median(measured["clock_hz"])
    measured["dram_efficiency"] = [of / found["dram_bytes_per_second"] for of in measured.pop(_COPY)]
    measured["l2_bytes_per_clock"] = [of / clock for of in measured.pop(_L2)]
    for key, values in measured.items():
        table, _, name = key.rpartition(".")
        value = float(f"{statistics.median(values):.4g}")
        (found[table] if table else found)[name] = value
        several = f"measured: median of {len(values)}, from {values[0]:.4g} to {values[-1]:.4g}"
        sources[key] = several
    return found, sources


def toml_of(figures: Mapping, sources: Mapping[str, str]) -> str:
    """A card's file."""

    def written(value) -> str:
        return f'"{value}"' if isinstance(value, str) else repr(value)

    plain = [f"{key} = {written(of)}" for key, of in figures.items() if not isinstance(of, Mapping)]
    tables = {key: of for key, of in figures.items() if isinstance(of, Mapping)} | {"sources": dict(sources)}
    lines = [f"# {figures['name']}. What each figure means: cudasim/predicting/cards.py.", *plain]
    for name, table in tables.items():
        lines += ["", f"[{name}]"]
        for key, of in table.items():
            quoted = f'"{key}"' if "." in key else key
            text = of.replace("\\", "\\\\").replace('"', '\\"') if isinstance(of, str) else of
            lines.append(f"{quoted} = {written(text)}")
    return "\n".join(lines) + "\n"


def measure_card(file: str | Path | None = None) -> Card:
    """Measures this machine's GPU, in about a minute, and writes its card.

    file: the card's file; by default the GPU's name and .toml, in the current folder. `predict(...,
    gpu=file)` takes it. The environment variable CUDASIM_CARDS may name a folder of cards. MissingToolError
    without nvcc, RuntimeError without a GPU.
    """
    figures, sources = figures_of(printed())
    path = Path(file) if file else Path(plain_name(figures["name"])).with_suffix(".toml")
    path.write_text(toml_of(figures, sources))
    return card(path)


def beside(measured: Card, other: Card) -> pd.DataFrame:
    """Each number of a measured card and of another one, which may have the same name, and their ratio."""
    rows = []
    for field in fields(Card):
        mine, theirs = getattr(measured, field.name), getattr(other, field.name)
        if field.name in ("name", "capability", "sources"):
            continue
        is_table = isinstance(mine, Mapping)
        for key in mine if is_table else [""]:
            first, second = (mine[key], theirs[key]) if is_table else (mine, theirs)
            name = f"{field.name}.{key}" if is_table else field.name
            source = measured.sources.get(name, measured.sources.get(field.name, ""))
            how = source.partition(":")[0] if ":" in source else source
            ratio = first / second if second else float("nan")
            rows.append({"figure": name, "measured": first, "card": second, "ratio": ratio, "source": how})
    return pd.DataFrame(rows)


def measured_card(file: str | None) -> str:
    """The output of `python -m cudasim card --measure`: the written card beside cudasim's own."""
    measured = measure_card(file)
    other = of_device(measured.name)
    if other is None or other == measured:  # the card that was written may be among those that are looked up
        return f"{measured!r}: there is no other card of this GPU to compare with"
    with pd.option_context("display.float_format", "{:.4g}".format):
        return beside(measured, other).to_string(index=False)
