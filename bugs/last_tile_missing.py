"""The grid is rounded down: out_features // TILE.

Why people make it: It is a division, and sizes are multiples of the tile in every test.

What one sees: The last columns are never written: they keep what was in that memory, often zeros, or
right values from an earlier run.

Found by: comparison with float64 of a result whose memory was marked: the report says which columns were
never written.
"""

from fgn.bugs.hosts import memory_of, never_written, tiles

TILE = 16


def launch(kernel, x, p):
    batch, in_features, out_features = p.shape
    v = never_written(batch, out_features, device=x.device)
    grid = (out_features // TILE, tiles(batch, TILE))
    limits = (p.low, p.high)
    sizes = (batch, in_features, out_features)
    kernel[grid, (TILE, TILE)](
        memory_of(x), x.stride(0), p.weight, p.bias, p.channel_bias, *limits, v, *sizes
    )
    return v
