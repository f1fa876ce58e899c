"""Whole programs: they run as they would on a GPU, and each mistake is told with its place."""

import csv
import functools
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from processes import patience

import cudasim
from cudasim import __main__ as commands
from cudasim.building.library import COUNTED_SIMULATOR, SIMULATOR
from cudasim.programs.building import Program, command

FOLDER = Path(__file__).parent / "programs"
ROOT = Path(cudasim.__file__).parents[1]


@pytest.fixture(scope="module", autouse=True)
def built():
    """Both simulators, whose building shows a bar on the standard error."""
    SIMULATOR.build()
    COUNTED_SIMULATOR.build()


def cudasim_command(*arguments, folder=FOLDER) -> subprocess.CompletedProcess:
    command = [sys.executable, "-m", "cudasim", *map(str, arguments)]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=patience(300))


@functools.cache
def built_mistakes(mode: str) -> Path:
    return Program((FOLDER / "mistakes.cu",)).library(mode)


@functools.cache
def mistake(which: str, mode: str = "check") -> subprocess.CompletedProcess:
    """The program without what `python -m cudasim` does before it."""
    runs = command(mode, built_mistakes(mode), "mistakes", [which])
    return subprocess.run(runs, capture_output=True, text=True, timeout=patience(300))


def test_a_program_runs_and_ends_with_its_own_code():
    ran = cudasim_command("run", "vector_add.cu", "--", 5000)
    assert ran.stdout == "5000 elements, 0 wrong, 2 on NVIDIA H100 80GB HBM3 with warps of 32\n", ran.stderr
    assert ran.returncode == 0 and ran.stderr == ""
    assert mistake("exception", "run").returncode == 5
    assert mistake("exception", "run").stdout == "caught host\n"
    assert mistake("abort", "run").returncode == -6


def test_a_right_program_is_checked_without_a_word():
    ran = cudasim_command("check", "vector_add.cu", "--gpu", "T4", "--", 700)
    assert (ran.returncode, ran.stderr) == (0, "")
    assert ran.stdout == "700 elements, 0 wrong, 2 on Tesla T4 with warps of 32\n"


@pytest.mark.parametrize("mode", ["run", "check"])
@pytest.mark.parametrize(
    "program",
    [
        *("destructors", "graphs", "halves", "kept_arguments", "launch_attributes", "less_common_calls"),
        *("graph_nodes", "heap", "nested", "newer_calls", "queries", "textures"),
    ],
)
def test_parts_of_the_runtime(program, mode):
    """Each program compares with what its host computes, and says ok."""
    ran = cudasim_command(mode, f"{program}.cu")
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "ok\n", "")


def test_what_is_compiled_once_lays_out_vectors_as_the_program_does():
    ran = cudasim_command("run", "-D", "_GLIBCXX_DEBUG", "graphs.cu")
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "ok\n", "")


@pytest.mark.parametrize(("mode", "what"), [("run", "crash"), ("check", "out of bounds")])
@pytest.mark.parametrize(
    ("program", "memory", "owner", "without"),
    [
        ("devices", r"of\[i\]", 1, r"cudaDeviceEnablePeerAccess\(\)"),
        ("pools", "y", 0, r"cudaMemPoolSetAccess\(\)"),
    ],
)
def test_memory_of_a_device_or_a_pool_is_its_own(mode, what, program, memory, owner, without):
    ran = cudasim_command(mode, "--gpus", 2, f"{program}.cu")
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "ok\n", "")
    ran = cudasim_command(mode, "--gpus", 2, f"{program}.cu", "--", "without access")
    assert ran.stdout == ("ok\n" if program == "devices" else "")
    assert re.search(
        rf"cudasim: {what} in \w+ \({program}\.cu:\d+\): .* {memory} of device {owner} \(cudaMalloc\w* at "
        rf"{program}\.cu:\d+\), whose memory the kernel of device {1 - owner} may not access "
        rf"without {without}",
        ran.stderr,
    )


def test_a_divergent_barrier_is_passed_with_a_warning_and_checked_with_an_error():
    ran = cudasim_command("run", "divergence.cu")
    assert (ran.returncode, ran.stdout) == (0, "0 wrong\n")
    assert re.fullmatch(
        r"cudasim: warning: divergence\.cu:\d+: threads of a warp come to different .*\n", ran.stderr
    )
    assert "barrier divergence in k" in cudasim_command("check", "divergence.cu").stderr


def test_sources_in_c_and_the_host_s_own_assembly(tmp_path):
    (tmp_path / "twice.c").write_text("int *twice(int *class) { *class *= 2; return class; }\n")  # no C++
    (tmp_path / "main.cu").write_text("""#include <cstdio>
extern "C" int *twice(int *);
static void host() { asm volatile("nop" ::: "memory"); }
__global__ void k(int *y) { asm("add.s32 %0, %1, 1;" : "=r"(*y) : "r"(*y)); }
int main() {
    int n = 3, *y; host(); cudaMalloc(&y, 4);
    cudaMemcpy(y, twice(&n), 4, cudaMemcpyHostToDevice); k<<<1, 1>>>(y);
    cudaMemcpy(&n, y, 4, cudaMemcpyDeviceToHost); cudaFree(y); printf("%d\\n", n);
}
""")
    ran = cudasim_command("run", "main.cu", "twice.c", folder=tmp_path)
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "7\n", "")
    (tmp_path / "main.cu").write_text('__global__ void k() { asm("nop"); }\nint main() { k<<<1, 1>>>(); }\n')
    assert (
        "main.cu:1:0: error: inline PTX, here `nop`"
        in cudasim_command("run", "main.cu", folder=tmp_path).stderr
    )


def test_launches_between_macros_and_around_directives(tmp_path):
    (tmp_path / "main.cu").write_text("""
#define CHECK { if (cudaGetLastError()) return 1; }
template <class T> __global__ void add(T *x, T by) { *x += by; }
int main() {
    int *x, h = 2;
    cudaMalloc(&x, 4); CHECK
    cudaMemcpy(x, &h, 4, cudaMemcpyHostToDevice); CHECK
    add<int> <<< 1, 1 >>>
        (x, 3); CHECK
    add<<<1, 1
#ifdef MORE
        , MORE
#endif
        >>>(x, 4
#ifdef MORE
        + MORE
#endif
        );
    cudaMemcpy(&h, x, 4, cudaMemcpyDeviceToHost);
    cudaFree(x);
    return h;
}
""")
    ran = cudasim_command("run", "main.cu", folder=tmp_path)
    assert (ran.returncode, ran.stderr) == (9, "")


def test_a_template_of_a_template_needs_no_word_for_it(tmp_path):
    (tmp_path / "main.cu").write_text("""
template <class T> struct cast_of {
    template <int N> static __device__ T to(T x) { return x * N; }
    template <int N> static __device__ T of() { return N; }
};
template <class T> __global__ void scale(T *x) { *x = cast_of<T>::to<3>(*x) + cast_of<T>::of<1>(); }
int main() {
    float *x, h = 2;
    cudaMalloc(&x, 4);
    cudaMemcpy(x, &h, 4, cudaMemcpyHostToDevice);
    scale<<<1, 1>>>(x);
    cudaMemcpy(&h, x, 4, cudaMemcpyDeviceToHost);
    cudaFree(x);
    return (int)h;
}
""")
    ran = cudasim_command("run", "main.cu", folder=tmp_path)
    assert (ran.returncode, ran.stderr) == (7, "")


def test_a_source_in_cpp_without_cuda_may_use_its_names(tmp_path):
    (tmp_path / "host.h").write_text("#include <assert.h>\nint smaller(int a, int b);\n")
    (tmp_path / "host.cpp").write_text("""#include "host.h"
struct float4 { char x; };
static unsigned umin(unsigned a, unsigned b) { return a < b ? a : b; }
int smaller(int a, int b) { return umin(a, b) + sizeof(float4); }
""")
    (tmp_path / "main.cu").write_text("""#include "host.h"
__global__ void k(unsigned *y) { *y = umin(*y, 7u); }
int main() { unsigned n = smaller(9, 8); assert(n == 9); return 5; }
""")
    (tmp_path / "kernels.cpp").write_text("int made(float2 x) { return x.x; }\n")  # as with `-x cu`
    ran = cudasim_command("run", "main.cu", "host.cpp", "kernels.cpp", folder=tmp_path)
    assert (ran.returncode, ran.stderr) == (5, "")


@pytest.mark.parametrize(
    ("which", "printed"),
    [
        ("managed_is_right", "3\n2016\ndone\n"),
        ("dynamic_shared", "2\ndone\n"),
        ("cooperative", "28\ndone\n"),
        ("dynamic_asked", "[cudaErrorInvalidValue] [cudaErrorInvalidValue] done\n"),
        ("heap", "t0 t1 t2 t3 6\ndone\n"),
        ("too_large", "[cudaErrorMemoryAllocation] 85899345660 85899345920\ndone\n"),
        ("waits_for_stream", "7\ndone\n"),
        ("waits_for_event", "7\ndone\n"),
        ("rows", "3 13 done\n"),
    ],
)
def test_what_is_right_is_not_told(which, printed):
    for mode in ("run", "check"):
        ran = mistake(which, mode)
        assert (ran.stdout, ran.stderr, ran.returncode) == (printed, "", 0)


PINNED = ("while cudaMemcpyAsync may still be writing", 'printf("%d\\n", p[0])', "nothing has waited")
# In a checked program: what is told, with which line, and what the program itself sees of it.
MISTAKES = {
    "overrun": ("out of bounds", "x[threadIdx.x + 1] = n", "writes 4 bytes at d[64], which has 64 elements"),
    "race": ("race", "x[threadIdx.x] = s[63", "nothing to order it after"),
    "unwritten": ("unwritten memory", "s += x[i]", "reads d[0]"),
    "assertion": ("assertion", "assert(threadIdx.x < 3)", "to be false"),
    "host_pointer": ("out of bounds", "x[i] = i", "in memory of the host (0x"),
    "freed": ("out of bounds", "x[i] = i", "writes 4 bytes in gone (cudaMalloc at mistakes.cu:"),
    "bounds": ("invalid launch", "__launch_bounds__(32", "is one of 64 of its block"),
    "left": ("uninitialised", "= s[63", "; 16 of its 64 threads have left the kernel by `return` before"),
    "host_reads_device": (
        "the host code accesses byte 12 of d",
        'printf("%d\\n", d[3])',
        "memory of the GPU",
    ),
    "host_reads_managed": (
        "byte 12 of m (cudaMallocManaged",
        'printf("%d\\n", m[3])',
        "while fill may still be writing",
    ),
    "memset_goes_on": ("byte 8 of m (cudaMallocManaged", "m[2]++", "while cudaMemset may still be writing"),
    "pinned": PINNED,
    "other_stream": PINNED,
    "null": ("the host code accesses address", "*(volatile int *)0 = 1", "where no memory is"),
    "direction": (
        "cudaMemcpyDeviceToHost, but the host's memory",
        "cudaMemcpyDeviceToHost",
        "to the device's",
    ),
    "too_long": ("writes 300 bytes from byte 0 on of d, which has 256", "300", "allocated at mistakes.cu:"),
    "frees_host": ("which no call has given", "cudaFree(h)", "cudaFree"),
    "frees_inside": ("which is inside an allocation", "cudaFree(d + 1)", "cudaFree"),
    "frees_twice": ("frees d (cudaMalloc at mistakes.cu:", "cudaFree(d)", "which was freed at mistakes.cu:"),
    "copies_freed": (
        "reads from gone (cudaMalloc at mistakes.cu:",
        "cudaMemcpy(h, gone, 256",
        "which was freed at mistakes.cu:",
    ),
    "fills_freed": (
        "sets gone (cudaMalloc at mistakes.cu:",
        "cudaMemset(gone",
        "which was freed at mistakes.cu:",
    ),
    "beyond_table": (
        "writes 256 bytes from byte 0 on of table, which has 32 (a variable of the program)",
        "cudaMemcpyToSymbol(table",
        "cudaMemcpyToSymbol",
    ),
    "children": ("out of bounds in child", "x[at] = 1", "d["),
    "many": (
        "t: 300 allocations, of 19200 bytes in all, were never freed",
        "cudaMalloc(&t, 64)",
        "cudaMalloc",
    ),
    "synchronizes": ("calls the CUDA runtime", "x[0] = cudaDeviceSynchronize()", "which is the host's"),
    "dynamic_limit": ("50000 bytes of dynamic shared memory are more than 49152", "50000>>>", "on this GPU"),
    "static_limit": (
        "48000 bytes of dynamic shared memory are more than 45056, which are what a launch may have besides "
        "the 4096 of its __shared__ arrays",
        "48000>>>",
        "asks for up to 228352 on this GPU",
    ),
    "heap_race": ("race in heap_race (mistakes.cu:", "own[threadIdx.x] = threadIdx.x", "from malloc()["),
    "not_cooperative": ("comes to a barrier of the grid", "g.sync()", "the launch is not cooperative"),
    "configuration": ("block (2000, 1, 1) is larger", "", "invalid launch in fill"),
}
LINES = (FOLDER / "mistakes.cu").read_text().splitlines()


@pytest.mark.parametrize("which", MISTAKES)
def test_each_mistake_is_told_with_its_line(which):
    told, line, more = MISTAKES[which]
    ran = mistake(which)
    assert told in ran.stderr and more in ran.stderr, ran.stderr
    assert ran.returncode in (1, -11)
    if line:
        places = [f"mistakes.cu:{number}" for number, text in enumerate(LINES, 1) if line in text]
        assert any(place in ran.stderr for place in places), (places, ran.stderr)


def test_what_many_children_do_is_told_once():
    assert mistake("children").stderr.count("out of bounds in child") == 1


def test_writes_of_the_same_value_are_a_warning():
    ran = mistake("same_value")
    assert "cudasim: warning: race in same (mistakes.cu:" in ran.stderr and "the same value" in ran.stderr
    assert (ran.returncode, ran.stdout) == (0, "done\n")


def test_errors_are_as_cuda_has_them():
    """A kernel's error comes with the call that waits and stays; a launch's own comes at once and goes."""
    assert mistake("overrun").stdout == "[cudaErrorIllegalAddress] [cudaErrorIllegalAddress] done\n"
    assert mistake("configuration").stdout == "[cudaErrorInvalidConfiguration] done\n"
    assert mistake("assertion").stdout == "[cudaErrorAssert] done\n"
    assert mistake("direction").stdout == mistake("too_long").stdout == "[cudaErrorInvalidValue] done\n"


def test_launches_are_counted(tmp_path):
    table = tmp_path / "launches.csv"
    ran = cudasim_command("count", "vector_add.cu", "--csv", table, "--", 5000)
    assert ran.returncode == 0, ran.stderr
    rows = list(csv.DictReader(table.open()))
    assert [row["kernel"] for row in rows] == ["add", "scale"]
    assert rows[0]["smsp__sass_data_bytes_mem_global_op_st.sum"] == str(5000 * 4)
    assert rows[1]["barriers"] == str(8 * 20)
    assert "smsp__sass_data_bytes_mem_global_op_st.sum" in cudasim_command("count", "vector_add.cu").stderr


def test_an_executable_and_its_objects(tmp_path):
    (tmp_path / "main.cu").write_text(
        "#include <stdio.h>\nvoid twice(int *x, int n);\n__managed__ int unused;\n"
        "int main() { int *x; cudaMallocManaged(&x, 8); x[0] = N; x[1] = 5; twice(x, 2);\n"
        'printf("%d %d\\n", x[0], x[1]); '
        "if (x[0] > 6) { int *d; cudaMalloc(&d, 4); *d = 1; } return cudaFree(x); }\n"
    )
    (tmp_path / "twice.cu").write_text(
        '#include "by.h"\n__global__ void by_two(int *x, int n) {\n'
        "    if (threadIdx.x < n) x[threadIdx.x] *= BY;\n}\n"
        "void twice(int *x, int n) { by_two<<<1, 32>>>(x, n); cudaDeviceSynchronize(); }\n"
    )
    (tmp_path / "include").mkdir()
    (tmp_path / "include" / "by.h").write_text("#define BY 2\n")
    assert cudasim_command("build", "-c", "twice.cu", "-Iinclude", folder=tmp_path).returncode == 0
    built = cudasim_command("build", "main.cu", "twice.o", "-DN=3", "-o", "app", folder=tmp_path)
    assert built.returncode == 0, built.stderr
    ran = subprocess.run([tmp_path / "app"], capture_output=True, text=True)
    assert (ran.stdout, ran.returncode, ran.stderr) == ("6 10\n", 0, "")
    cudasim_command("build", "main.cu", "twice.o", "-DN=4", "-o", "app", folder=tmp_path)
    ran = subprocess.run([tmp_path / "app"], capture_output=True, text=True)
    assert (ran.stdout, ran.returncode) == ("8 10\n", -11)
    assert (
        "the host code accesses byte 0 of d, which is memory of the GPU (cudaMalloc at main.cu:" in ran.stderr
    )


def test_a_program_that_does_not_compile_shows_its_line(tmp_path):
    refused = "cudaGraphicsUnregisterResource"
    for call, told in (
        ("cudaNoSuchFunction(x)", "wrong.cu:3:5: error: "),
        (f"{refused}(x)", f"wrong.cu:3: {refused} is not there: "),
    ):
        (tmp_path / "wrong.cu").write_text(f"int main() {{\n    int *x;\n    {call};\n}}\n")
        ran = cudasim_command("run", "wrong.cu", folder=tmp_path)
        assert ran.returncode == 1 and told in ran.stderr and call.partition("(")[0] in ran.stderr
    (tmp_path / "missing.cu").write_text("void nowhere();\nint main() { nowhere(); }\n")
    ran = cudasim_command("run", "missing.cu", folder=tmp_path)
    assert ran.returncode == 1 and "error: nowhere() is called, and neither the program" in ran.stderr
    assert cudasim_command("run", "absent.cu", folder=tmp_path).returncode == 2


def test_host_code_keeps_its_own_names_and_values(tmp_path):
    """A host's variables may be called as CUDA's built-in ones, and its arithmetic is C++'s."""
    (tmp_path / "names.cu").write_text(
        "#include <iostream>\n"
        "struct config { dim3 gridDim, blockDim; };\n"
        "__global__ void k(int *x) { x[blockIdx.x * blockDim.x + threadIdx.x] = (int)1e30f; }\n"
        "template <int N> __global__ void t(int *x, float *none) { x[0] += N + (none != 0); }\n"
        "static void launch(dim3 gridDim, dim3 blockDim, int *x) { k<<<gridDim, blockDim>>>(x); }\n"
        "#define GO(x) t<3><<<1, 1>>>(x, NULL)\n"
        "int main() {\n"
        "    config c = {dim3(2), dim3(4)};\n"
        "    int threadIdx = 9, *x, h[8];\n"
        "    cudaMalloc(&x, sizeof h);\n"
        "    launch(c.gridDim, c.blockDim, x);\n"
        "    GO(x);\n"
        "    cudaMemcpy(h, x, sizeof h, cudaMemcpyDeviceToHost);\n"
        '    std::cout << threadIdx << " " << (h[7] == 0x7fffffff) << " " << h[0] << std::endl;\n'
        "}\n"
    )
    ran = cudasim_command("run", "names.cu", folder=tmp_path)
    assert ran.stdout == "9 1 -2147483646\n", ran.stderr


def test_both_commands_are_the_same(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty.cu").write_text("int main() {}\n")
    assert commands.main(["build", "empty.cu"]) == 0 and (tmp_path / "a.out").is_file()
    assert Program((tmp_path / "empty.cu",)).library("run").is_file()


def test_a_makefile_names_the_compiler(tmp_path):
    """What nvcc is told of a GPU means nothing here; what it hands to the C++ compiler is handed over."""
    (tmp_path / "main.cu").write_text(
        "#include <atomic>\n#include <thread>\n#include <stdio.h>\n"
        "struct base { virtual int value() { return 1; } };\n"
        "struct derived : base { int value() override { return N; } };\n"
        "__global__ void add(int *x, int by) { atomicAdd(x, by); }\n"
        "int main() {\n    int *x, h = 0;\n    std::atomic<int> calls{0};\n    base *object = new derived;\n"
        "    cudaMalloc(&x, 4);\n    cudaMemcpy(x, &h, 4, cudaMemcpyHostToDevice);\n"
        "    auto each = [&] { add<<<2, 32>>>(x, object->value()); cudaDeviceSynchronize(); calls++; };\n"
        "    std::thread one(each), two(each);\n    one.join();\n    two.join();\n"
        "    cudaMemcpy(&h, x, 4, cudaMemcpyDeviceToHost);\n    cudaFree(x);\n"
        '    printf("%d %d\\n", h, calls.load());\n    delete object;\n}\n'
    )
    (tmp_path / "Makefile").write_text(
        "app: main.o\n\ttouch more.c\n\t$(CC) -arch=sm_80 $^ -o $@ more.c -lcudart\n"
        "main.o: main.cu\n\t$(CC) -O3 -std=c++11 -gencode arch=compute_80,code=sm_80 -lineinfo"
        " -Xcompiler -Wall,-DN=3 --expt-relaxed-constexpr --x cu --default-stream per-thread -c $< -o $@\n"
    )
    compiler = tmp_path / "nvcc"  # the toolkit's name for it; make also calls it the host's compiler
    call = f"{sys.executable} -c 'import sys; from cudasim.__main__ import nvcc; sys.exit(nvcc())'"
    compiler.write_text(f'#!/bin/sh\nexec {call} "$@"\n')
    compiler.chmod(0o755)
    made = subprocess.run(["make", f"CC={compiler}"], cwd=tmp_path, capture_output=True, text=True)
    assert made.returncode == 0, made.stderr
    assert subprocess.run([tmp_path / "app"], capture_output=True, text=True).stdout == "384 2\n"
    checked = cudasim_command("check", "main.cu", "-DN=3", folder=tmp_path)
    assert (checked.stdout, checked.stderr, checked.returncode) == ("384 2\n", "", 0)


def test_of_overloaded_kernels_the_arguments_choose_and_limits_are_kept(tmp_path):
    (tmp_path / "main.cu").write_text(
        "#include <cstdio>\n"
        "__global__ void fill(int *x) {\n    *x = 1;\n}\n"
        "__global__ void fill(int *x, int n) {\n    *x = n;\n}\n"
        "int main() {\n    int *x, h[2];\n    size_t limit;\n    cudaMalloc(&x, sizeof(int));\n"
        "    fill<<<1, 1>>>(x);\n    cudaMemcpy(h, x, sizeof(int), cudaMemcpyDeviceToHost);\n"
        "    fill<<<1, 1>>>(x, 5);\n    cudaMemcpy(h + 1, x, sizeof(int), cudaMemcpyDeviceToHost);\n"
        "    cudaDeviceSetLimit(cudaLimitMallocHeapSize, 4096);\n"
        "    cudaDeviceGetLimit(&limit, cudaLimitMallocHeapSize);\n"
        '    printf("%d %d %zu\\n", h[0], h[1], limit);\n    cudaFree(x);\n}\n'
    )
    ran = cudasim_command("run", "main.cu", folder=tmp_path)
    assert (ran.stdout, ran.stderr, ran.returncode) == ("1 5 4096\n", "", 0)


def test_an_inlined_function_may_call_itself_and_headers_stand_for_libraries(tmp_path):
    (tmp_path / "main.cu").write_text(
        "#include <cstdio>\n"
        "__device__ __forceinline__ int odd(int n, int *x);\n"
        "__device__ __forceinline__ int even(int n, int *x) {\n"
        "    return n == 0 ? 1 : odd(n - 1, x) + *x;\n}\n"
        "__device__ __forceinline__ int odd(int n, int *x) {\n"
        "    return n == 0 ? 0 : even(n - 1, x) * 2;\n}\n"
        "__global__ void fill(int *x, int n) {\n    *x = 0;\n    *x = even(n, x);\n}\n"
        "int main() {\n    int *x, h;\n    cudaMalloc(&x, sizeof h);\n    fill<<<1, 1>>>(x, 4);\n"
        "    cudaMemcpy(&h, x, sizeof h, cudaMemcpyDeviceToHost);\n"
        '    printf("%d\\n", h);\n    cudaFree(x);\n}\n'
    )
    built = cudasim_command("build", "-c", "main.cu", "-o", "main.obj", folder=tmp_path)
    assert (built.stderr, built.returncode) == ("", 0)
    linked = ("main.obj", "-lcurand", "-lnvToolsExt", "-lcudart", "-o", "app")
    built = cudasim_command("build", *linked, folder=tmp_path)
    assert (built.stderr, built.returncode) == ("", 0)
    ran = subprocess.run([tmp_path / "app"], capture_output=True, text=True)
    assert (ran.stdout, ran.stderr, ran.returncode) == ("4\n", "", 0)


def test_a_cell_with_a_main_runs_it_and_has_its_kernels(capfd):
    from IPython.core.interactiveshell import InteractiveShell

    shell = InteractiveShell()
    assert shell.run_cell("%load_ext cudasim").success
    cell = (
        "#include <stdio.h>\n#include <stdlib.h>\n"
        "__global__ void fill(int *x, int n) { if (threadIdx.x <= n) x[threadIdx.x] = n; }\n"
        "int main(int count, char **arguments) {\n"
        "    int *x, h[8], n = count > 1 ? atoi(arguments[1]) : 3;\n"
        "    cudaMalloc(&x, sizeof h);\n"
        "    fill<<<1, 32>>>(x, n);\n"
        "    cudaMemcpy(h, x, sizeof h, cudaMemcpyDeviceToHost);\n"
        '    printf("got %d\\n", h[1]);\n'
        "    return cudaFree(x);\n}\n"
    )
    assert shell.run_cell("%%cuda\n" + cell).success
    assert "got 3\n" in capfd.readouterr().out and "fill" in shell.user_ns
    assert shell.run_cell("%%cuda --check -- 30\n" + cell).success
    said = capfd.readouterr()
    assert "out of bounds in fill (cell.cu:" in said.out and "x[8], which has 8 elements" in said.out
    assert "main() has ended with code" in said.err
    assert shell.run_cell("%%cuda\n" + cell.replace("cudaFree(x)", "cublasCreate(x)")).success
    assert "main() was not run" in capfd.readouterr().err
    assert shell.run_cell("%%cuda\nint main() { return 4; }").success
    assert "main() has ended with code 4" in capfd.readouterr().err


def test_pytest_checks_programs_and_the_kernels_that_tests_launch(tmp_path):
    fault = "__global__ void k(int *x) { x[threadIdx.x] = 1; }\n"
    host = "int main() { int *x; cudaMalloc(&x, 64); k<<<1, %d>>>(x); return cudaFree(x); }\n"
    (tmp_path / "right.cu").write_text(fault + host % 16)
    (tmp_path / "wrong.cu").write_text(fault + host % 17)
    (tmp_path / "kernels.cu").write_text(fault)  # no program
    (tmp_path / "test_kernels.py").write_text(
        "import numpy as np, cudasim\n"
        "last = cudasim.kernel('__global__ void last(int *x) { x[0] = threadIdx.x; }')\n"
        "def test_race():\n    last[1, 32](np.zeros(1, np.int32))\n"
        "def test_right():\n    last[1, 1](np.zeros(1, np.int32))\n"
    )

    def results(*options) -> tuple[str, str]:
        plugin = ["-p", "cudasim.programs.pytest_plugin"]
        call = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-rfE", *plugin, *options]
        environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
        ran = subprocess.run(
            call, cwd=tmp_path, capture_output=True, text=True, timeout=patience(300), env=environment
        )
        return ran.stdout.strip().splitlines()[-1], ran.stdout

    assert results()[0].startswith("1 failed, 1 passed")  # small launches are always checked
    counts, said = results("--cudasim")
    assert counts.startswith("2 failed, 2 passed"), said
    assert "out of bounds in k (wrong.cu:1): thread (16, 0, 0)" in said
    assert "KernelFault: race in last" in said
