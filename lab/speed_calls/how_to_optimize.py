"""Liu-xiandong/How_to_optimize_in_GPU: element-wise kernels, reductions, products with vectors."""

from speed_calls.calls import at, floats, zeros

REPOSITORY = "Liu-xiandong/How_to_optimize_in_GPU"
N = 1 << 25


def add(kernel, each):
    return at("elementwise/elementwise_add.cu", kernel, ladder="add")[N // 256 // each, 256](
        lambda: (floats(N), floats(N), zeros(N))
    )


def reduce(version, name, kernel, each, template=None, count=None):
    rest = () if count is None else (count,)
    return at(f"reduce/reduce_v{version}_{name}.cu", kernel, template=template, ladder="sums of blocks")[
        N // each, 256
    ](lambda: (floats(N), zeros(N // each), *rest))


def sgemv(version, m, n, template=None, rows_per_block=4):
    return at(f"sgemv/Sgemv_v{version}.cu", f"Sgemv_v{version}", template=template)[
        m // rows_per_block, (32, 4)
    ](lambda: (floats(m, n), floats(n), zeros(m), m, n))


def sgemm(version, n=2048):
    return at(f"sgemm/sgemm_v{version}.cu", "Sgemm", template=(128, 8, 128, 8, 8, False))[
        (n // 128, n // 128), (16, 16)
    ](lambda: (floats(n, n), floats(n, n), zeros(n, n), n, n, n))


LAUNCHES = [
    add("add", 1),
    add("vec2_add", 2),
    add("vec4_add", 4),
    reduce(0, "baseline", "reduce0", 256),
    reduce(1, "no_divergence_branch", "reduce1", 256),
    reduce(2, "no_bank_conflict", "reduce2", 256),
    reduce(3, "add_during_load", "reduce3", 512),
    reduce(7, "shuffle", "reduce7", 1024, (256, 4), N),
    sgemm(1),
    sgemm(3),
    sgemv(0, 16384, 1024),
    sgemv(1, 16384, 2048),
    sgemv(2, 1 << 20, 16, (2,), rows_per_block=8),
]
