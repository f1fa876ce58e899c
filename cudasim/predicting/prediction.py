"""`cudasim.predict()`: how long a kernel's launch takes on a GPU that need not be there, and why."""

from __future__ import annotations

import importlib
import math
import time
from collections import defaultdict
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property

import pandas as pd

from cudasim.live.compiling import Instance
from cudasim.live.kernels import BoundLaunch
from cudasim.predicting import machine_code, without_nvcc
from cudasim.predicting.advice import Advices, advice_of
from cudasim.predicting.caches import Sharing, sharing_of
from cudasim.predicting.cards import Card, card
from cudasim.predicting.flow import Flow, flow_of, line_of
from cudasim.predicting.machine_code import MachineCode
from cudasim.predicting.model import EFFICIENCIES, Terms, predict_terms
from cudasim.predicting.occupancy import Occupancy, occupancy
from cudasim.predicting.pipes import kind_of
from cudasim.predicting.sampling import Sample, compile_for_samples, copied, expect_seconds, take_sample
from cudasim.predicting.statements import Statements

NOT_MODELLED = (
    "not modelled: DRAM's pages, the halves of L2, instruction caches, a clock that falls under load, TMA, "
    "clusters, blocks that wait for each other"
)
_UNITS = {"compute": "Compute (SM)", "L1": "L1/TEX", "L2": "L2", "DRAM": "DRAM"}  # as ncu's page calls them


@dataclass(frozen=True)
class OnCard:
    """The prediction for one GPU. code, flow: None where there is no nvcc, and the lines were estimated."""

    card: Card
    code: MachineCode
    flow: Flow
    held: Occupancy
    terms: Terms | None  # None: the card cannot hold a block

    @property
    def seconds(self) -> float:
        return self.terms.seconds if self.terms else math.nan

    @property
    def error(self) -> float:
        return EFFICIENCIES.error if self.code.architecture else EFFICIENCIES.error_without_nvcc

    @property
    def low(self) -> float:
        return self.seconds / self.error

    @property
    def high(self) -> float:
        return self.seconds * self.error

    @property
    def limiter(self) -> str:
        """The unit of ncu's speed-of-light breakdown that comes closest to its peak: compute, L1, L2, DRAM;
        "cannot run" where a block needs more than the card has."""
        return max(self.terms.units, key=self.terms.units.get) if self.terms else "cannot run"


def _us(seconds: float) -> str:
    return f"{seconds * 1e6:,.1f} µs" if seconds < 1e-3 else f"{seconds * 1e3:,.2f} ms"


class Prediction:
    """What `predict()` returns: of the first GPU that was named `seconds`, with `low` and `high` for two
    launches of three, `limiter` and `occupancy`; `table` has a row for each GPU, `lines` one for each line.
    """

    def __init__(self, kernel: str, sample: Sample, on: Sequence[OnCard], texts: dict[str, str], took: float):
        self.kernel, self.sample, self.on, self.texts, self.took = kernel, sample, tuple(on), texts, took

    @property
    def seconds(self) -> float:
        return self.on[0].seconds

    @property
    def low(self) -> float:
        return self.on[0].low

    @property
    def high(self) -> float:
        return self.on[0].high

    @property
    def limiter(self) -> str:
        return self.on[0].limiter

    @property
    def occupancy(self) -> Occupancy:
        return self.on[0].held

    @property
    def flops(self) -> float:
        """Operations of floating point, without those of tensor cores."""
        return flops_of(self.on[0], self.sample)

    @cached_property
    def table(self) -> pd.DataFrame:
        """A row for each GPU: times in microseconds, units in percent of their peak."""
        return pd.DataFrame(
            {
                "gpu": one.card.name,
                "us": one.seconds * 1e6,
                "low": one.low * 1e6,
                "high": one.high * 1e6,
                "limiter": one.limiter,
                **{f"{name} %": 100 * one.terms.units[name] if one.terms else math.nan for name in _UNITS},
                "registers": one.code.registers,
                "warps %": 100 * one.held.fraction,
                "limited by": ", ".join(one.held.limiter),
            }
            for one in self.on
        )

    @cached_property
    def lines(self) -> pd.DataFrame:
        """By line of the source: warp instructions of the launch, the part of the clocks of a warp alone,
        what the line asks of memory, and its text."""
        one, scale, files = self.on[0], self.sample.scale, Statements(self.texts)
        found: dict[tuple[str, int], dict[str, float]] = defaultdict(lambda: defaultdict(float))
        clocks = one.terms.clocks_of_blocks if one.terms else None
        for block in one.code.blocks:
            runs = float(one.flow.runs[block.index])
            for instruction in block.instructions if runs > 0 else ():
                where = line_of(instruction, files)
                if where is None:
                    continue
                found[where]["instructions"] += runs * scale
                if clocks is not None:
                    found[where]["clocks"] += runs * clocks[block.index] / len(block.instructions)
        for instruction in self.sample.instructions:
            where = instruction.place.file, instruction.place.line
            if where[0] in self.texts:
                found[where]["sectors"] += instruction.sectors * scale
                found[where]["missed L1"] += instruction.missed * scale
                found[where]["wavefronts"] += instruction.wavefronts * scale
        rows = []
        for (file, line), of in sorted(found.items()):
            text = self.texts[file].splitlines()
            source = text[line - 1].strip() if 0 < line <= len(text) else ""
            rows.append({"file": file, "line": line, **of, "source": source})
        columns = ("file", "line", "instructions", "clocks", "sectors", "missed L1", "wavefronts", "source")
        frame = pd.DataFrame(rows, columns=columns).fillna({name: 0.0 for name in columns[2:-1]})
        total = frame["clocks"].sum()
        frame["clocks"] = frame["clocks"] / total if total else 0.0
        return frame

    @property
    def advice(self) -> Advices:
        """What costs most on the first GPU, at which line, and what would help, in words."""
        return advice_of(self)

    @property
    def why(self) -> str:
        """The terms of the model with their numbers, and the lines that cost most."""
        one = self.on[0]
        if one.terms is None:
            return f"{self._head()}\na block needs more than a multiprocessor has: {one.held.limits}"
        terms, traffic = one.terms, one.terms.traffic
        code = (
            f"{one.code.registers} registers a thread, {one.code.spilled_bytes} bytes spilled"
            if one.code.architecture
            else "no nvcc: registers are taken to be 32, instructions are estimated from the lines"
        )
        parts = sorted(terms.busy.items(), key=lambda item: -item[1])[:5]
        ran = len(self.sample.blocks)
        lines = self.lines.nlargest(6, "clocks").sort_values("line")
        return "\n".join(
            (
                self._head(),
                f"  {code}; a multiprocessor holds {one.held.blocks} blocks, {one.held.fraction:.0%} of its "
                f"warps (limited by {', '.join(one.held.limiter)}); {terms.rounds:.2f} rounds of blocks",
                f"  counted in {ran:,} of {self.sample.total:,} blocks: {terms.instructions:,.0f} warp "
                "instructions",
                f"  one warp alone {_us(terms.alone)}: {terms.clocks_alone:,.0f} clocks a round",
                "  if only this took time: " + " · ".join(f"{name} {_us(of)}" for name, of in parts),
                f"  L2 {_us(terms.l2)}: {traffic.l2_read / 1e6:,.1f} MB read, "
                f"{traffic.l2_written / 1e6:,.1f} MB written",
                f"  DRAM {_us(terms.dram)}: {traffic.dram_read / 1e6:,.1f} MB read, "
                f"{traffic.dram_written / 1e6:,.1f} MB written, nothing in L2 before"
                + ("; one block does not show what blocks share" if ran == 1 < self.sample.total else ""),
                f"  the launch itself {_us(terms.launch)}"
                + (f"; all blocks start in {_us(terms.starts)}" if terms.starts > terms.seconds / 2 else ""),
                "  a warp's clocks by line:",
                *(f"    {row.clocks:5.0%}  {row.line:>4}  {row.source[:80]}" for row in lines.itertuples()),
                f"  {NOT_MODELLED}",
            )
        )

    def _head(self) -> str:
        one = self.on[0]
        where = f"{self.kernel}, grid {self.sample.grid}, block {self.sample.block}, on {one.card.name}"
        if one.terms is None:
            return f"{where}: cannot run"
        times = f"{_us(one.seconds)} ({_us(one.low)} to {_us(one.high)})"
        return f"{where}: {times}, limited by {_UNITS[one.limiter]}"

    def __repr__(self) -> str:
        table = self.table.round(1).to_string(index=False) if len(self.on) > 1 else ""
        units = self.on[0].terms.units if self.on[0].terms else {}
        shown = " · ".join(f"{_UNITS[name]} {part:.0%}" for name, part in units.items())
        held = self.occupancy
        warps = f"{held.fraction:.0%} of the warps, limited by {', '.join(held.limiter)}"
        return "\n".join(filter(None, (self._head(), f"  {shown}; {warps}", table)))

    def _repr_html_(self) -> str:
        import html

        return f"<pre>{html.escape(self._head())}</pre>{self.table.round(1).to_html(index=False)}"

    def plot(self):
        """A figure of three pictures: the roofline, where the time goes, and the GPUs side by side."""
        from cudasim.predicting.figures import prediction_figure

        return prediction_figure(self)


def flops_of(one: OnCard, sample: Sample) -> float:
    total = 0.0
    for instruction, runs in one.flow.executed(one.code):
        kind = kind_of(instruction)
        if kind in ("fp32", "fp64", "fp16"):
            both = 2 if "FMA" in instruction.name else 1
            total += runs * both * 32 * (2 if kind == "fp16" else 1)
    return total * sample.scale


# ------------------------------------------------------------------------------------------------------------
# Predicting


def _codes(kernel, instance: Instance, cards: Sequence[Card]) -> dict[str, MachineCode] | None:
    """The machine code by architecture; None without nvcc or nvdisasm."""
    if not machine_code.is_there():
        return None
    names = {machine_code.architecture_for(of.capability) for of in cards}
    with ThreadPoolExecutor(2) as pool:
        made = {name: pool.submit(machine_code.machine_code, kernel, instance, name) for name in names}
        return {name: future.result() for name, future in made.items()}


def expect_launch(bound) -> None:
    if not isinstance(bound, BoundLaunch):
        got = type(bound).__name__
        raise TypeError(
            f"launch: expected kernel[grid, block], as in predict(kernel[grid, block], x), got {got}"
        )


def predict(
    launch: BoundLaunch,
    *arguments,
    gpu="H200",
    template=None,
    seconds: float = 4.0,
) -> Prediction:
    """Predicts how long `launch(*arguments)` takes on one or several GPUs, which need not be there.

    launch: kernel[grid, block] or kernel[grid, block, shared_bytes]. arguments: as the launch takes them;
    their memory is read, and stays as it is. gpu: a name of `cudasim.cards()`, a card or a card's file, or a
    list of them. template: as for a launch. seconds: that the simulator may take for blocks of the launch,
    about; all blocks are run where that is enough.

    The time is the device's, from a state in which nothing of the arguments is in L2, with the GPU's clock as
    its card has it. With nvcc and nvdisasm (pip install cudasim[nvcc]) the kernel is compiled for each GPU;
    without them its instructions are estimated, and the range is wider. ValueError for an unknown GPU;
    BuildError where nvcc refuses the kernel; KernelFault for an access out of bounds.
    """
    expect_launch(launch)
    expect_seconds(seconds)
    began = time.perf_counter()
    cards = [card(one) for one in (gpu if isinstance(gpu, (list, tuple)) else [gpu])]
    if not cards:
        raise ValueError("gpu: expected at least one GPU, got none")
    kernel, own = launch.kernel, copied(list(arguments))
    instance = kernel._instance(own, template)
    with ThreadPoolExecutor(2) as pool:  # nvcc works beside the simulator's compiler
        pool.submit(importlib.import_module, "scipy.optimize")  # takes half a second, which is free here
        made = pool.submit(_codes, kernel, instance, cards)
        try:
            compile_for_samples(launch, own, template)
        finally:
            codes = made.result()  # where both refuse the kernel, the message is nvcc's
    threads = math.prod(launch.block) if isinstance(launch.block, (tuple, list)) else launch.block
    first = codes[machine_code.architecture_for(cards[0].capability)] if codes else None
    l1_bytes = l1_share(cards[0], first, threads, launch.shared_bytes)
    keywords = {} if template is None else {"template": template}
    sample = take_sample(launch, own, l1_bytes, seconds=seconds, **keywords)
    texts = dict(kernel._program.read.texts)
    return predicted(kernel.name, sample, codes, cards, texts, time.perf_counter() - began)


def l1_share(of: Card, code: MachineCode | None, threads: int, dynamic: int) -> int:
    """The bytes of L1 that a block has for itself, where its multiprocessor is full."""
    registers, static = (code.registers, code.shared_bytes) if code else (32, 0)
    blocks = max(1, occupancy(of, threads, registers, static + dynamic).blocks)
    return of.l1_beside(blocks, static + dynamic) // blocks


def predicted(
    kernel: str,
    sample: Sample,
    codes: dict[str, MachineCode] | None,
    cards: Sequence[Card],
    texts: dict[str, str],
    took: float = 0.0,
) -> Prediction:
    """The prediction of a launch of which there is a sample. codes: by architecture; None without nvcc."""
    files = Statements(texts)
    sample = files.of_sample(sample)
    sharing: Sharing = sharing_of(sample)
    estimated = None if codes else without_nvcc.estimated(sample, texts)
    flows: dict[str, Flow] = {}
    on = []
    for of in cards:
        name = machine_code.architecture_for(of.capability)
        if codes:
            code = codes[name]
            if name not in flows:
                flows[name] = flow_of(code, sample, files)
            flow = flows[name]
        else:
            code, flow = estimated
        held = occupancy(of, sample.threads, code.registers, code.shared_bytes + sample.dynamic_shared_bytes)
        terms = predict_terms(code, flow, sample, sharing, of, held, files) if held.blocks else None
        on.append(OnCard(of, code, flow, held, terms))
    return Prediction(kernel, sample, on, texts, took)
