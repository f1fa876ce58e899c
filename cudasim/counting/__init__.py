"""What the counting simulator tells: counts by launch, line and warp; faults; the source view."""

from cudasim.counting.counted import check
from cudasim.counting.counts import count, count_lines, count_warps
from cudasim.counting.faults import KernelFault
from cudasim.counting.view import SourceView, source_view

__all__ = ["KernelFault", "SourceView", "check", "count", "count_lines", "count_warps", "source_view"]
