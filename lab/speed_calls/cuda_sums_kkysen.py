"""kkysen/cuda: sums of blocks."""

from speed_calls.calls import at, floats, zeros

REPOSITORY = "kkysen/cuda"
COUNT = 1 << 24


def total(name, each):
    named = at("sum.cu", f"gpuSumKernel{name}", template=("float", 256, 4), ladder="sum")
    return named[COUNT // 256 // each, 256](lambda: (floats(COUNT), zeros(COUNT // 256), COUNT))


LAUNCHES = [total("1", 1), total("2", 1), total("3", 1), total("4", 4), total("", 4)]
