"""TyPetrochko/cpsc524-assign6: products of matrices."""

from speed_calls.calls import at, floats, zeros

REPOSITORY = "TyPetrochko/cpsc524-assign6"
SIDE = 1024


def product(file):
    return at(file, "gpu_matrixmult", ladder="product")[(SIDE // 16,) * 2, (16, 16)](
        lambda: (floats(SIDE, SIDE), floats(SIDE, SIDE), zeros(SIDE, SIDE), SIDE, SIDE, SIDE)
    )


LAUNCHES = [product("adjacent.cu"), product("kij.cu"), product("tiled.cu")]
