"""RuixiangMa/gpu-performance-optimization: copies, and transposes of tiles."""

from speed_calls.calls import at, floats, zeros

REPOSITORY = "RuixiangMa/gpu-performance-optimization"
SIZE, SIDE = 1 << 24, 1024


def copied(kernel):
    return at("Memory/Global-Memory/aligned_memory_optimization.cu", kernel, ladder="copy")[SIZE // 256, 256](
        lambda: (floats(SIZE), zeros(SIZE), SIZE)
    )


def in_tiles(kernel):
    named = at("Memory/Shared-Memory/bank_conflict.cu", kernel, ladder="transpose of tiles")
    return named[(SIDE // 32,) * 2, (32, 32)](lambda: (zeros(SIDE, SIDE), floats(SIDE, SIDE)))


COPIES = ("Coalesced", "Strided2x", "Strided4x", "Misaligned1", "Misaligned16", "Misaligned32")
LAUNCHES = [
    *(copied(f"copyKernel{name}") for name in COPIES),
    *(in_tiles(f"{name}Kernel") for name in ("bankConflict", "paddingOptimized", "reordering")),
]
