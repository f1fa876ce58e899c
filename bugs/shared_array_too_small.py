"""The host launches 512 threads, and the array for their shares has room for 256.

Why people make it: The number stands in two places, and one of them was tuned.

What one sees: Shares of the upper threads go into the memory behind the array, here the group's values.

Found by: the bounds checker on arrays in shared memory.
"""

from fgn.bugs.hosts import never_written

MOST_THREADS = 512


def launch(kernel, v, p):
    batch, _, channels = p.shape
    y = never_written(batch, channels, device=v.device)
    size = channels // p.groups
    block = min(size, MOST_THREADS)
    shared_bytes = 4 * size
    kernel[(batch, p.groups), block, shared_bytes](
        v, p.norm_weight, p.norm_bias, y, channels, p.groups, p.eps
    )
    return y
