"""SMShovan/CUDA-SpMV-Optimizations: products of a sparse matrix and a vector in float64."""

import torch

from speed_calls import calls
from speed_calls.calls import at, f64, floats, i32, integers, zeros

REPOSITORY = "SMShovan/CUDA-SpMV-Optimizations"
ROWS, EACH = 1 << 17, 32


def arguments():
    starts = torch.arange(ROWS + 1, dtype=i32, device=calls.device) * EACH
    values, columns = floats(ROWS * EACH, dtype=f64), integers(0, ROWS, ROWS * EACH)
    return values, columns, starts, floats(ROWS, dtype=f64), zeros(ROWS, dtype=f64), ROWS


def product(file, kernel, grid):
    return at(file, kernel, ladder="sparse")[grid, 256](arguments)


LAUNCHES = [
    product("v1_scalar_gpu/spmv_scalar_gpu.cu", "spmv_scalar_kernel", ROWS // 256),
    product("v2_vector_gpu/spmv_vector_gpu.cu", "spmv_vector_kernel", ROWS // 8),
    product("v3_warp_sync/spmv_warp_sync.cu", "spmv_warp_sync_kernel", ROWS // 8),
    product("v4_sharedmem_cache_x/spmv_sharedmem.cu", "spmv_sharedmem_kernel", ROWS // 8),
]
