"""doombeaker/cuda-profiling-lab: additions with more registers, copies with bank conflicts, sums."""

from speed_calls.calls import at, floats, zeros

REPOSITORY = "doombeaker/cuda-profiling-lab"
SIZE = 1 << 24


def launched(file, kernel, ladder, operands, results=1, size=SIZE):
    return at(file, kernel, ladder=ladder)[size // 256, 256](
        lambda: (*(floats(size) for _ in range(operands)), *(zeros(size) for _ in range(results)), size)
    )


OCCUPANCY = "phase2_ncu/05_occupancy/occupancy.cu"
CONFLICTS = "phase2_ncu/09_bank_conflicts/bank_conflicts.cu"
SUMS = "phase1_nsys/12_reduction/reduction.cu"
LAUNCHES = [
    launched(SUMS, "reduce_interleaved", "sum", 1),
    launched(SUMS, "reduce_sequential", "sum", 1),
    *(launched(OCCUPANCY, f"kernel_{name}_reg", "addition", 2) for name in ("low", "medium", "high")),
    *(
        launched(CONFLICTS, name, "bank conflicts", 1)
        for name in ("no_conflict", "conflict_2way", "conflict_32way")
    ),
]
