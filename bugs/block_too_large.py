"""A block of a thread for each channel has more than 1024 threads where groups are large.

Why people make it: The groups of the tests have 16 channels.

What one sees: The launch fails, nothing runs, and whoever does not look at the error gets what was in
that memory.

Found by: the check of launches.
"""

from fgn.bugs.hosts import never_written

MOST_THREADS = 256


def launch(kernel, v, p):
    batch, _, channels = p.shape
    y = never_written(batch, channels, device=v.device)
    size = channels // p.groups
    block = size
    shared_bytes = 4 * size
    kernel[(batch, p.groups), block, shared_bytes](
        v, p.norm_weight, p.norm_bias, y, channels, p.groups, p.eps
    )
    return y
