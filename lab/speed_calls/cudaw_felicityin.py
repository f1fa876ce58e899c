"""felicityin/cudaw: histograms, transposes, scans of blocks, sums."""

from speed_calls.calls import at, i32, integers, u8, u32, zeros

REPOSITORY = "felicityin/cudaw"
PIXELS, WIDE, COUNT = 4096, 4096, 1 << 24


def histogram(kernel, blocks):
    return at("cuda/histogram.cu", kernel, ladder="histogram")[blocks, 1024](
        lambda: (zeros(256, dtype=u32), integers(0, 256, PIXELS * PIXELS, dtype=u8), PIXELS, PIXELS)
    )


def transpose(kernel, grid, block):
    return at("cuda/matrix_transpose.cu", kernel, ladder="transpose")[grid, block](
        lambda: (zeros(WIDE, WIDE, dtype=i32), integers(-99, 99, WIDE, WIDE), WIDE, WIDE)
    )


def scan(kernel, each):
    blocks = COUNT // 1024 // each
    return at("cuda/scan.cu", kernel, ladder="scan")[blocks, 1024](
        lambda: (zeros(COUNT, dtype=i32), zeros(blocks, dtype=i32), integers(0, 9, COUNT), COUNT)
    )


def total(version, blocks):
    return at("cuda/sum.cu", f"sum_v{version}", ladder="sum")[blocks, 256](
        lambda: (zeros(1, dtype=i32), integers(0, 2, COUNT), COUNT)
    )


LAUNCHES = [
    histogram("histogram", PIXELS * PIXELS // 1024),
    histogram("histogram_mm", PIXELS * PIXELS // 1024),
    histogram("histogram_mm_corse", PIXELS * PIXELS // 1024 // 16),
    transpose("transpose_naive", (WIDE // 32,) * 2, (32, 32)),
    transpose("transpose_naive_v2", (WIDE // 32,) * 2, (32, 8)),
    transpose("transpose_tiled", (WIDE // 32,) * 2, (32, 8)),
    transpose("transpose_tiled_v2", (WIDE // 32) ** 2, 32),
    scan("scan_kogge_stone", 1),
    scan("scan_kogge_stone_sm", 1),
    scan("scan_kogge_stone_sm_db", 1),
    scan("scan_kogge_stone_coarse", 8),
    scan("scan_brent_kung_sm", 2),
    total(1, COUNT // 512),
    total(2, COUNT // 512),
    total(3, COUNT // 512),
    total(4, COUNT // 2048),
    total(5, 32),
    total(6, 32),
]
