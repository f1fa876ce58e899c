"""1am9trash/CUDA_SGEMM: seven matrix products, each with one idea more."""

from speed_calls.calls import at, floats, up

REPOSITORY = "1am9trash/CUDA_SGEMM"
N = 2048


def product(file, kernel, tile, threads, template=None):
    return at(f"src/kernels/{file}.cu", kernel, template=template, ladder="product")[
        (up(N, tile), up(N, tile)), threads
    ](lambda: (N, N, N, 1.0, floats(N, N), floats(N, N), 0.5, floats(N, N)))


LAUNCHES = [
    product("1_sgemm_naive", "sgemm_naive", 32, (32, 32)),
    product("2_sgemm_gmem_coalescing", "sgemm_global_mem_coalescing", 32, 1024, (32,)),
    product("3_sgemm_smem_caching", "sgemm_shared_mem_caching", 32, 1024, (32,)),
    product("4_sgemm_thread_tiling_1d", "sgemm_thread_tiling_1d", 64, 512, (64, 8, 64, 8)),
    product("5_sgemm_thread_tiling_2d", "sgemm_thread_tiling_2d", 128, 256, (128, 8, 128, 8, 8)),
    product("6_sgemm_thread_register", "sgemm_thread_register", 128, 256, (128, 8, 128, 8, 8)),
    product("7_sgemm_vectorize_access", "sgemm_vectorized_access", 128, 256, (128, 8, 128, 8, 8)),
]
