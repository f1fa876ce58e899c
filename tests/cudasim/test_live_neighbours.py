"""What lies near a kernel's static shared memory, and near each of its tensors, belongs to nobody, wherever
malloc() has put them: an access that leaves a tensor never passes for one of something else."""

import re
import subprocess
import threading

import pytest
import torch

import cudasim
from cudasim.live.compiling import find_cpp_compiler
from cudasim.live.padding import pad_shared_variables

NEAR = 64 << 10  # bytes

# Each notes where its shared memory is. The last one notes where the other block's is, as this block sees it.
SOURCE = r"""
#include <cooperative_groups.h>
namespace cg = cooperative_groups;

__device__ void fill(float *t) {
    t[threadIdx.x] = 1.0f;
    __syncthreads();
}
__global__ void plain(long long *at) {
    __shared__ float t[32];
    fill(t);
    at[threadIdx.x] = (long long)&t[threadIdx.x];
}
template <int N> __global__ void folded(long long *at) {
    __shared__ float t[N];
    fill(t);
    at[threadIdx.x] = (long long)&t[threadIdx.x];
}
__global__ void __cluster_dims__(2, 1, 1) of_the_other_block(long long *at) {
    __shared__ float t[32];
    fill(t);
    auto cluster = cg::this_cluster();
    cluster.sync();
    if (cluster.block_rank() == 0)
        at[threadIdx.x] = (long long)cluster.map_shared_rank(t, 1) + 4 * threadIdx.x;
    cluster.sync();
}
"""

BESIDE = r"""
__global__ void goes_beside(long long *at, long long distance, bool writes) {
    __shared__ float t[32];
    t[threadIdx.x] = 1.0f;
    __syncthreads();
    volatile unsigned long long place = (unsigned long long)t + distance;
    float *beside = (float *)place;
    if (writes)
        *beside = 1.0f;
    else
        at[0] = *beside;
}
__global__ void goes_beside_its_registers(long long *at, long long distance) {
    volatile unsigned long long place = (unsigned long long)&threadIdx + distance;
    at[0] = *(int *)place;
}
"""


@pytest.mark.parametrize(
    ("name", "blocks", "template"),
    [("plain", 1, None), ("folded", 1, (32,)), ("of_the_other_block", 2, None)],
)
def test_no_tensor_is_near_shared_memory(name, blocks, template):
    kernel, distances = cudasim.kernel(SOURCE, name), []

    def launch_among_tensors():
        tensors = [torch.zeros(2000) for _ in range(20)]
        for _ in range(5):
            at = torch.zeros(32, dtype=torch.int64)
            kernel[blocks, 32](at, template=template)
            first, last = at[0].item(), at[31].item()
            assert last == first + 31 * 4
            # The copy of another block's variables is gone after the launch, and tensors may come there.
            if blocks == 1:
                tensors += [torch.zeros(2000) for _ in range(20)]
            for tensor in tensors:
                begin = tensor.data_ptr()
                distances.append(max(first - (begin + tensor.nbytes), begin - (last + 4)))

    # In a new thread malloc() takes the kernel's variables and the tensors from the same fresh memory.
    for _ in range(5):
        thread = threading.Thread(target=launch_among_tensors)
        thread.start()
        thread.join()
    assert len(distances) > 5 * 5 * 20 - 1
    assert min(distances) >= NEAR


@pytest.mark.parametrize("writes", [False, True])
@pytest.mark.parametrize("distance", [-NEAR, -4096, -4, 128, 128 + 4096, NEAR])
def test_an_address_near_shared_memory_is_out_of_bounds(distance, writes):
    with pytest.raises(cudasim.KernelFault, match=r"^out of bounds in goes_beside ") as caught:
        cudasim.kernel(BESIDE, "goes_beside")[1, 32](torch.zeros(32, dtype=torch.int64), distance, writes)
    assert f"t[{distance // 4}]" in str(caught.value)


@pytest.mark.parametrize("distance", [-(128 << 10), -(64 << 10), -2048])
def test_what_the_simulator_keeps_for_itself_is_out_of_bounds(distance, monkeypatch):
    monkeypatch.setenv("CUDASIM_NVCC_JUDGE", "0")  # which refuses the address of threadIdx
    kernel = cudasim.kernel(BESIDE, "goes_beside_its_registers")
    with pytest.raises(cudasim.KernelFault, match=r"^out of bounds in goes_beside_its_registers "):
        kernel[1, 1](torch.zeros(1, dtype=torch.int64), distance)


VARIABLES = {
    "zeroed": "static thread_local int a[9]; int *get() { return a; }",
    "with values": "static thread_local int a[9], b[5] = {1}; int *get() { return b[0] ? a : b; }",
    "values only": "static thread_local int a[9] = {1}; int *get() { return a; }",
    "of templates": """
        static thread_local int a[9];
        template <int N> int *mine() {
            static thread_local int b[N], d[N] = {1};
            alignas(1024) static thread_local int c[N];
            return b[1] ? c : d[1] ? a : d;
        }
        int *get() { return *mine<3>() ? mine<40>() : mine<500>(); }""",
    "in sections of their own": "inline thread_local int a[9], b[5] = {1}; int *get() { return *b ? a : b; }",
}


@pytest.mark.parametrize("variables", VARIABLES)
def test_the_padding_is_before_and_after_all_variables(variables, tmp_path):
    compiler, assembly, library = find_cpp_compiler(), tmp_path / "a.s", tmp_path / "a.so"
    (tmp_path / "a.cpp").write_text(VARIABLES[variables])
    flags = ["-O1", "-fPIC", "-std=gnu++17", "-fdata-sections"]
    subprocess.run([compiler, *flags, "-S", str(tmp_path / "a.cpp"), "-o", str(assembly)], check=True)
    pad_shared_variables(assembly)
    subprocess.run([compiler, "-shared", str(assembly), "-o", str(library)], check=True)
    said = subprocess.run(
        ["readelf", "-lsW", str(library)], capture_output=True, text=True, check=True
    ).stdout
    segment = int(re.search(r"^  TLS +(?:0x\w+ +){4}0x(\w+)", said, re.M)[1], 16)
    symbols = re.findall(r"^ *\d+: (\w+) +(\d+) TLS ", said, re.M)
    assert len(symbols) > 0
    assert min(int(begin, 16) for begin, _ in symbols) >= NEAR
    assert max(int(begin, 16) + int(size) for begin, size in symbols) <= segment - NEAR


def test_a_source_without_variables_has_no_padding(tmp_path):
    (tmp_path / "a.s").write_text("\t.text\n")
    pad_shared_variables(tmp_path / "a.s")
    assert (tmp_path / "a.s").read_text() == "\t.text\n"


# ------------------------------------------------------------------------------------------------------------
# Tensors beside each other

SHIFTED = """
__global__ void shifted(float *y, const float *x, int n, int by) {
    int i = threadIdx.x;
    if (i < n)
        y[i + by] = 2 * x[i];
}
"""


@pytest.mark.parametrize("by", [1, 64, 128, 500, -1, -64, -128, -192])
@pytest.mark.parametrize("inside_check", [False, True])
def test_an_index_that_reaches_another_tensor_is_out_of_bounds(inside_check, by):
    """All are parts of one tensor, so what lies beside y is known."""
    whole = torch.zeros(1024)
    others, y, x = whole[:192], whole[192:256], whole[256:320]
    kernel, before = cudasim.kernel(SHIFTED), whole.clone()
    first = by if by < 0 else max(by, 64)
    with pytest.raises(cudasim.KernelFault, match=rf"y\[{first}\], which has 64 elements"):
        if inside_check:
            cudasim.check(lambda: kernel[1, 64](y, x, 64, by))
        else:
            kernel[1, 64](y, x, 64, by)
    assert torch.equal(others, before[:192])
    assert torch.equal(whole[256:], before[256:])


POINTERS = """
__device__ float *kept;
__device__ float held[4];
__global__ void keep(float *x) { kept = x; }
__global__ void through_kept(float *x, float a) { kept[threadIdx.x] += a; }
"""
FROM_ELSEWHERE = """
__global__ void by_table(float **table, float *x, float *y) {
    table[1][threadIdx.x] = table[0][threadIdx.x] + 1;
}
__global__ void by_number(unsigned long long at, float *x, float *y) {
    ((float *)at)[threadIdx.x] = x[threadIdx.x] + 1;
}
struct Pair { unsigned long long to; int n; };
__global__ void by_member(Pair pair, float *x, float *y) {
    ((float *)pair.to)[threadIdx.x] = x[threadIdx.x] + 1;
}
"""


@pytest.mark.parametrize("unchecked", [False, True])
@pytest.mark.parametrize("name", ["by_table", "by_list", "by_number", "by_member"])
def test_an_address_that_a_kernel_has_otherwise_is_the_tensor_s(name, unchecked):
    x, y = torch.rand(32), torch.zeros(32)
    first = {
        "by_table": torch.tensor([x.data_ptr(), y.data_ptr()]),
        "by_list": [x, y],
        "by_number": y.data_ptr(),
        "by_member": {"to": y.data_ptr(), "n": 32},
    }[name]
    kernel = cudasim.kernel(FROM_ELSEWHERE, name.replace("list", "table"))
    kernel[1, 32](first, x, y, unchecked=unchecked)
    assert torch.equal(y, x + 1)


@pytest.mark.parametrize("unchecked", [False, True])
def test_an_address_that_a_variable_keeps_is_the_tensor_s(unchecked):
    x = torch.zeros(32)
    keep, through = (cudasim.kernel(POINTERS, name) for name in ("keep", "through_kept"))
    through.symbols["kept"].copy_(torch.tensor([x.data_ptr()]).view(through.symbols["kept"].dtype))
    through[1, 32](x, 3.0, unchecked=unchecked)
    assert torch.equal(x, torch.full((32,), 3.0))
    keep[1, 1](x, unchecked=unchecked)
    assert keep.symbols["kept"].view(torch.int64).item() == x.data_ptr()


LISTS = """
struct Node { Node *next; float value; float unused; };
__global__ void link(Node *nodes, unsigned long long *first, int n) {
    int i = threadIdx.x;
    if (i < n)
        nodes[i].next = i + 1 < n ? &nodes[i + 1] : nullptr;
    if (i == 0)
        *first = (unsigned long long)&nodes[0];
}
__global__ void add_up(float *sum, Node *nodes, unsigned long long *first) {
    float found = 0;
    for (Node *node = (Node *)*first; node; node = node->next)
        found += node->value;
    *sum = found;
}
"""


@pytest.mark.parametrize("unchecked", [False, True])
def test_addresses_that_a_kernel_stores_are_the_tensors_in_the_next_launch(unchecked):
    nodes, first = torch.zeros(8, 4), torch.zeros(1, dtype=torch.uint64)
    nodes[:, 2] = torch.arange(8.0)
    link, add_up = (cudasim.kernel(LISTS, name) for name in ("link", "add_up"))
    link[1, 8](nodes.view(-1), first, 8, unchecked=unchecked)
    assert first.item() == nodes.data_ptr()
    links = nodes.view(torch.int64)[:, 0] - nodes.data_ptr()
    assert links[:-1].tolist() == [16 * i for i in range(1, 8)]
    sum_ = torch.zeros(1)
    add_up[1, 1](sum_, nodes.view(-1), first, unchecked=unchecked)
    assert sum_.item() == 28
