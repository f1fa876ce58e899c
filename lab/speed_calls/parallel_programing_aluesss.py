"""aluesss/Parallel-Programing: filters of an image, and its scaling to 256 values."""

from speed_calls.calls import at, i8, i32, integers, zeros

REPOSITORY = "aluesss/Parallel-Programing"
SIDE, FILTER = 2048, 3


def grid(version):
    return 1 if version == 3 else SIDE * SIDE // 1024


def rows(version):
    return (SIDE // 1024,) if version == 3 else ()


def filtered(version):
    return at(f"kernel{version}.cu", f"kernel{version}", ladder="filter")[grid(version), 1024](
        lambda: (
            integers(-4, 5, FILTER, FILTER, dtype=i8),
            FILTER,
            integers(0, 256, SIDE, SIDE),
            zeros(SIDE, SIDE, dtype=i32),
            SIDE,
            SIDE,
            *rows(version),
        )
    )


def scaled(version):
    return at(f"kernel{version}.cu", f"normalize{version}", ladder="scaling")[grid(version), 1024](
        lambda: (
            integers(0, 256, SIDE, SIDE),
            SIDE,
            SIDE,
            zeros(1, dtype=i32),
            zeros(1, dtype=i32) + 255,
            *rows(version),
        )
    )


LAUNCHES = [
    *(filtered(version) for version in (1, 2, 3, 4)),
    *(scaled(version) for version in (1, 2, 3, 4, 5)),
]
