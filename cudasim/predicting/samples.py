"""Stall samples: where the warps of a launch were each time a profiler sampled them, and what they waited
for.

A profiler takes them on a GPU; here they are kept, and added up by line. A waiting warp appears at the
instruction that it cannot issue yet: for a load's result that is the using instruction, often a line later.
"""

from __future__ import annotations

import difflib
import json
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from cudasim.live.kernels import Kernel
from cudasim.predicting.code_view import CodeView

SELECTED = "selected"  # the warp issued, and waited for nothing
_PLACE = ["address", "file", "line", "sass"]
_WORTH_A_WORD = 0.1  # of a line's samples


@dataclass(frozen=True)
class Samples:
    """kernel, gpu: where they were taken. file, source: the text, or "".

    rows: for each instruction its offset in the kernel, file, line and sass, the number of samples, and how
    many of them waited for each reason, by ncu's names.
    """

    kernel: str
    gpu: str
    file: str
    source: str
    rows: pd.DataFrame

    @property
    def reasons(self) -> list[str]:
        return [name for name in self.rows if name not in (*_PLACE, "samples")]

    @property
    def total(self) -> int:
        return int(self.rows.samples.sum())

    @property
    def lines(self) -> pd.DataFrame:
        """By line of the source: samples, and those of each reason, the most frequent reasons first, equal
        ones by name."""
        own = self.rows[self.rows.file == self.file]
        found = own.groupby("line")[["samples", *self.reasons]].sum()
        order = found[sorted(self.reasons)].sum().sort_values(ascending=False, kind="stable")
        return found[["samples", *order.index[order > 0]]]

    def not_of(self, kernel: Kernel) -> str:
        """Why they do not belong to a kernel: they are for another file, or another text of it. "" if they
        belong."""
        if self.file != kernel.file:
            return f"expected some of {kernel.file}, got those of {self.file or 'no lines'}"
        if not self.source or self.source.rstrip() == kernel.source.rstrip():
            return ""
        lines = (self.source.splitlines(), kernel.source.splitlines())
        same = difflib.SequenceMatcher(None, *lines, autojunk=False).get_matching_blocks()[0]
        first = same.size + 1 if same.a == same.b == 0 else 1
        return f"they are of another text of {kernel.file}, from line {first} on: take them again"

    def waits_for(self, line: int, most: int = 2) -> str:
        """The most frequent reasons at a line, in words; "" if no warp was waiting."""
        lines = self.lines
        if line not in lines.index:
            return ""
        waits = lines.loc[line].drop(["samples", SELECTED], errors="ignore").nlargest(most)
        parts = waits / lines.loc[line, "samples"]
        return ", ".join(f"{name} {part:.0%}" for name, part in parts.items() if part > _WORTH_A_WORD)

    def code(self) -> CodeView:
        """The machine code that ran, each instruction with its samples and its most frequent reason."""
        rows = []
        for row in self.rows.to_dict("records"):
            waits = {name: row[name] for name in self.reasons if name != SELECTED and row[name]}
            why = f"   ← {max(waits, key=waits.get)}" if waits else ""
            count = f"{row['samples']:,}" if row["samples"] else ""
            rows.append((row["line"] if row["file"] == self.file else 0, f"{count:>9}  {row['sass']}{why}"))
        title = f"{self.kernel} on {self.gpu}: {self.total:,} samples, each a warp at its next instruction"
        return CodeView(title, self.file, self.source, tuple(rows))

    def save(self, file: Path | str, recorded: dict | None = None) -> None:
        """Writes a small JSON file, which `load()` reads. recorded: further contents, such as the date."""
        rows = self.rows.loc[:, (self.rows != 0).any()]  # without reasons that never were
        content = {name: getattr(self, name) for name in ("kernel", "gpu", "file", "source")}
        content |= {"recorded": recorded or {}, "columns": list(rows), "rows": rows.to_numpy().tolist()}
        text = json.dumps(content, indent=0, ensure_ascii=False)
        Path(file).write_text(text.replace(",\n", ",").replace("],[", "],\n[") + "\n", encoding="utf-8")


def load(file: Path | str) -> Samples:
    """The samples of a file that `Samples.save()` wrote. ValueError for any other file."""
    try:
        content = json.loads(Path(file).read_text(encoding="utf-8"))
        rows = pd.DataFrame(content["rows"], columns=content["columns"])
        return Samples(*(content[name] for name in ("kernel", "gpu", "file", "source")), rows)
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(f"file: expected samples that Samples.save() wrote, got {file}: {error}") from error
