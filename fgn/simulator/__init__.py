"""What the counting simulator tells: counts by launch, line and warp; faults; the source view (`view`)."""

from fgn.simulator.counted import KernelFault, check, count, count_lines, count_warps

__all__ = ["KernelFault", "check", "count", "count_lines", "count_warps"]
