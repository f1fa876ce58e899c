"""AbdulrahmanA81/CudaPractice: filters of an image, and its scaling to 256 values."""

from speed_calls.calls import at, i8, i32, integers, zeros

REPOSITORY = "AbdulrahmanA81/CudaPractice"
SIDE, FILTER = 2048, 3
SIZES = {
    1: ((SIDE // 16,) * 2, (16, 16)),
    2: ((SIDE // 8,) * 2, (8, 8)),
    3: (SIDE * SIDE // 1024, 1024),
    4: (SIDE * SIDE // 2048, 512),
    5: (SIDE * SIDE // 4096, 512),
}


def filtered(version):
    return at(f"kernel{version}.cu", f"kernel{version}", ladder="filter")[SIZES[version]](
        lambda: (
            integers(-4, 5, FILTER, FILTER, dtype=i8),
            *(() if version == 5 else (FILTER,)),
            integers(0, 256, SIDE, SIDE),
            zeros(SIDE, SIDE, dtype=i32),
            SIDE,
            SIDE,
        )
    )


def scaled(version):
    return at(f"kernel{version}.cu", f"normalize{version}", ladder="scaling")[SIZES[version]](
        lambda: (integers(0, 256, SIDE, SIDE), SIDE, SIDE, 0, 255)
    )


LAUNCHES = [
    *(filtered(version) for version in (1, 2, 3, 4, 5)),
    *(scaled(version) for version in (1, 2, 3, 4, 5)),
]
