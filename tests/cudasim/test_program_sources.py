"""What programs say in ways that nvcc takes: names, null pointers, streams, lanes that have left."""

import os
import platform
import subprocess
import sys

import pytest
from processes import patience

from cudasim.building.library import COUNTED_SIMULATOR, SIMULATOR
from cudasim.programs.building import Program, command

WARNS = "a mask names lanes that have returned"


@pytest.fixture(scope="module", autouse=True)
def built():
    """Both simulators, whose building shows a bar on the standard error."""
    SIMULATOR.build()
    COUNTED_SIMULATOR.build()


def run(folder, text: str, mode: str = "run") -> subprocess.CompletedProcess:
    (folder / "program.cu").write_text(text)
    command = [sys.executable, "-m", "cudasim", mode, "program.cu"]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=patience(300))


def test_names_that_are_the_simulators_and_the_programs(tmp_path):
    """A kernel may have a variable called warpSize, and be called kernel; a 0 may be a null pointer of a
    template; a constexpr function may assert; CUB brings <chrono>; a shift of a stream takes std::endl."""
    ran = run(
        tmp_path,
        r"""
#include <cassert>
#include <cstdio>
#include <iostream>
#include <cub/cub.cuh>

__host__ __device__ constexpr int half_of(int n) {
    assert(n % 2 == 0);
    return n / 2;
}
__global__ void kernel(int *to) {
    int warpSize = 16;
    to[threadIdx.x] = half_of(2 * warpSize);
}
template <class T> __global__ void adds(T *to, T by, const int *more) {
    to[threadIdx.x] += by + (more ? *more : 0);
}
int main() {
    auto begin = std::chrono::steady_clock::now();
    int *d, h[4];
    cudaMalloc(&d, sizeof h);
    kernel<<<1, 4>>>(d);
    adds<int><<<1, 4>>>(d, 0, 0);
    cudaMemcpy(h, d, sizeof h, cudaMemcpyDeviceToHost);
    cudaFree(d);
    cudaDeviceProp of;
    cudaGetDeviceProperties(&of, 0);
    std::ostream &out = std::cout;
    out << h[3] << ' ' << of.warpSize << ' ' << cub::Sum()(1L << 40, true) << std::endl;
    return std::chrono::steady_clock::now() < begin;
}
""",
    )
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, f"16 32 {2**40 + 1}\n", "")


@pytest.mark.parametrize("mode", ["run", "check"])
def test_lanes_that_have_returned_are_not_waited_for(tmp_path, mode):
    """Those that are left meet without them: they have no vote, and a value of theirs is no number."""
    ran = run(
        tmp_path,
        r"""
#include <cstdio>
__global__ void k(float *to, unsigned *votes) {
    if (threadIdx.x >= 8)
        return;
    float sum = 1;
    for (int step = 4; step; step /= 2)
        sum += __shfl_down_sync(0xffffffff, sum, step);
    to[threadIdx.x] = sum;
    votes[threadIdx.x] = __ballot_sync(0xffffffff, threadIdx.x != 1);
    __syncwarp();
}
int main() {
    float *d, h[8];
    unsigned *v, votes[8];
    cudaMalloc(&d, sizeof h);
    cudaMalloc(&v, sizeof votes);
    k<<<1, 32>>>(d, v);
    cudaMemcpy(h, d, sizeof h, cudaMemcpyDeviceToHost);
    cudaMemcpy(votes, v, sizeof votes, cudaMemcpyDeviceToHost);
    printf("%g %s %x\n", h[0], h[7] == h[7] ? "a number" : "none", votes[0]);
    cudaFree(d);
    cudaFree(v);
}
""",
        mode,
    )
    if mode == "run":
        assert (ran.returncode, ran.stdout) == (0, "8 none fd\n")
        assert ran.stderr.count(WARNS) == 1 and "program.cu:8" in ran.stderr
    else:
        assert ran.returncode != 0 and "missing lane" in ran.stderr and "program.cu:8" in ran.stderr


@pytest.mark.skipif(platform.machine() != "x86_64", reason="the instruction is looked at on x86-64 only")
@pytest.mark.parametrize("access", ["__sync_fetch_and_add(m, 5)", "*m += 5"])
def test_the_host_may_update_managed_memory_atomically_meanwhile(tmp_path, access):
    """On GPUs with concurrentManagedAccess; a plain update is told."""
    ran = run(
        tmp_path,
        rf"""
#include <cstdio>
__global__ void k(int *m) {{
    atomicAdd_system(m, 1);
}}
int main() {{
    int *m;
    cudaMallocManaged(&m, sizeof *m);
    *m = 0;
    k<<<1, 64>>>(m);
    {access};
    cudaDeviceSynchronize();
    printf("%d\n", *m);
    cudaFree(m);
}}
""",
    )
    if "sync" in access:
        assert (ran.returncode, ran.stdout, ran.stderr) == (0, "69\n", "")
    else:
        assert ran.returncode != 0 and "while k may still be writing" in ran.stderr


def test_gcc_links_what_nvcc_compiled(tmp_path):
    """As a Makefile with CUDA_DIR does: clock() and malloc() of a kernel are the device's all the same."""
    (tmp_path / "kernels.cu").write_text(r"""
#include <cstdio>
#include <curand_kernel.h>
texture<int, 1, cudaReadModeElementType> plain;
__global__ void reads(int *to) {
    to[threadIdx.x] += tex1Dfetch(plain, threadIdx.x + 1);
}
__global__ void kernel(int *to) {
    int *own = (int *)malloc(sizeof(int));
    *own = clock() >= 0 ? 5 : 6;
    to[threadIdx.x] = *own;
    free(own);
    if (to[0] == 7)
        exit(3);
}
extern "C" int on_gpu(int first) {
    int *d, h[4] = {first};
    curandGenerator_t generator; /* the header of kernels brings the host's */
    cudaSharedMemConfig banks;
    cudaFuncCache cache;
    cudaDeviceGetSharedMemConfig(&banks);
    cudaDeviceGetCacheConfig(&cache);
    cudaMalloc(&d, sizeof h);
    kernel<<<1, 4>>>(d);
    cudaBindTexture(NULL, &plain, d, &plain.channelDesc, sizeof h); /* as C has it */
    reads<<<1, 1>>>(d);
    cudaUnbindTexture(&plain);
    cudaMemcpy(h, d, sizeof h, cudaMemcpyDeviceToHost);
    cudaFree(d);
    (void)generator;
    return banks == cudaSharedMemBankSizeFourByte && cache == cudaFuncCachePreferNone ? h[0] + h[3] : 0;
}
""")
    (tmp_path / "main.c").write_text(
        "#include <stdio.h>\nint on_gpu(int);\nint main(void) {\n"
        '    printf("%d\\n", on_gpu(1));\n    return 0;\n}\n'
    )
    (tmp_path / "Makefile").write_text(
        "app: main.o kernels.o\n\tgcc $^ -o $@ -L$(CUDA_DIR)/lib64 -lcuda -lcudart -lm\n"
        "kernels.o: kernels.cu\n\t$(CUDA_DIR)/bin/nvcc -I$(CUDA_DIR)/include -O3"
        " --gpu-architecture=compute_20 --gpu-code compute_20 -c $<\n"
        "linked: main.o kernels.o\n\t$(CUDA_DIR)/bin/nvcc $^ -o $@ -lcuda -lcufft -lnvToolsExt\n"
    )
    command = [sys.executable, "-m", "cudasim", "toolkit", tmp_path / "cuda"]
    subprocess.run(command, check=True, timeout=patience(300))
    make = ["make", f"CUDA_DIR={tmp_path / 'cuda'}", "app", "linked"]
    made = subprocess.run(make, cwd=tmp_path, capture_output=True, text=True, timeout=patience(300))
    assert made.returncode == 0, made.stderr
    for name, folders in (("app", {"LD_LIBRARY_PATH": str(tmp_path / "cuda" / "lib64")}), ("linked", {})):
        ran = subprocess.run([tmp_path / name], env=os.environ | folders, capture_output=True, text=True)
        assert (ran.returncode, ran.stdout, ran.stderr) == (0, "15\n", "")


def test_a_c_source_may_call_the_runtime(tmp_path):
    """nvcc leaves it to the C compiler, where a void * becomes any pointer and functions have C's names."""
    (tmp_path / "part.h").write_text(
        '#ifdef __cplusplus\nextern "C" {\n#endif\nint *on_device(int n);\nint counted(void);\n'
        "int plain(void);\n#ifdef __cplusplus\n}\n#endif\n"
    )
    (tmp_path / "part.c").write_text(
        """#include "part.h"
#include <cuda_runtime.h>
#include <math.h>
#include <stdlib.h>
static int count;
int *on_device(int n) {
    int *host = malloc(n * sizeof(int)), *to;
    for (int i = 0; i < n; i++)
        host[i] = i;
    cudaEvent_t *events = calloc(1, sizeof *events);
    cudaEventCreate(events);
    cudaMalloc((void **)&to, n * sizeof(int));
    cudaMemcpy(to, host, n * sizeof(int), cudaMemcpyHostToDevice);
    cudaEventDestroy(*events);
    free(host);
    free(events);
    count += (int)sqrt(4.0);
    return to;
}
int counted(void) {
    return count;
}
"""
    )
    (tmp_path / "plain.c").write_text(
        '#include "part.h"\nint plain(void) {\n    int class = 3;\n    return class + counted();\n}\n'
    )
    (tmp_path / "main.cu").write_text(
        """#include "part.h"
#include <cstdio>
__global__ void sum(int *x, int n) {
    for (int i = 1; i < n; i++)
        x[0] += x[i];
}
int main() {
    int *x = on_device(5), y;
    sum<<<1, 1>>>(x, 5);
    cudaMemcpy(&y, x, sizeof y, cudaMemcpyDeviceToHost);
    cudaFree(x);
    printf("%d %d\\n", y, plain());
}
"""
    )
    program = Program(tuple(tmp_path / name for name in ("main.cu", "part.c", "plain.c")))
    runs = command("run", program.library("run"), "main", [])
    ran = subprocess.run(runs, capture_output=True, text=True, timeout=patience(300))
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "10 5\n", "")


def test_a_macro_with_arguments_may_stand_before_a_kernels_name(tmp_path):
    """Its launch leaves the template's arguments out."""
    source = tmp_path / "main.cu"
    source.write_text(
        """#include <cstdio>
#define BOUNDS(threads, blocks)
#define AT_MOST(threads) __launch_bounds__(threads)
template <class T>
__global__ void
BOUNDS (128, 2)
twice(const T* __restrict__ x, T* y)
{
    y[threadIdx.x] = x[threadIdx.x] * 2;
}
template <class T> __global__ void AT_MOST(64) thrice(const T *x, T *y) {
    y[threadIdx.x] = x[threadIdx.x] * 3;
}
__global__ BOUNDS(1, 1) void add(float *y) { y[threadIdx.x] += 1; }
int main() {
    float *x;
    cudaMallocManaged(&x, 8 * sizeof *x);
    for (int i = 0; i < 4; i++)
        x[i] = i;
    twice<<<1, 4>>>(x, x + 4);
    thrice<<<1, 4>>>(x + 4, x);
    add<<<1, 4>>>(x);
    cudaDeviceSynchronize();
    printf("%g %g\\n", x[1], x[3]);
    cudaFree(x);
}
"""
    )
    runs = command("run", Program((source,)).library("run"), "main", [])
    ran = subprocess.run(runs, capture_output=True, text=True, timeout=patience(300))
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "7 19\n", "")


IN_STEP = r"""
__global__ void sum(int *x) {
    volatile int *s = x; /* s[0] += s[1]; s[1] += s[0]; */
    if (threadIdx.x < 16) {
        s[threadIdx.x] += s[threadIdx.x + 16];
        WAIT s[threadIdx.x] += s[threadIdx.x + 8];
    }
    s[0] += s[0];
    s[1] += s[1];
}
int main() {}
"""


def test_code_that_wants_a_warp_in_step_is_told(tmp_path):
    ran = run(tmp_path, IN_STEP.replace("WAIT ", ""))
    assert (ran.returncode, ran.stderr.count("warning")) == (0, 1)
    assert "program.cu:6: lanes of a warp read s, which is volatile" in ran.stderr
    ran = run(tmp_path, IN_STEP.replace("WAIT", "__syncwarp();"))
    assert (ran.returncode, ran.stderr) == (0, "")


def test_brackets_of_a_launch_with_a_space_in_them(tmp_path):
    """As some formatters write them. What looks like them in a string or a comment stays as it is."""
    ran = run(
        tmp_path,
        r"""
#include <cstdio>
__global__ void fill(int *to, int by) {
    to[threadIdx.x] = by << 1;
}
template <class T> __global__ void adds(T *to) {
    to[threadIdx.x] += 1;
}
int main() {
    int *d, h[4];
    cudaMalloc(&d, sizeof h);
    fill << <1, 4 >> > (d, 3); // k << <1, 2 >> > (x)
    adds<int> << <dim3(1), 4, 0,
        0 >> >(d);
    cudaMemcpy(h, d, sizeof h, cudaMemcpyDeviceToHost);
    printf("%d k << <1, 2 >> > (x)\n", h[3]);
    return cudaFree(d) || cudaThreadExit();
}
""",
    )
    assert (ran.returncode, ran.stdout) == (0, "7 k << <1, 2 >> > (x)\n"), ran.stderr


def test_threads_that_wait_for_each_other_in_loops_get_on(tmp_path):
    """Each waits for the one behind it: with turns of 10 ms that would take 80 s."""
    ran = run(
        tmp_path,
        r"""
#include <cstdio>
#include <ctime>
__global__ void chain(volatile int *done) {
    int i = threadIdx.x;
    while (!done[i + 1])
        ;
    done[i] = done[i + 1] + 1;
}
int main() {
    int *d, h[129] = {};
    h[128] = 1;
    cudaMalloc(&d, sizeof h);
    cudaMemcpy(d, h, sizeof h, cudaMemcpyHostToDevice);
    chain<<<1, 128>>>(d);
    cudaMemcpy(h, d, sizeof h, cudaMemcpyDeviceToHost);
    cudaFree(d);
    printf("%d %g", h[0], (double)clock() / CLOCKS_PER_SEC);
}
""",
    )
    first, seconds = ran.stdout.split()
    assert (ran.returncode, first) == (0, "129")
    assert not ran.stderr or "is not done after 12 seconds" in ran.stderr  # on a machine with other work
    assert float(seconds) < patience(10)


@pytest.mark.parametrize("mode", ["run", "check"])
def test_much_memory_is_set_to_zero_and_no_more(tmp_path, mode):
    ran = run(
        tmp_path,
        r"""
#include <cstdio>
#include <vector>
int main() {
    const size_t bytes = (66 << 20) + 17, from = 4099, set = (64 << 20) + 5;
    unsigned char *d;
    std::vector<unsigned char> h(bytes);
    cudaMalloc(&d, bytes);
    cudaMemset(d, 7, bytes);
    cudaMemset(d + from, 0, set);
    cudaMemcpy(h.data(), d, bytes, cudaMemcpyDeviceToHost);
    cudaFree(d);
    size_t wrong = 0;
    for (size_t i = 0; i < bytes; i++)
        wrong += h[i] != (i < from || i >= from + set ? 7 : 0);
    printf("%zu wrong\n", wrong);
}
""",
        mode,
    )
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "0 wrong\n", "")


def test_tables_of_errors_name_all_of_them(tmp_path):
    """As helper_cuda.h of older samples does, which programs bring along."""
    ran = run(
        tmp_path,
        r"""
#include <cstdio>
const char *named(cudaError_t error) {
    switch (error) {
    case cudaErrorMissingConfiguration: return "configuration";
    case cudaErrorPriorLaunchFailure: return "prior";
    case cudaErrorMapBufferObjectFailed: return "map";
    case cudaErrorInvalidHostPointer: return "host";
    case cudaErrorApiFailureBase: return "base";
    default: return cudaGetErrorString(error);
    }
}
int main() {
    const cudaError_t of[] = {cudaErrorMissingConfiguration, cudaErrorStreamCaptureUnmatched,
                              cudaErrorStreamCaptureWrongThread, cudaErrorTimeout};
    for (cudaError_t error : of)
        printf("%d %s, %s\n", error, cudaGetErrorName(error), named(error));
}
""",
    )
    assert (ran.returncode, ran.stderr) == (0, "")
    assert ran.stdout.splitlines() == [
        "52 cudaErrorMissingConfiguration, configuration",
        "903 cudaErrorStreamCaptureUnmatched, capture was not ended in the same stream as it began",
        "908 cudaErrorStreamCaptureWrongThread, "
        "attempt to terminate a thread-local capture sequence from another thread",
        "909 cudaErrorTimeout, wait operation timed out",
    ]


def test_overloaded_kernels_of_another_source(tmp_path):
    """They are declared only, where they are launched; one has a default argument."""
    (tmp_path / "kernels.h").write_text(
        "__global__ void fill(int *x);\n__global__ void fill(int *x, int n);\n"
        "__global__ void __launch_bounds__(64) times(int *x, int by = 2);\n"
    )
    (tmp_path / "kernels.cu").write_text(
        '#include "kernels.h"\n__global__ void fill(int *x) { *x = 1; }\n'
        "__global__ void fill(int *x, int n) { *x = n; }\n"
        "__global__ void times(int *x, int by) { *x *= by; }\n"
    )
    (tmp_path / "main.cu").write_text(
        '#include "kernels.h"\n#include <cstdio>\nint main() {\n    int *x;\n    cudaMallocManaged(&x, 4);\n'
        "    fill<<<1, 1>>>(x);\n    times<<<1, 1>>>(x);\n    cudaDeviceSynchronize();\n    int first = *x;\n"
        "    fill<<<1, 1>>>(x, 5);\n    times<<<1, 1>>>(x, 3);\n    cudaDeviceSynchronize();\n"
        '    printf("%d %d\\n", first, *x);\n    cudaFree(x);\n}\n'
    )
    call = [sys.executable, "-m", "cudasim", "run", "main.cu", "kernels.cu"]
    ran = subprocess.run(call, cwd=tmp_path, capture_output=True, text=True, timeout=patience(300))
    assert (ran.stdout, ran.stderr, ran.returncode) == ("2 15\n", "", 0)


def test_a_library_in_one_header_has_its_code_where_a_macro_asks_for_it(tmp_path):
    """Another header has included it before, for its declarations."""
    (tmp_path / "one.h").write_text(
        "#ifndef ONE_H\n#define ONE_H\nint one();\n#endif // ONE_H\n"
        "#ifdef ONE_IMPLEMENTATION\nint one() { return 1; }\n#endif\n"
    )
    (tmp_path / "shows.h").write_text('#pragma once\n#include "one.h"\n')
    text = '#include "shows.h"\n#define ONE_IMPLEMENTATION\n#include "one.h"\nint main() { return one(); }\n'
    ran = run(tmp_path, text)
    assert (ran.stderr, ran.returncode) == ("", 1)


def test_operators_of_the_device_are_no_variables_of_it(tmp_path):
    ran = run(
        tmp_path,
        r"""
#include <cstdio>
struct pair { int a, b; };
__host__ __device__ pair operator*(int by, const pair &of);
__host__ __device__ pair operator+(const pair &a, const pair &b);
__device__ int operator-(const pair &of);
__device__ int count, most = 3;
__host__ __device__ pair operator*(int by, const pair &of) { return {by * of.a, by * of.b}; }
__host__ __device__ pair operator+(const pair &a, const pair &b) { return {a.a + b.a, a.b + b.b}; }
__device__ int operator-(const pair &of) { return of.a - of.b; }
__global__ void k() { count = most * -(2 * pair{7, 3} + pair{1, 0}); }
int main() {
    k<<<1, 1>>>();
    int h;
    cudaMemcpyFromSymbol(&h, count, sizeof h);
    printf("%d\n", h);
}
""",
    )
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "27\n", "")
