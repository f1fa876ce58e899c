"""What a cell (cudasim/sim/counted/history.h) holds of a granule of global memory, and when it needs more."""

import warnings

import numpy as np
import pytest

import cudasim

SOURCE = """
__global__ void writes(int *x, int shift, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    x[(i + shift) % n] = i;
}
__global__ void follows(T *x, const short *orders, int count) {
    int self = blockIdx.x * blockDim.x + threadIdx.x;
    for (int i = 0; i < count; i++) {
        int what = orders[2 * i], thread = orders[2 * i + 1];
        if (what == 0)
            __syncthreads();
        else if (what == 1 && thread == self) {
            volatile T kept = x[0]; // reads
            (void)kept;
        } else if (what == 2 && thread == self)
            x[0] = 1; // writes
        else if (what == 3 && thread == self)
            x[0] = (T)(self + 2); // writes another value
    }
}
"""
PARTS = """
struct Six { float of[6]; };
__global__ void writes(float *x, int first, int second) {
    Six six = {{1 + blockIdx.x, 2, 3, 4, 5, 6}};
    *(Six *)(x + (blockIdx.x == 0 ? first : second)) = six;
}
__global__ void reads(float *x, float *out, int first, int second, int third) {
    if (blockIdx.x == 2) {
        x[third] = 0;
    } else {
        Six six = *(Six *)(x + (blockIdx.x == 0 ? first : second));
        out[blockIdx.x] = six.of[0] + six.of[5];
    }
}
"""
BARRIER, READ, WRITE, OTHER = range(4)
KINDS = {"float": np.float32, "short": np.int16, "char": np.int8, "double": np.float64}
# Each thread goes through all of its orders before the next thread of the block, up to a barrier. The fault
# that is expected: the line of the access that races, and of the other one.
CASES = {
    "one thread reads and writes": ([(READ, 5), (WRITE, 5), (READ, 5), (WRITE, 5), (READ, 5)], None),
    "many warps read": ([(READ, t) for t in (0, 1, 40, 70, 100, 41)], None),
    "a lane writes what another has read": ([(READ, 3), (WRITE, 4)], ("// writes", "// reads")),
    "a lane writes what it and another have read": (
        [(READ, 3), (READ, 4), (WRITE, 4)],
        ("// writes", "// reads"),
    ),
    "a warp writes what two have read": (
        [(READ, 3), (READ, 40), (WRITE, 70)],
        ("// writes", "// reads"),
    ),
    "a warp reads what another has written": ([(WRITE, 3), (READ, 40)], ("// reads", "// writes")),
    "two write different values": ([(WRITE, 3), (OTHER, 4)], ("// writes another", "// writes")),
    "it was read after it was written": (
        [(WRITE, 3), (READ, 3), (WRITE, 40)],
        ("// writes", "// reads"),
    ),
    "a barrier between reads and a write": ([(READ, 3), (READ, 40), (BARRIER, 0), (WRITE, 70)], None),
    "a barrier between a write and reads": ([(WRITE, 3), (BARRIER, 0), (READ, 40), (READ, 70)], None),
    "a barrier between two writes": ([(WRITE, 3), (BARRIER, 0), (OTHER, 40), (READ, 40)], None),
    "what was read before a barrier and after it": (
        [(READ, 3), (BARRIER, 0), (READ, 3), (READ, 4), (WRITE, 40)],
        ("// writes", "// reads"),
    ),
    "another block reads": ([(READ, 3), (READ, 130), (READ, 131)], None),
    "another block writes what was read": ([(READ, 3), (WRITE, 130)], ("// writes", "// reads")),
    "another block writes what two blocks have read": (
        [(READ, 3), (READ, 130), (WRITE, 260)],
        ("// writes", "// reads"),
    ),
    "another block reads what was written": ([(WRITE, 3), (READ, 130)], ("// reads", "// writes")),
    "a barrier orders no blocks": ([(READ, 3), (BARRIER, 0), (WRITE, 130)], ("// writes", "// reads")),
}


def kernel(name: str, of: str = "int"):
    return cudasim.kernel(SOURCE.replace("T ", f"{of} ").replace("(T)", f"({of})"), name)


@pytest.mark.parametrize("of", KINDS)
@pytest.mark.parametrize("case", CASES)
def test_case(case, of, monkeypatch):
    monkeypatch.setenv("CUDASIM_THREADS", "1")  # blocks come one after another
    orders, lines = CASES[case]
    follows, x = kernel("follows", of), np.zeros(8, KINDS[of])
    given = np.array(orders, np.int16).reshape(-1)
    if lines is None:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            follows[3, 128](x, given, len(orders))
        return
    with pytest.raises(cudasim.KernelFault) as caught:
        follows[3, 128](x, given, len(orders))
    fault, text = caught.value, SOURCE.splitlines()
    assert (lines[0] in text[fault.line - 1], lines[1] in text[fault.other_line - 1]) == (True, True)
    both = [(at, of) for at, of in orders if at != BARRIER]
    assert fault.block[0] * 128 + fault.thread[0] == both[-1][1]


@pytest.mark.parametrize("threads", ["1", "4"])
def test_launches_know_nothing_of_each_other(threads, monkeypatch):
    """There are fewer tags than launches here, and each launch gets the cells of those before it."""
    monkeypatch.setenv("CUDASIM_THREADS", threads)
    writes, x = kernel("writes"), np.zeros(4096, np.int32)
    for shift in range(80):
        writes[32, 128](x, shift * 37, 4096)
        if shift % 9 == 0:
            with pytest.raises(cudasim.KernelFault, match="race between blocks"):
                writes[32, 128](x, shift, 4000)


@pytest.mark.parametrize("first", [1, 2])
def test_parts_of_an_access_are_of_any_width(first, monkeypatch):
    """A struct is copied in parts of 4 bytes from odd places of the array, and of 8 from even ones."""
    monkeypatch.setenv("CUDASIM_THREADS", "1")
    reads, writes = (cudasim.kernel(PARTS, name) for name in ("reads", "writes"))
    x, out = np.zeros(64, np.float32), np.zeros(2, np.float32)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        reads[3, 1](x, out, first, 20, 26)
        writes[2, 1](x, first, 20)
    for third in range(20, 26):
        with pytest.raises(cudasim.KernelFault, match=rf"writes x\[{third}\].*block \(1,.*which reads"):
            reads[3, 1](x, out, first, 20, third)
    with pytest.raises(cudasim.KernelFault, match=r"out of bounds.*writes 8 bytes at"):
        writes[2, 1](np.zeros(13, np.float32), first, 8)
