"""Zlatanwic/Paged-KV-Cache-CUDA-Kernel-Optimization-for-LLM-Decoding: one query, keys in pages."""

import torch

from speed_calls import calls
from speed_calls.calls import Timed, f32, floats, i32, zeros

REPOSITORY = "Zlatanwic/Paged-KV-Cache-CUDA-Kernel-Optimization-for-LLM-Decoding"
SEQUENCES, HEADS, WIDTH, PAGE, LENGTH = 16, 16, 128, 16, 512
PAGES = LENGTH // PAGE
WARPS = 8
MERGE = WIDTH + 2 * WARPS + WARPS * WIDTH


def attention(kernel, words):
    def arguments():
        cache = (SEQUENCES * PAGES, HEADS, PAGE, WIDTH)
        pages = torch.randperm(SEQUENCES * PAGES, device=calls.device).to(i32)
        lengths = torch.full((SEQUENCES,), LENGTH, dtype=i32, device=calls.device)
        query = (SEQUENCES, HEADS, WIDTH)
        tensors = (floats(*query), floats(*cache), floats(*cache), zeros(*query, dtype=f32), pages, lengths)
        return (*tensors, HEADS, PAGE, WIDTH, PAGES, WIDTH**-0.5)

    grid = (SEQUENCES, HEADS)
    file = "cuda_kernel/paged_gather.cu"
    return Timed(file, kernel, grid, 32 * WARPS, arguments, shared=4 * words, ladder="attention")


LAUNCHES = [
    attention("fused_paged_attention_kernel", MERGE),
    attention("fused_paged_attention_kernel_layout_b", MERGE),
    attention("fused_paged_attention_v3_kernel", MERGE + PAGE * WIDTH),
]
