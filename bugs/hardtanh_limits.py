"""hardtanh has the limits 0 and 20 instead of -1 and 1.

Why people make it: The clipped ReLU of speech models is hardtanh(0, 20), and code with it gets copied.

What one sees: All negative values are 0, and the larger ones are not cut.

Found by: comparison with float64; the report names the limits.
"""

from fgn.bugs.hosts import memory_of, never_written, tiles

TILE = 16


def launch(kernel, x, p):
    batch, in_features, out_features = p.shape
    v = never_written(batch, out_features, device=x.device)
    grid = (tiles(out_features, TILE), tiles(batch, TILE))
    limits = (0.0, 20.0)
    sizes = (batch, in_features, out_features)
    kernel[grid, (TILE, TILE)](
        memory_of(x), x.stride(0), p.weight, p.bias, p.channel_bias, *limits, v, *sizes
    )
    return v
