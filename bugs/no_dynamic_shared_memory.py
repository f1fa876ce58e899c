"""The launch gives the kernel no dynamic shared memory.

Why people make it: It is the optional third number of a launch, and nothing that the compiler sees
depends on it.

What one sees: An illegal address, or values that overwrite another array.

Found by: the bounds checker.
"""

from fgn.bugs.hosts import never_written

MOST_THREADS = 256


def launch(kernel, v, p):
    batch, _, channels = p.shape
    y = never_written(batch, channels, device=v.device)
    size = channels // p.groups
    block = min(size, MOST_THREADS)
    kernel[(batch, p.groups), block](v, p.norm_weight, p.norm_bias, y, channels, p.groups, p.eps)
    return y
