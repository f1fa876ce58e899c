"""siddhantm27/sysml-matmul: products of matrices."""

from speed_calls.calls import at, floats, zeros

REPOSITORY = "siddhantm27/sysml-matmul"
SIDE = 2048


def product(file, kernel, tile, block):
    return at(file, f"matmul_kernel_{kernel}", ladder="product")[(SIDE // tile,) * 2, block](
        lambda: (floats(SIDE, SIDE), floats(SIDE, SIDE), zeros(SIDE, SIDE), SIDE)
    )


LAUNCHES = [
    product("student.cu", "naive", 16, (16, 16)),
    product("v1.cu", "hierarchical", 128, 256),
    product("v2.cu", "large_tile", 64, 256),
    product("v3.cu", "optimized", 64, 256),
]
