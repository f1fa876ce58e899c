"""The weight is transposed for a kernel that reads it by rows: row-major operands passed as column-major.

Why people make it: The formula says x W^T, and BLAS wants columns. This kernel already takes the rows of
W.

What one sees: Right numbers in the wrong order: every element is wrong, none is strange.

Found by: comparison with float64; the report says that the transpose was passed.
"""

from fgn.bugs.hosts import memory_of, never_written, tiles

TILE = 16


def launch(kernel, x, p):
    batch, in_features, out_features = p.shape
    v = never_written(batch, out_features, device=x.device)
    grid = (tiles(out_features, TILE), tiles(batch, TILE))
    limits = (p.low, p.high)
    sizes = (batch, in_features, out_features)
    kernel[grid, (TILE, TILE)](
        memory_of(x), x.stride(0), p.weight.T.contiguous(), p.bias, p.channel_bias, *limits, v, *sizes
    )
    return v
