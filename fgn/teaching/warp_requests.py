"""What one request of a warp costs, from the addresses of its lanes."""

from __future__ import annotations

import numpy as np
import pandas as pd

SECTOR_BYTES = 32
BANKS, BANK_BYTES = 32, 4


def sectors_of(addresses) -> int:
    """The sectors of global memory that lanes touch, each reading 4 bytes at its address (in bytes)."""
    return len(np.unique(np.asarray(addresses) // SECTOR_BYTES))


def words_in_banks(addresses) -> np.ndarray:
    """The number of words that lanes need from each bank of shared memory; a shared word counts once."""
    words = np.unique(np.asarray(addresses) // BANK_BYTES)
    return np.bincount(words % BANKS, minlength=BANKS)


def wavefronts_of(addresses) -> int:
    """The passes over shared memory that lanes need, each reading 4 bytes: the most words of one bank."""
    return int(words_in_banks(addresses).max())


def each_request(counts: pd.DataFrame) -> pd.Series:
    """The average cost of a request, over all launches of `fgn.count()`: sectors of global memory and
    wavefronts of shared memory, for loads and stores. Kinds without requests are left out."""
    total = counts.sum(numeric_only=True)
    costs = {}
    for operation, name in (("ld", "load"), ("st", "store")):
        in_global = f"pipe_lsu_mem_global_op_{operation}.sum"
        pairs = {
            f"sectors of a global {name}": (
                f"l1tex__t_sectors_{in_global}",
                f"l1tex__t_requests_{in_global}",
            ),
            f"wavefronts of a shared {name}": (
                f"l1tex__data_pipe_lsu_wavefronts_mem_shared_op_{operation}.sum",
                f"smsp__inst_executed_op_shared_{operation}.sum",
            ),
        }
        costs |= {
            name: total[cost] / total[requests] for name, (cost, requests) in pairs.items() if total[requests]
        }
    return pd.Series(costs)


def bytes_asked(counts: pd.DataFrame) -> dict[str, int]:
    """The bytes of all sectors that the launches of `fgn.count()` asked of global memory."""
    total = counts.sum(numeric_only=True)
    name = "l1tex__t_sectors_pipe_lsu_mem_global_op_{}.sum"
    return {
        "read": SECTOR_BYTES * int(total[name.format("ld")]),
        "written": SECTOR_BYTES * int(total[name.format("st")]),
    }
