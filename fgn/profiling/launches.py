"""Derives from the rows of `fgn.profile()`: the launch with the product, operations, bytes."""

from __future__ import annotations

import pandas as pd

from cudasim.counting import metrics as m
from fgn.measure.subjects import ladder_order
from fgn.profiling.launch_words import part_of

WAVEFRONT_BYTES = 128


def heads(launches: pd.DataFrame) -> pd.DataFrame:
    """The launch with the matrix product of each subject; the longest one if there are several or none.
    Indexed by subject in the ladder's order."""
    rows = launches.assign(is_product=launches.operator.map(part_of) == "product")
    most = m.TIME if m.TIME in rows else m.GLOBAL_REQUESTS["ld"]
    rows = rows.sort_values(["is_product", *([most] if most in rows else [])], ascending=False, kind="stable")
    rows = rows.drop_duplicates("subject").set_index("subject").drop(columns="is_product")
    return rows.loc[ladder_order(list(rows.index))]


def operations(launches: pd.DataFrame) -> pd.Series:
    """Operations of each launch. For a matrix product: two for each multiply-add of the problem, however a
    version computes it (from float16 halves it takes three). For other launches: the executed float32
    operations (a multiply-add is two) and the tensor cores'."""
    total = pd.Series(0.0, index=launches.index)
    for name, each in (*m.FP32.items(), *((name, 1) for name in m.TENSOR)):
        if name in launches:
            total += launches[name].fillna(0) * each
    known = launches.chain != ""
    main = heads(launches)
    is_main = launches.launch == launches.subject.map(main.launch)
    is_product = known & is_main & (launches.operator.map(part_of) == "product")
    sizes = launches.loc[is_product, ["batch", "in_features", "out_features"]].astype(float)
    total[is_product] = 2 * sizes.prod(axis=1)
    return total


def level_bytes(launches: pd.DataFrame) -> pd.DataFrame:
    """The bytes that crossed each level: DRAM; L2 (all its traffic); L1 and shared memory, which are one
    memory (L1's sectors, 128 bytes for each wavefront of shared memory, and what tensor cores read from
    there)."""
    in_shared = pd.Series(0.0, index=launches.index)
    for name in m.SHARED_WAVEFRONTS.values():
        in_shared += WAVEFRONT_BYTES * launches.get(name, 0)
    in_shared += launches.get(m.ASKED["shared", "gmma"], 0)
    return pd.DataFrame(
        {
            "DRAM": launches[m.DRAM_READ] + launches[m.DRAM_WRITE],
            "L2": launches[m.L2_BYTES],
            "L1 and shared memory": launches[m.L1_BYTES] + in_shared,
        }
    )
