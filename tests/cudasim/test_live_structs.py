"""What Python gives a kernel that is neither a tensor nor a number: structs with all kinds of members, arrays
without elements; and a pointer to a function that is none."""

import pytest
import torch

import cudasim
from cudasim.live.kernels import Kernel, Program
from cudasim.live.signature import structs

SOURCE = """
struct Base {
    int a;
};
struct Other {
    short o[2];
};
struct Inherits : public Base, Other {
    float b;
};
struct Nests {
    struct Inner {
        int x;
        struct {
            int deep;
        } more;
    } inner;
    Inner again;
    union {
        int as_int;
        float as_float;
    };
    Base base;
};
class Hides {
    int secret = 5;
public:
    float b, c[2] = {};
    __device__ int get() const { return secret; }
private:
    int more;
};
struct Narrow {
    int low : 4, high : 4;
    float b;
};
template <class T> struct Of {
    T a;
};
struct Empty {
    double none[4][0][4];
    int a;
};
typedef float (*Function)(float);
__device__ Function functions[2];

__global__ void inherits(float *y, Inherits p) {
    y[0] = p.a, y[1] = p.b, y[2] = p.o[1];
}
__global__ void nests(float *y, Nests p) {
    y[0] = p.inner.x, y[1] = p.inner.more.deep, y[2] = p.again.x, y[3] = p.as_float, y[4] = p.base.a;
}
__global__ void hides(float *y, Hides p) {
    y[0] = p.get(), y[1] = p.b, y[2] = p.c[1];
}
__global__ void narrow(float *y, Narrow p) {
    y[0] = p.low, y[1] = p.b;
}
__global__ void of_int(float *y, Of<int> p) {
    y[0] = p.a;
}
struct Points {
    const float *__restrict__ from;
    void *__restrict__ to;
};
__global__ void points(float *y, Points p) {
    static_cast<float *>(p.to)[0] = 2 * p.from[1];
}
__global__ void empty(float *y, Empty p) {
    y[0] = p.a, y[1] = sizeof p.none;
}
__global__ void calls_nothing(float *y) {
    y[0] = 1;
    y[1] = functions[threadIdx.x](y[0]); // calls
    y[2] = 1;
}
"""
PROGRAM = Program(SOURCE, "structs.cu", (), has_warned=True)


def result(name: str, value) -> list[float]:
    y = torch.zeros(5)
    Kernel(PROGRAM, name)[1, 1](y, value)
    return y.tolist()


def test_a_struct_is_filled_by_its_bases_nested_and_public_members():
    assert result("inherits", {"a": 1, "b": 2.0, "o": [3, 4]}) == [1, 2, 4, 0, 0]
    inner = {"x": 1, "more": {"deep": 2}}
    value = {"inner": inner, "again": {"x": 3}, "as_float": 4.5, "base": {"a": 6}}
    assert result("nests", value) == [1, 2, 3, 4.5, 6]
    assert result("hides", {"b": 2.0, "c": [3.0, 4.0]}) == [0, 2, 4, 0, 0]
    assert result("narrow", {"b": 2.0}) == [0, 2, 0, 0, 0]
    to = torch.zeros(1)
    result("points", {"from": torch.tensor([1.0, 4.0]), "to": to})  # __restrict__ changes a member's type
    assert to.item() == 8


@pytest.mark.parametrize(
    ("name", "value", "error", "said"),
    [
        ("hides", {"secret": 1}, ValueError, r"p: expected public members of Hides \(b, c\), got 'secret'"),
        ("narrow", {"low": 1}, ValueError, r"p: expected public members of Narrow \(b\), got 'low'"),
        (
            "nests",
            {"inner": {"z": 1}},
            ValueError,
            r"p\.inner: expected public members of .*\(x, more\), got 'z'",
        ),
        ("of_int", {"a": 1}, TypeError, r"p: expected the 4 bytes of Of<int>, .* got dict"),
    ],
)
def test_a_member_that_python_cannot_fill_is_refused_by_name(name, value, error, said):
    with pytest.raises(error, match=said):
        result(name, value)


def test_a_struct_whose_members_do_not_compile_does_not_stop_its_kernel():
    """What is read of a struct's text may be wrong: here a macro is taken for a member."""
    source = "#define MORE int\nstruct P {\n    int a MORE_TO_COME(b);\n    int c;\n};\n"
    source = source.replace("MORE_TO_COME(b)", "ALIGNED").replace("#define MORE int", "#define ALIGNED")
    assert structs(source)["P"].members == ["ALIGNED", "c"]
    kernel = cudasim.kernel(source + "__global__ void f(int *y, P p) {\n    y[0] = p.c;\n}\n")
    y = torch.zeros(1, dtype=torch.int32)
    kernel[1, 1](y, bytes([1, 0, 0, 0, 2, 0, 0, 0]))
    assert y.item() == 2


def test_an_array_without_elements_is_an_array():
    assert result("empty", {"a": 1}) == result("empty", {"a": 1, "none": []}) == [1, 0, 0, 0, 0]
    with pytest.raises(TypeError, match=r"p\.none: expected a sequence of at most 0"):
        result("empty", {"none": [1.0]})


@pytest.mark.parametrize("unchecked", [False, True])
def test_a_call_of_a_null_function_pointer_names_its_line(unchecked):
    with pytest.raises(
        cudasim.KernelFault, match=r"calls a function at address .*, where there is none"
    ) as caught:
        Kernel(PROGRAM, "calls_nothing")[1, 1](torch.zeros(5), unchecked=unchecked)
    assert caught.value.kind == "crash"
    assert "// calls" in SOURCE.splitlines()[caught.value.line - 1]
