"""What is rewritten in a source is found in its syntax tree: a kernel's exits, casts to integers, shifts."""

import warnings

import numpy as np
import pytest

import cudasim
from cudasim.live.casts import casts
from cudasim.live.exits import exits
from cudasim.live.kernels import Kernel, Program
from cudasim.live.shifts import shifts
from cudasim.live.tree import rewritten

# In each of these a function in the kernel returns, and threads miss a barrier all the same.
MISSED = {
    "a lambda": """
    auto below = [&](int i) { if (i > 3) return; a[i] = i; };
    below(threadIdx.x);""",
    "a method of a local struct": """
    struct Store {
        int *to;
        __device__ void at(int i) { if (i > 3) return; to[i] = i; }
    };
    Store{a}.at(threadIdx.x);""",
    "a macro in a lambda": """
#define NONE_IF(condition) if (condition) return
    auto below = [&](int i) { NONE_IF(i > 3); a[i] = i; };
    below(threadIdx.x);""",
}


@pytest.mark.parametrize("name", MISSED)
def test_the_return_of_a_function_in_a_kernel_ends_no_thread(name):
    text = f"__global__ void misses(int *a) {{{MISSED[name]}\n    if (threadIdx.x < 16) __syncthreads();\n}}"
    with pytest.raises(cudasim.KernelFault) as caught:
        cudasim.kernel(text)[1, 32](np.zeros(64, np.int32))
    assert caught.value.kind == "barrier divergence"


def test_a_kernels_own_return_ends_its_thread():
    text = """
#define NONE_IF(condition) if (condition) return
__global__ void returns(int *a) {
    auto same = [](int i) { return i; };
    NONE_IF(threadIdx.x > 24);
    if (threadIdx.x > 15) return;
    __syncthreads();
    a[same(threadIdx.x)] = 1;
}"""
    a = np.zeros(32, np.int32)
    cudasim.kernel(text)[1, 32](a)
    assert a.tolist() == [1] * 16 + [0] * 16


def test_a_macros_cast_stays_in_its_line():
    text = """
#define TOI(x) (int)(x)
__device__ int clamped(float x) { return TOI(x); }
#define HALF(x) ((unsigned)(x) >> \\
                 1u)
__global__ void converts(int *to, float x) {
    to[0] = clamped(x);
    to[1] = TOI(-x);
    to[2] = (int)HALF(x) + 1;
}"""
    to = np.zeros(3, np.int32)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        cudasim.kernel(text)[1, 1](to, 1e30)
    assert to.tolist() == [2**31 - 1, -(2**31), -(2**31)]


CASTS = {
    "(int)x": "sim_cast<int>(x)",
    "(unsigned long long)p[i].x * 2": "sim_cast<unsigned long long>(p[i].x) * 2",
    "-(int)-x + y": "-sim_cast<int>(-x) + y",
    "(uint)-x * 3": "sim_cast<uint>(-x) * 3",
    "(int)sizeof x": "sim_cast<int>(sizeof x)",
    "(std::size_t)(a + b)[1]": "sim_cast<size_t>((a + b)[1])",
    "uint8_t(x) | int(y)": "sim_cast<uint8_t>(x) | sim_cast<int>(y)",
    "static_cast<const int>(f(x))": "sim_cast<const int>(f(x))",
    "(int)(float)x": "sim_cast<int>((float)x)",
    "(float)(int)x": "(float)sim_cast<int>(x)",
    "(int *)x": "(int *)x",
    "sizeof(int) * x": "sizeof(int) * x",
    "(T)x": "(T)x",
    "g<int>(x)": "g<int>(x)",
    "b ? (int)x : (int)y": "b ? sim_cast<int>(x) : sim_cast<int>(y)",
}


@pytest.mark.parametrize("cast", CASTS)
def test_casts(cast):
    begin, end = "__device__ void f() {\n    v = ", ";\n}\n"
    assert rewritten(begin + cast + end, [casts]).replace(" ", "") == (begin + CASTS[cast] + end).replace(
        " ", ""
    )


SHIFTS = {
    "a << b": "a << sim_by << b",
    "a >> (b + 1)": "a >> sim_by >> (b + 1)",
    "a << 3": "a << 3",
    "i < n && (a >> b)": "i < n && (a >> sim_by >> b)",
    "2 < n ? a >> b : 0": "2 < n ? a >> sim_by >> b : 0",
    "std::vector<std::vector<int>>()": "std::vector<std::vector<int>>()",
    "g<h<int>>(a) >> b": "g<h<int>>(a) >> sim_by >> b",
    "a <<= b": "a <<= sim_by <<= b",
}


@pytest.mark.parametrize("shift", SHIFTS)
def test_shifts(shift):
    begin, end = "__device__ void f() {\n    v = ", ";\n}\n"
    assert rewritten(begin + shift + end, [shifts]) == begin + SHIFTS[shift] + end


def test_text_that_the_grammar_does_not_read_keeps_its_lines():
    text = "LAUNCHER(a, struct b)\n__global__ void k(int *a) { if (@ a[0]) return;\n a[1] = 2; return; }\n"
    for rule in (exits, casts, shifts):
        assert rewritten(text, [rule]).count("\n") == text.count("\n")
    assert rewritten(text, [exits]).count("sim_leave") == 2


def test_what_cannot_be_rewritten_is_said():
    # Only the kernel itself may convert the value, so no function can do it for a cast.
    own = "__device__ operator int() const { return 3; } friend __global__ void casts(int *);"
    text = f"class Own {{ {own} }};\n__global__ void casts(int *to) {{ to[0] = int(Own()); }}"
    program = Program(text, "casts.cu", ())
    to = np.zeros(1, np.int32)
    with pytest.warns(UserWarning, match=r"casts\.cu: warning: shifts and casts to integers are C\+\+'s"):
        Kernel(program, "casts")[1, 1](to)
    assert to[0] == 3


def test_what_a_variable_begins_with_is_converted_as_on_a_gpu():
    source = """
    template <class T> __device__ T twice(T x) { return x * 2; }
    __global__ void k(unsigned *y, const float *x) {
        unsigned a = x[0], b = twice(x[1]);
        const int c = x[2] * 3, d = (a != b) ? x[3] : 0;
        unsigned char e = x[4];
        const int m = 2, n = m * 4;
        for (int i = n - threadIdx.x, j = x[5]; i > 0; i--) y[5] = j;
        int f[n] = {5}, *p = f, g = twice<int>(x[4]);
        y[0] = a, y[1] = b, y[2] = c, y[3] = d, y[4] = e, y[6] = *p, y[7] = g;
    }
    """
    y = np.zeros(8, np.uint32)
    for unchecked in (False, True):
        cudasim.kernel(source)[1, 1](y, np.float32([5e9, -3, 1e10, -4e9, 300, np.nan]), unchecked=unchecked)
        assert y.tolist() == [2**32 - 1, 0, 2**31 - 1, 2**31, 300 - 256, 0, 5, 600]
