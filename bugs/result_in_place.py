"""The result is written over x, while other blocks still read x.

Why people make it: It saves a buffer where in_features = out_features, and every operator after the
product does work in place.

What one sees: The first tiles are right, and whoever reads x later gets results for inputs. Which ones
depends on the order of the blocks.

Found by: the check between blocks: one writes what another one reads in the same launch.
"""

from fgn.bugs.hosts import memory_of, tiles

TILE = 16


def launch(kernel, x, p):
    batch, in_features, out_features = p.shape
    v = x
    grid = (tiles(out_features, TILE), tiles(batch, TILE))
    limits = (p.low, p.high)
    sizes = (batch, in_features, out_features)
    kernel[grid, (TILE, TILE)](
        memory_of(x), x.stride(0), p.weight, p.bias, p.channel_bias, *limits, v, *sizes
    )
    return v
