"""Live kernels: compiled from text, called with tensors, checked, counted and interrupted."""

import re
import threading
import warnings

import hypothesis.strategies as st
import pytest
import torch
from hypothesis import given, settings
from processes import patience, said_when_interrupted

import cudasim
from cudasim.building.library import BuildError
from cudasim.building.places import SOURCES
from cudasim.building.toolchains import find_nvcc
from cudasim.live.cells import CellError, _define

SCALE = """
__global__ void scale(float *y, const float *__restrict__ x, float a, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        y[i] = a * x[i];
}
"""

# What people write: both kinds of shared memory, shuffles, atomics, vectors, macros, helpers, #pragma unroll.
TYPICAL = """
#define WARP 32
#define FULL 0xffffffff

__device__ float warp_sum(float value) {
    #pragma unroll
    for (int step = WARP / 2; step > 0; step /= 2)
        value += __shfl_xor_sync(FULL, value, step);
    return value;
}

__global__ void __launch_bounds__(256) total(float *sum, int *largest, const float4 *x, size_t fours) {
    __shared__ float sums[WARP];
    extern __shared__ float staged[];
    float mine = 0.0f;
    for (size_t i = blockIdx.x * blockDim.x + threadIdx.x; i < fours; i += gridDim.x * blockDim.x) {
        float4 four = x[i];
        mine += four.x + four.y + four.z + four.w;
        atomicMax(largest, (int)max(max(four.x, four.y), max(four.z, four.w)));
    }
    staged[threadIdx.x] = mine;
    __syncthreads();
    mine = warp_sum(staged[blockDim.x - 1 - threadIdx.x]);
    if (threadIdx.x % WARP == 0)
        sums[threadIdx.x / WARP] = mine;
    __syncthreads();
    if (threadIdx.x < WARP) {
        mine = warp_sum(threadIdx.x < min(blockDim.x / WARP, (unsigned)WARP) ? sums[threadIdx.x] : 0.0f);
        if (threadIdx.x == 0)
            atomicAdd(sum, mine);
    }
}
"""


@pytest.fixture(scope="module")
def scale():
    return cudasim.kernel(SCALE)


def test_call(scale, device):
    x = torch.rand(1000, device=device)
    y = torch.empty_like(x)
    scale[4, 256](y, x, 2.5, 1000)
    assert torch.equal(y, 2.5 * x)
    scale[(4, 1), (256, 1, 1), 1024](y, x, 3.0, 1000)
    scale[4, 256](y[:10], x[:10], 4, 10, shared_bytes=16)
    assert torch.equal(y[10:], 3.0 * x[10:])
    assert torch.equal(y[:10], 4.0 * x[:10])


def test_typical_cuda(device):
    total = cudasim.kernel(TYPICAL)
    x = torch.randint(0, 100, (4 * 5000,), device=device).float()
    total_sum = torch.zeros(1, device=device)
    largest = torch.zeros(1, dtype=torch.int32, device=device)
    total[3, 256, 4 * 256](total_sum, largest, x, 5000)
    assert total_sum.item() == x.sum().item()
    assert largest.item() == x.max().item()
    if device.type == "cpu":
        cudasim.check(lambda: total[3, 256, 4 * 256](total_sum, largest, x, 5000))


@settings(max_examples=25)
@given(st.integers(1, 700), st.integers(1, 300), st.floats(-1e6, 1e6, width=32))
def test_any_size(n, block, a):
    x, y = torch.rand(n), torch.empty(n)
    cudasim.kernel(SCALE)[-(-n // block), block](y, x, a, n)
    assert torch.equal(y, torch.tensor(a) * x)


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ((torch.empty(4, dtype=torch.float64), torch.empty(4), 1.0, 4), TypeError, "y .*float32.*float64"),
        ((torch.empty(4), torch.empty(8)[::2], 1.0, 4), ValueError, "x: expected a contiguous tensor"),
        ((torch.empty(4), [1.0], 1.0, 4), TypeError, "x .*expected a float32 tensor, got list"),
        ((torch.empty(4), torch.empty(4), "1", 4), TypeError, "a .*expected a float"),
        (
            (torch.empty(4), torch.empty(4), torch.ones(1), 4),
            TypeError,
            "expected a float, got a float32 tensor",
        ),
        ((torch.empty(4), torch.empty(4), 1e300, 4), ValueError, "a .*a float can hold"),
        ((torch.empty(4), torch.empty(4), 1.0, 4.5), TypeError, "n .*expected an int"),
        ((torch.empty(4), torch.empty(4), 1.0, 2**31), ValueError, "n .*<= 2147483647, got 2147483648"),
        ((torch.empty(4), torch.empty(4), 1.0), TypeError, "expected 4 arguments .*got 3"),
        ((torch.empty(4), torch.empty(4, device="meta"), 1.0, 4), TypeError, "x: .* on a GPU, got meta"),
        ((torch.empty(4), torch._neg_view(torch.ones(4)), 1.0, 4), ValueError, "x: .* negates them"),
    ],
)
def test_wrong_arguments(scale, arguments, error, message):
    with pytest.raises(error, match=rf"scale: .*{message}"):
        scale[1, 32](*arguments)


def test_wrong_launches(scale):
    x = torch.zeros(4)
    with pytest.raises(TypeError, match=r"expected scale\[grid, block\]"):
        scale(x, x, 1.0, 4)
    with pytest.raises(TypeError, match=r"\[grid, block, shared_bytes\]"):
        scale[1]
    with pytest.raises(TypeError, match=r"expected arguments by their places, .* got n="):
        scale[1, 32](x, x, 1.0, n=4)
    with pytest.raises(TypeError, match="block: expected an int or up to three"):
        scale[1, "x"](x, x, 1.0, 4)
    with pytest.raises(ValueError, match="shared_bytes"):
        scale[1, 32, -1](x, x, 1.0, 4)
    with pytest.raises(cudasim.KernelFault, match="larger than 1024 threads"):
        scale[1, 1536](x, x, 1.0, 4)
    with pytest.raises(cudasim.KernelFault, match="grid"):
        scale[(1, 65600), 32](x, x, 1.0, 4)


def test_wrong_sources():
    with pytest.raises(TypeError, match="source"):
        cudasim.kernel(3)
    with pytest.raises(ValueError, match="source: expected a __global__ function in it, found none"):
        cudasim.kernel("int x;")
    with pytest.raises(ValueError, match=r"name: .*\(scale, total\)"):
        cudasim.kernel(SCALE + TYPICAL)
    with pytest.raises(ValueError, match="file"):
        cudasim.kernel(SCALE, file="a/b.cu")
    with pytest.raises(TypeError, match=r"f: t\.next"):
        cudasim.kernel("struct T { T *next; int i; };\n__global__ void f(T t) {}")[1, 1]({"next": {"i": 3}})


def test_compiler_messages_have_the_lines_of_the_source():
    source = (
        "// comment\n__global__ void broken(int *a) {\n    extern __shared__ int s[];\n    a[0] = b;\n}\n"
    )
    undeclared = (
        r"broken\.cu:4:12: error: .*(b.* not declared|undeclared identifier .b)"  # gcc's words or clang's
    )
    with pytest.raises(BuildError, match=undeclared):
        cudasim.kernel(source)[1, 1](torch.zeros(1, dtype=torch.int32))
    with pytest.raises(BuildError, match=r"f\.cu:1: the brace that opens here is never closed"):
        cudasim.kernel("__global__ void f(int *a) {\n a[0] = 1;\n").build()


@pytest.mark.skipif(find_nvcc() is None, reason="needs nvcc")
def test_nvcc_compiles_the_same_source(monkeypatch):
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device=None: (9, 0))
    assert cudasim.kernel(SCALE).build("cuda") == ""
    assert cudasim.kernel(TYPICAL).build("cuda") == ""
    names = ("R", "T", "A", "N", "count", "described", "parameters")
    macros = "".join(f"#define {name} 2\n" for name in names)
    assert cudasim.kernel(macros + "__global__ void f(int *a) {\n    a[N] = R * T;\n}").build("cuda") == ""
    broken = cudasim.kernel("__global__ void broken(int *a) {\n    a[0] = b;\n}")
    with pytest.raises(BuildError, match=r'broken\.cu\(2\): error: identifier "b" is undefined'):
        broken.build("cuda")


def test_built_ins_that_the_ladder_does_not_use():
    bits = cudasim.kernel("""
__global__ void bits(int *to, int3 add) {
    int3 own = make_int3(threadIdx.x, 1, 2);
    to[0] = __brev(1u) == 0x80000000u && __mulhi(1 << 30, 1 << 4) == 1 << 2;
    to[1] = __float2int_rn(2.5f) + 10 * __float2int_ru(2.1f) + 100 * __float2int_rd(-0.5f);
    __threadfence_system();
    to[2] = own.y + own.z + add.z;
}""")
    to = torch.zeros(3, dtype=torch.int32)
    bits[1, 1](to, {"x": 1, "y": 2, "z": 3})
    assert to.tolist() == [1, 2 + 30 - 100, 6]


def test_warnings_are_shown_once():
    warned = cudasim.kernel("__global__ void warned(int *a) {\n    int unused;\n    a[0] = 1;\n}")
    a = torch.zeros(1, dtype=torch.int32)
    with pytest.warns(UserWarning, match=r"warned\.cu:2:9: warning: unused variable"):
        warned[1, 1](a)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warned[1, 1](a)
        cudasim.check(lambda: warned[1, 1](a))


def test_a_content_is_compiled_once(monkeypatch):
    x = torch.zeros(4)
    cudasim.kernel(SCALE)[1, 32](x, x, 1.0, 4)
    monkeypatch.setattr("cudasim.live.compiling._run", lambda *_: pytest.fail("compiled again"))
    cudasim.kernel(SCALE)[1, 32](x, x, 1.0, 4)


def test_faults_have_the_line_and_the_index(scale):
    x, y = torch.zeros(100), torch.zeros(128)
    with pytest.raises(cudasim.KernelFault) as caught:
        cudasim.check(lambda: scale[1, 128](y, x, 1.0, 101))
    fault = caught.value
    assert (fault.kind, fault.file, fault.line, fault.index) == ("out of bounds", "scale.cu", 5, 100)
    assert fault.thread == (100, 0, 0)
    scale[1, 128](y, x, 1.0, 100)


def test_count(scale):
    x, y = torch.zeros(1024), torch.zeros(1024)
    row = cudasim.count(lambda: scale[4, 256](y, x, 1.0, 1024)).iloc[0]
    assert row["kernel"] == "scale"
    assert row["l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum"] == 32
    assert row["l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum"] == 128
    lines = cudasim.count_lines(lambda: scale[4, 256](y, x, 1.0, 1024))
    assert list(zip(lines["file"], lines["line"], strict=True)) == [("scale.cu", 5)]


def test_source_view(scale):
    x, y = torch.zeros(1024), torch.zeros(1024)
    view = cudasim.source_view(lambda: scale[4, 256](y, x, 1.0, 1024))
    (row,) = view.frame.to_dict("records")
    assert (row["line"], row["requests"], row["sectors"], row["sectors/request"]) == (5, 64, 256, 4.0)
    assert re.search(r"64 +256 +4\.0 .*#### +5  +y\[i\] = a \* x\[i\];", str(view))
    assert "a * x[i]" in view._repr_html_() and ">256</td>" in view._repr_html_()


# ------------------------------------------------------------------------------------------------------------
# Interrupts and notebooks

SPIN = "__global__ void spin(volatile int *go_on) { while (go_on[0]) ; }"

# The compiler makes one instruction of it, which jumps to itself.
EMPTY = "__global__ void empty(int *) { for (;;) ; }"

# C++ lets a compiler take for granted that it ends, and leave it out, as it has no effect. Here n stays 0.
SILENT = """__global__ void silent(const int *from) {
    int n = from[0] - 1;
    while (n != 1)
        n = n % 2 ? 3 * n + 1 : n / 2;
}"""

INTERRUPTED = f"""
import torch, cudasim
spin = cudasim.kernel({SPIN!r})
empty = cudasim.kernel({EMPTY!r})
silent = cudasim.kernel({SILENT!r})
flag = torch.zeros(1, dtype=torch.int32)
spin[1, 32](flag)
cudasim.check(lambda: spin[1, 32](flag))
silent[1, 32](flag.fill_(2), unchecked=True)  # which ends, and compiles it
flag.fill_(1)
calls = [
    lambda: spin[2, 32](flag),
    lambda: cudasim.check(lambda: spin[1, 32](flag)),
    lambda: empty[2, 32](flag),
    lambda: empty[2, 32](flag, unchecked=True),
    lambda: silent[2, 32](flag, unchecked=True),
]
for call in calls:
    print("runs", flush=True)
    try:
        call()
    except KeyboardInterrupt:
        print("interrupted", flush=True)
flag.zero_()
spin[1, 32](flag)
cudasim.check(lambda: spin[1, 32](flag))
print("goes on", flush=True)
"""


def test_ctrl_c():
    said = said_when_interrupted(INTERRUPTED)
    assert said == ["runs", "interrupted"] * 5 + ["goes on"]


def says(text: str, kind: str) -> bool:
    """Whether the C compiler, or nvcc where there is a GPU, names line 3 of the kernel f."""
    return re.search(r"f\.cu(:3:\d+|\(3\)): " + kind, re.sub(r"\x1b\[[\d;]*m", "", text)) is not None


def test_cells(capsys):
    kernels = _define("", SCALE + TYPICAL)
    assert list(kernels) == ["scale", "total"]
    assert list(_define("total", SCALE + TYPICAL)) == ["total"]
    with pytest.raises(CellError) as caught:
        _define("", "__global__ void f(int *a) {\n    a[0] = b;\n}\n")
    assert says(str(caught.value), "error")
    assert "Traceback" not in "".join(caught.value._render_traceback_())
    with pytest.raises(CellError, match="expected a __global__ function g in the cell, got scale"):
        _define("g", SCALE)
    for line, said in {
        "--chek": "--chek: expected names",
        "scale --check": "for a main()",
        "-- 3": "for a main()",
        "-I none/such": "expected folders, got none/such",
    }.items():
        with pytest.raises(CellError, match=re.escape(said)):
            _define(line, SCALE)
    with pytest.raises(CellError, match="the cell has no kernel"):
        _define("", "int x;")
    _define("", "__global__ void f(int *a) {\n    int unused;\n    a[0] = 1;\n}\n")
    assert says(capsys.readouterr().err, "warning")


def test_in_a_notebook():
    from jupyter_client.manager import start_new_kernel

    manager, client = start_new_kernel(kernel_name="python3", cwd=str(SOURCES.parent))

    def run(code):
        said = []

        def listen(message):
            content = message["content"]
            said.append(content.get("text") or "\n".join(content.get("traceback", ())))

        status = client.execute_interactive(code, timeout=patience(60), output_hook=listen)["content"][
            "status"
        ]
        return status, "".join(said)

    try:
        assert run("%load_ext cudasim\nimport torch\nflag = torch.zeros(1, dtype=torch.int32)")[0] == "ok"
        status, text = run("%%cuda\n__global__ void f(int *a) {\n    a[0] = b;\n}")
        assert status == "error" and says(text, "error") and "Traceback" not in text and "live.py" not in text
        assert run("%%cuda\n__global__ void f(int *a) { a[0] = 1; }") == ("ok", "")
        assert run("%%cuda\n" + SPIN) == ("ok", "")
        assert run("spin[1, 1](flag); f[1, 1](flag); print(flag.item())") == ("ok", "1\n")
        threading.Timer(1.0, manager.interrupt_kernel).start()
        status, text = run("spin[1, 1](flag)")
        assert status == "error" and "KeyboardInterrupt" in text
        assert run("%%cuda\n__global__ void f(int *a) { a[0] = 2; }") == ("ok", "")
        assert run("f[1, 1](flag); print(flag.item())") == ("ok", "2\n")
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)


def test_a_cell_that_does_not_compile_leaves_no_kernel_of_an_earlier_run():
    from IPython.core.interactiveshell import InteractiveShell

    shell = InteractiveShell()
    assert shell.run_cell("%load_ext cudasim").success
    right = "%%cuda\n__global__ void one(float *y) {\n    y[threadIdx.x] = 1;\n}\n"
    assert shell.run_cell(right).success and "one" in shell.user_ns
    assert not shell.run_cell(right.replace("1;", "nothing;")).success
    assert "one" not in shell.user_ns
