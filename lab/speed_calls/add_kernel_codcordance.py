"""codcordance/add_kernel: vectors added by many threads, and by one."""

from speed_calls.calls import at, bf16, f32, floats, up

REPOSITORY = "codcordance/add_kernel"
COUNT, FEW = 1 << 26, 1 << 13


def many(kernel, dtype):
    return at("src/__old__/kernels.cu", f"add_{kernel}_kernel", ladder="addition")[up(COUNT, 256), 256](
        lambda: (COUNT, floats(COUNT, dtype=dtype), floats(COUNT, dtype=dtype))
    )


def one(kernel, each=1):
    """each: numbers that an element of the kernel's count has."""
    return at("src/__old__/naive_old.cu", f"addNaive{kernel}Kernel", ladder="addition by one thread")[1, 1](
        lambda: (FEW // each, floats(FEW), floats(FEW))
    )


LAUNCHES = [
    many("threadBlock", f32),
    many("threadBlockBF16", bf16),
    many("threadBlockBF16Vector", bf16),
    one(""),
    one("Restrict"),
    one("Unroll4NoTailRestrict"),
    one("SizeT"),
    one("SizeTRestrict"),
    one("Unroll2Restrict"),
]
