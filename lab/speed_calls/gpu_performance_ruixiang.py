"""RuixiangMa/gpu-performance-optimization: copies out of line."""

from speed_calls.calls import at, floats, zeros

REPOSITORY = "RuixiangMa/gpu-performance-optimization"
SIZE = 1 << 24


def copied(kernel):
    return at("Memory/Global-Memory/aligned_memory_optimization.cu", kernel, ladder="copy")[SIZE // 256, 256](
        lambda: (floats(SIZE), zeros(SIZE), SIZE)
    )


COPIES = ("Coalesced", "Strided2x", "Strided4x", "Misaligned1", "Misaligned16", "Misaligned32")
LAUNCHES = [copied(f"copyKernel{name}") for name in COPIES]
