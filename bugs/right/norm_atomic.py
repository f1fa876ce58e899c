"""The host side of norm_atomic.cu."""

from fgn.bugs.hosts import never_written

THREADS = 64


def launch(kernel, v, p):
    batch, _, channels = p.shape
    y = never_written(batch, channels, device=v.device)
    limits = (p.low, p.high)
    kernel[(batch, p.groups), THREADS](v, p.norm_weight, p.norm_bias, *limits, y, channels, p.groups, p.eps)
    return y
