"""What launches ask of memory, by ncu's names: for each launch, line and warp."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from cudasim.counting.counted import (
    H200_L2_BYTES,
    H200_MULTIPROCESSORS,
    Instruction,
    Launch,
    expect_function,
    recording,
)
from cudasim.counting.places import Place

if TYPE_CHECKING:
    import pandas as pd


def _of(instructions, space: str, operation: str) -> list[Instruction]:
    return [each for each in instructions if each.space == space and each.operation == operation]


def _metrics(instructions) -> dict[str, int]:
    """The counts of instructions, by ncu's names."""
    values = {}
    for operation in ("ld", "st", "atom"):
        chosen = _of(instructions, "global", operation)
        values[f"l1tex__t_requests_pipe_lsu_mem_global_op_{operation}.sum"] = sum(i.requests for i in chosen)
        values[f"l1tex__t_sectors_pipe_lsu_mem_global_op_{operation}.sum"] = sum(i.sectors for i in chosen)
    for space in ("global", "shared"):
        for operation in ("ld", "st"):
            chosen = _of(instructions, space, operation)
            name = f"smsp__sass_data_bytes_mem_{space}_op_{operation}.sum"
            values[name] = sum(i.addresses * i.bytes for i in chosen)
    for operation in ("ld", "st", "atom"):
        chosen = _of(instructions, "shared", operation)
        values[f"smsp__inst_executed_op_shared_{operation}.sum"] = sum(i.requests for i in chosen)
        name = f"l1tex__data_pipe_lsu_wavefronts_mem_shared_op_{operation}.sum"
        values[name] = sum(i.wavefronts for i in chosen)
        name = f"l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_{operation}.sum"
        values[name] = sum(i.wavefronts - i.phases for i in chosen)
    values["memory_instructions"] = sum(i.requests for i in instructions)
    values["memory_threads"] = sum(i.threads for i in instructions)
    return values


def _table(rows: list[dict]) -> pd.DataFrame:
    import pandas as pd  # a check alone does not wait for it

    return pd.DataFrame(rows)


def _run(call: Callable[[], object], **settings) -> list[Launch]:
    expect_function(call)
    with recording(**settings) as launches:
        call()
    return launches


def count(
    call: Callable[[], object], l2_bytes: int = H200_L2_BYTES, multiprocessors: int = H200_MULTIPROCESSORS
) -> pd.DataFrame:
    """Runs `call` and returns a row for each of its launches, in order.

    Columns: kernel; grid and block, as (x, y, z); metrics by ncu's names; and, without names of ncu,

    memory_instructions, memory_threads: requests of global and shared memory, and the threads that were
        active in them. memory_threads / memory_instructions is 32 if lanes stay together; ncu has the
        same of instructions of all kinds, as smsp__thread_inst_executed_per_inst_executed.ratio.
    unique_sectors_read, unique_sectors_written: of 32 bytes, of the whole launch: those that must come from
        DRAM if nothing is in a cache before, and those that must go there at some time.
    barriers: __syncthreads(), once for each warp. warp_operations: shuffles, votes, __syncwarp(), likewise.
    tensor_copies, tensor_bytes: boxes that TMA had to copy and their bytes, once for a multicast.
    tensor_stores, tensor_stored_bytes: boxes that TMA had to store, or to combine with the tensor.
    products: wgmma, once for each warpgroup. TMA's traffic with DRAM is not modelled:
        dram__bytes_read.sum and unique_sectors_read of a launch with tensor_copies are NaN, and
        dram__bytes_write.sum and unique_sectors_written of one with tensor_stores.

    dram__bytes_read.sum and dram__bytes_write.sum are a model's: waves of blocks on a GPU of
    `multiprocessors`, with an L2 cache of `l2_bytes` that is empty at first (cudasim/sim/counted/l2.c says
    what is in the model and what is not). All other metrics are counted.

    Raises KernelFault as `check()` does.
    """
    return table_of(_run(call, multiprocessors=multiprocessors, l2_bytes=l2_bytes))


def table_of(launches: Iterable[Launch]) -> pd.DataFrame:
    """The table of `count()`, of launches that were counted."""
    rows = []
    for launch in launches:
        rows.append(
            {
                "kernel": launch.kernel,
                "grid": launch.grid,
                "block": launch.block,
                **_metrics(launch.instructions),
                "dram__bytes_read.sum": math.nan if launch.tensor_copies else 32 * launch.dram_sectors_read,
                "dram__bytes_write.sum": (
                    math.nan if launch.tensor_stores else 32 * launch.dram_sectors_written
                ),
                "unique_sectors_read": math.nan if launch.tensor_copies else launch.sectors_read,
                "unique_sectors_written": math.nan if launch.tensor_stores else launch.sectors_written,
                "barriers": launch.barriers,
                "warp_operations": launch.warp_operations,
                "tensor_copies": launch.tensor_copies,
                "tensor_bytes": launch.tensor_bytes,
                "tensor_stores": launch.tensor_stores,
                "tensor_stored_bytes": launch.tensor_stored_bytes,
                "products": launch.products,
                "smsp__sass_data_bytes_mem_shared_op_gmma.sum": launch.product_bytes,
            }
        )
    return _table(rows)


def count_lines(call: Callable[[], object]) -> pd.DataFrame:
    """Runs `call` and returns a row for each launch and each line of source that accesses memory."""
    rows = []
    for number, launch in enumerate(_run(call)):
        lines: dict[Place, list[Instruction]] = {}
        for instruction in launch.instructions:
            lines.setdefault(instruction.place, []).append(instruction)
        for place, instructions in sorted(lines.items(), key=lambda item: (item[0].file, item[0].line)):
            rows.append(
                {
                    "launch": number,
                    "kernel": launch.kernel,
                    "file": place.file,
                    "line": place.line,
                    **_metrics(instructions),
                }
            )
    return _table(rows)


def count_warps(call: Callable[[], object]) -> pd.DataFrame:
    """Runs `call` and returns a row for each launch and each of its warps that accesses memory.

    Columns: launch, kernel, block (its number in the grid, x fastest), warp (its number in the block), and,
    by ncu's names, the warp's own requests and sectors of global memory and its requests and wavefronts of
    shared memory.
    """
    rows = []
    for number, launch in enumerate(_run(call, keeps_warps=True)):
        for block, warp, numbers in sorted(launch.warps):
            rows.append({"launch": number, "kernel": launch.kernel, "block": block, "warp": warp})
            for index, operation in enumerate(("ld", "st", "atom")):
                global_requests, sectors, shared_requests, wavefronts = (of[index] for of in numbers)
                rows[-1] |= {
                    f"l1tex__t_requests_pipe_lsu_mem_global_op_{operation}.sum": global_requests,
                    f"l1tex__t_sectors_pipe_lsu_mem_global_op_{operation}.sum": sectors,
                    f"smsp__inst_executed_op_shared_{operation}.sum": shared_requests,
                    f"l1tex__data_pipe_lsu_wavefronts_mem_shared_op_{operation}.sum": wavefronts,
                }
    return _table(rows)
