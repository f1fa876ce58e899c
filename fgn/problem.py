"""The single description of a problem: a chain at its sizes, in a precision."""

from __future__ import annotations

from dataclasses import dataclass, field

import pandas as pd
import torch

from fgn.chains import Chain, Shape, find, problem, random_inputs
from fgn.precision import OF_CALLS

# The columns of a table that identify a row's problem.
PROBLEM = ["chain", *Shape._fields, "precision"]

WARP = 32


@dataclass(frozen=True)
class Problem:
    """A chain at a shape and a precision: what is timed, profiled and predicted.

    seed: of the random inputs. given: (x, parameters) instead of random ones, or None.
    """

    chain: Chain
    shape: Shape
    precision: str = "ieee"
    seed: int = 0
    given: tuple | None = field(default=None, compare=False)

    @property
    def steps(self) -> float:
        """The multiply-adds of a warp, 32 products, in the matrix product."""
        return self.shape.batch * self.shape.in_features * self.shape.out_features / WARP

    def inputs(self, device: str | torch.device):
        """(x, parameters), in the dtype of the precision: the given ones, or random ones."""
        if self.given is not None:
            return self.given
        return random_inputs(self.chain, self.shape, device, self.seed, OF_CALLS[self.precision].dtype)

    def columns(self) -> dict:
        """Its values in the columns `PROBLEM`."""
        return {"chain": self.chain.name, **self.shape._asdict(), "precision": self.precision}

    def rows(self, table: pd.DataFrame) -> pd.DataFrame:
        """The rows of a table for this problem, by those of the columns `PROBLEM` that the table has."""
        wanted = pd.Series(self.columns())
        wanted = wanted[[name for name in PROBLEM if name in table]]
        return table[(table[wanted.index] == wanted).all(axis=1)]

    def sizes(self) -> str:
        """The sizes in words: 64 × 512 → 512, groups: 16."""
        batch, in_features, out_features, groups = self.shape
        return f"{batch} × {in_features} → {out_features}, groups: {groups}"

    def __str__(self):
        return f"{self.chain.name}, {self.sizes()}, {self.precision}"


def find_problem(chain: str | Chain, shape=None, precision: str = "ieee", device="cpu") -> Problem:
    """The problem for a caller's arguments; chain and shape as in `fgn.compare()`."""
    return Problem(*problem(find(chain), shape, device), precision)
