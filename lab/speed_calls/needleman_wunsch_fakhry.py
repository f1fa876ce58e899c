"""BasselFakhry/Needleman-Wunsch_Algorithm_Implementation_for_GPU: how alike pairs of sequences are."""

from speed_calls.calls import at, i32, integers, u8, zeros

REPOSITORY = "BasselFakhry/Needleman-Wunsch_Algorithm_Implementation_for_GPU"
PAIRS, LENGTH = 64, 1024


def alike(version, block):
    return at(f"kernel{version}.cu", f"nw_{version}", ladder="alignment")[PAIRS, block](
        lambda: (
            *((zeros(PAIRS, LENGTH, LENGTH, dtype=i32),) if version == 0 else ()),
            integers(65, 69, PAIRS, LENGTH, dtype=u8),
            integers(65, 69, PAIRS, LENGTH, dtype=u8),
            zeros(PAIRS, dtype=i32),
        )
    )


LAUNCHES = [alike(0, LENGTH), alike(1, LENGTH), alike(2, LENGTH // 2)]
