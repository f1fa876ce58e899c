"""What is said of the mistakes that people make first: a mistyped name, a write to an input, no kernel."""

import re

import numpy as np
import pytest

import cudasim
from cudasim.building.library import BuildError
from cudasim.counting.trace import record
from cudasim.live import compiling, messages
from cudasim.live.cells import CellError, _define
from cudasim.live.loops import loop_around
from cudasim.live.messages import nearest
from cudasim.live.translation import with_own_name

KERNEL = "__global__ void scale({parameters}) {{ int i = threadIdx.x; {body} }}\n"

# Parameters, body, what is said, and what is not.
SAID = {
    "type of a parameter": ("flaot *y", "y[i] = 0;", ("flaot", "float"), ("declared void",)),
    "type of a variable": ("float *y", "flaot z = 1; y[i] = z;", ("flaot", "float"), ("declare it before",)),
    "a short type": ("float *y, itn n", "y[i] = n;", ("itn", "did you mean int?"), ()),
    "a function": ("float *y", "__syncthread(); y[i] = 0;", ("__syncthread", "__syncthreads"), ()),
    "a member of a built-in": (
        "float *y",
        "int k = threadIdx.X, width = 2 * i;\nif (k < width) y[i] = 0;",
        ("no member named X", "did you mean x?"),
        ("declares X", "wcwidth"),
    ),
    "a member of a vector": ("float4 *y", "y[i].q = 0;", ("no member named q",), ("declares q",)),
    "a built-in": ("float *y", "y[i] = blokDim.x;", ("blokDim", "blockDim"), ()),
    "own": ("float *y, int columns", "y[i] = colums * columns;", ("colums", "columns"), ()),
    "a write to an input": (
        "float *y, const float *x",
        "y[i] = 1; x[blockIdx.x] = 2;",
        ("x is const", "input", "cannot write"),
        ("sim_", "sizetype"),
    ),
    "an increment of an input": ("float *y, const float *x", "y[i] = 1; x[i]++;", ("x is const",), ("sim_",)),
    "one before an input": ("float *y, const float *x", "y[i] = 1; ++x[i];", ("x is const",), ("sim_",)),
}


@pytest.mark.parametrize("case", SAID)
def test_what_is_said_of_a_mistake(case):
    parameters, body, said, unsaid = SAID[case]
    with pytest.raises(CellError) as caught:
        _define("", KERNEL.format(parameters=parameters, body=body))
    text = re.sub("['‘’]", "", str(caught.value))  # a compiler that asks the same quotes the name
    assert all(words in text for words in said) and not any(words in text for words in unsaid), text
    assert "scale.cu:2" in text, "the error has its line"


@pytest.mark.parametrize(
    ("cell", "said"),
    [
        (
            "void scale(float *y) { y[0] = 0; }\n",
            "cell.cu:2: error: scale() is no kernel: write __global__ before",
        ),
        ("__gloabl__ void scale(float *y) { y[0] = 0; }\n", "__gloabl__: did you mean __global__?"),
        ("int x;\n", "expected a function that begins with `__global__ void`"),
        ("__global__ scale(float *y) { y[0] = 0; }\n", "a kernel is `__global__ void name"),
    ],
)
def test_a_cell_without_a_kernel(cell, said):
    with pytest.raises(BuildError) as caught:
        _define("", cell)
    assert said in str(caught.value) and "none" not in str(caught.value)


@pytest.mark.parametrize(
    ("kernel", "said"),
    [
        (
            "__global__ int f(float *y) { y[0] = 0; return 1; }",
            "a kernel returns nothing: write `__global__ void`, not int",
        ),
        ("__global__ void f(float &y) { y = 0; }", "a kernel's parameter cannot be a reference, here float&"),
    ],
)
def test_a_kernel_of_another_type_is_told_in_cudas_words(kernel, said):
    with pytest.raises(BuildError) as caught:
        cudasim.kernel(kernel)[1, 1](np.zeros(1, np.float32))
    assert said in str(caught.value) and "sim_" not in str(caught.value) and "hpp" not in str(caught.value)


def test_a_source_without_a_kernel_is_named():
    with pytest.raises(ValueError, match="source: expected a __global__ function in it"):
        cudasim.kernel("scale.cu")


def test_a_name_that_is_like_no_other_is_meant_as_none():
    assert nearest("flaot", ("float", "double")) == "float"
    assert nearest("velocity", ("float", "double")) == "" == nearest("float", ("float",))


def test_the_innermost_loop_around_lines():
    source = "void f(int n) {\n  for (;;) {\n    n++;\n    while (n)\n      n--;\n    n += 2;\n  }\n}\n"
    assert loop_around(source, {5}) == 4 == loop_around(source, {4, 5})
    assert loop_around(source, {3, 5}) == 2 == loop_around(source, {6})
    assert loop_around(source, {1}) is None


OF_DYNAMIC = """
extern __shared__ float tile[];
__global__ void f(float *y, const float *x) {
    tile[threadIdx.x] = x[threadIdx.x];
    __syncthreads();
    y[threadIdx.x] = tile[32 + threadIdx.x];
}
"""


def test_dynamic_shared_memory_has_the_name_that_the_source_gives_it():
    kernel = cudasim.kernel(OF_DYNAMIC)
    x, y = np.ones(32, np.float32), np.zeros(32, np.float32)
    with pytest.raises(cudasim.KernelFault, match=r"tile\[32\]") as caught:
        kernel[1, 32, 128](y, x)
    assert "dynamic_shared" not in str(caught.value)
    traced = record(lambda: cudasim.kernel(OF_DYNAMIC.replace("32 + ", ""))[1, 32, 128](y, x))
    assert {event.array.name for event in traced.events if event.array} == {"x", "tile", "y"}
    assert with_own_name("dynamic_shared[0]", None) == "dynamic_shared[0]"


@pytest.mark.parametrize(
    "line, at, name",
    [
        ("y[i] = 1; x[blockIdx.x] = 2;", "= 2", "x"),
        ("y[x[i]]++;", "++", "y"),
        ("if (i < n) x[i]--;", "--", "x"),
        ("--x[i];", "--", "x"),
        ("return ++x[i];", "++", "x"),
        ("y[i] = x[i]++ * z[i];", "++", "x"),
        ("p.data[i] += q[i];", "+=", "p"),
        ("*(x + i) = 4;", "= 4", "it"),
    ],
)
def test_clang_names_no_variable_and_points_at_the_operator(line, at, name):
    column = line.index(at) + 1
    said = messages._of_read_only("read-only variable is not assignable", line, column)
    assert said.startswith(f"{name} is const")


# As clang writes a loop, and a sum of several lines.
OF_CLANG = """\
	.loc	36 4 7                          # twice.cu:4:7
	movl	$1073741824, (%rbx)
.LBB0_1:
	.loc	36 0 0 is_stmt 0                # twice.cu:0:0
	#DEBUG_VALUE: twice:y <- $rbx
	callq	__sanitizer_cov_trace_pc@PLT
.Ltmp6:
	.loc	36 6 1 is_stmt 1                # twice.cu:6:1
	jmp	.LBB0_1
	.loc	36 0 0                          # twice.cu:0:0
	callq	__tsan_read8@PLT
"""


def test_a_loop_s_beginning_has_its_line_and_what_is_of_several_lines_has_the_one_before(tmp_path):
    (tmp_path / "kernels.s").write_text(OF_CLANG)
    compiling._name_a_line_for_each(tmp_path / "kernels.s")
    lines, now = {}, None
    for row in (tmp_path / "kernels.s").read_text().splitlines():
        now = int(row.split()[2]) if ".loc" in row else now
        lines |= {row.split()[1]: now} if "call" in row else {}
    assert lines == {"__sanitizer_cov_trace_pc@PLT": 6, "__tsan_read8@PLT": 6}


@pytest.mark.parametrize(
    "of_the_host",
    [
        "static int *nothing = 0; static int value = *nothing;",
        "int read() { return *(volatile int *)0; } const int value = read();",
        "struct Ends { Ends() { *(volatile int *)8 = 0; } }; static Ends now;",
    ],
)
def test_a_variable_of_the_host_that_no_kernel_reaches_is_left_out(of_the_host):
    y = np.zeros(1, np.int32)
    cudasim.kernel(f"{of_the_host}\n__global__ void one(int *y) {{ *y = 1; }}")[1, 1](y)
    assert y.item() == 1


def test_an_initialiser_that_crashes_is_an_error():
    source = "const int SIZE = *(volatile int *)0;\n__global__ void one(int *y) { *y = 1; }"
    with pytest.raises(BuildError, match=r"initialiser of a variable.* loaded, ends the process: SIGSEGV"):
        cudasim.kernel(source)[1, 1](np.zeros(1, np.int32))


def test_a_header_whose_function_comes_first_is_named(tmp_path):
    header = "__device__ __noinline__ void set(float *y, int i) {\n    y[i] = 1;\n}\n"
    (tmp_path / "first.cuh").write_text(header)
    source = '#include "first.cuh"\n__global__ void k(float *y) { set(y, threadIdx.x); }\n'
    with pytest.raises(cudasim.KernelFault, match=r"in k \(first.cuh:2\)"):
        cudasim.kernel(source, include=[tmp_path])[1, 33](np.zeros(32, np.float32))
