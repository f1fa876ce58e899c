"""Products by cuBLAS, planned once for each kind of call.

torch describes a product with a bias to cuBLAS and asks it for an algorithm in every call. A `Product` asks
once and keeps the answer; it works on addresses, with memory that its caller provides, so that it can be
captured in a CUDA graph (`fgn.native.replays`). The functions and constants are those of NVIDIA's
cublasLt.h; the library is the one that torch has loaded.
"""

from __future__ import annotations

import functools
from threading import get_ident

import cffi
import torch
from torch import Tensor

from cudasim.building.library import once

# The most scratch memory of an algorithm, which is what torch allows on compute capability 9.0. It holds the
# sums of parts of the depth. A short depth has memory only for parts of 128 values: with more, cuBLAS divided
# 200 into 147 parts, which took 26 us for 7. A long one has all of it: with less, cuBLAS's choice took 2527
# us for 35 (100 x 200 of 16384 in float32, an H200) and 230 for 21 (1000 x 100 of 8192 in float16).
MOST_WORKSPACE, SHORTEST_PART, SHORT_DEPTH = 32 << 20, 128, 512

_DECLARATIONS = """
typedef void *cublasLtHandle_t, *cublasLtMatmulDesc_t, *cublasLtMatrixLayout_t, *cublasLtMatmulPreference_t;
typedef struct { uint64_t data[8]; } cublasLtMatmulAlgo_t;
typedef struct {
    cublasLtMatmulAlgo_t algo; size_t workspaceSize; int state; float wavesCount; int reserved[4];
} cublasLtMatmulHeuristicResult_t;
int cublasLtCreate(cublasLtHandle_t *);
int cublasLtMatmulDescCreate(cublasLtMatmulDesc_t *, int compute, int scale);
int cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t);
int cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t, int, const void *, size_t);
int cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t *, int type, uint64_t rows, uint64_t cols, int64_t ld);
int cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t);
int cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t *);
int cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t);
int cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t, int, const void *, size_t);
int cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t, cublasLtMatmulDesc_t, cublasLtMatrixLayout_t a,
    cublasLtMatrixLayout_t b, cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d, cublasLtMatmulPreference_t,
    int, cublasLtMatmulHeuristicResult_t *, int *);
int cublasLtMatmul(cublasLtHandle_t, cublasLtMatmulDesc_t, const float *alpha, uintptr_t a,
    cublasLtMatrixLayout_t, uintptr_t b, cublasLtMatrixLayout_t, const float *beta, uintptr_t c,
    cublasLtMatrixLayout_t, uintptr_t d, cublasLtMatrixLayout_t, const cublasLtMatmulAlgo_t *,
    uintptr_t workspace, size_t, uintptr_t stream);
"""
# cudaDataType_t and cublasComputeType_t
TYPES = {torch.float32: 0, torch.float16: 2, torch.bfloat16: 14}
_IN_FLOAT32, _IN_TF32 = 68, 77
# cublasLtMatmulDescAttributes_t
_FIRST_IS_TRANSPOSED, _SECOND_IS_TRANSPOSED, _EPILOGUE, _BIAS, _BIAS_TYPE = 3, 4, 7, 8, 26
_EPILOGUE_WITH_BIAS = 4
# cublasLtMatmulPreferenceAttributes_t; each of the four matrices has its own alignment
_WORKSPACE, _REDUCTION, _ALIGNMENTS = 1, 3, (5, 6, 7, 8)
_REDUCED_IN_FLOAT32 = 2


@once
def _ffi() -> cffi.FFI:
    interface = cffi.FFI()
    interface.cdef(_DECLARATIONS)
    return interface


@once
def _library():
    """The library that torch has loaded, or None if this torch has none by that name."""
    major = (torch.version.cuda or "").split(".")[0]
    try:
        return _ffi().dlopen(f"libcublasLt.so.{major}")
    except OSError:
        return None


class _Refused(Exception):
    """cuBLAS returned a status other than success."""


def _do(status: int):
    if status:
        raise _Refused(f"status {status}")


@functools.cache
def _handle(device: int, thread: int):
    with torch.cuda.device(device):
        place = _ffi().new("cublasLtHandle_t *")
        _do(_library().cublasLtCreate(place))
        return place[0]


def _made(create, destroy, *arguments):
    """An object of cuBLAS's, which is destroyed with the last reference to it."""
    place = _ffi().new("void **")
    _do(create(place, *arguments))
    return _ffi().gc(place[0], destroy)


class Product:
    """d = second first (+ bias), of matrices that begin where 128-bit accesses may, for one thread.

    d is (rows, columns), second (rows, depth) and first (columns, depth), as y, x and the weight of a Linear
    are, unless one of the two is given the other way round: (depth, rows) or (depth, columns). bytes: of the
    scratch memory, which begins at a multiple of 256.
    """

    __slots__ = (
        *("_algorithm", "_bias_at", "_bias_place", "_descriptor", "_first", "_handle", "_one", "_result"),
        *("_second", "_zero", "bytes"),
    )

    def __init__(self, sizes, dtype, device, precision, has_bias=False, first_is_t=True, second_is_t=False):
        library, kind = _library(), TYPES[dtype]
        rows, columns, depth = sizes
        self._handle = _handle(device, get_ident())
        compute = _IN_TF32 if precision == "tf32" else _IN_FLOAT32
        matmul = library.cublasLtMatmulDescCreate, library.cublasLtMatmulDescDestroy
        self._descriptor = _made(*matmul, compute, TYPES[torch.float32])
        # cuBLAS's matrices are in the order of columns, so each of ours is the transposed one there.
        self._describe(_FIRST_IS_TRANSPOSED, "int *", first_is_t)
        self._describe(_SECOND_IS_TRANSPOSED, "int *", second_is_t)
        self._bias_at, self._bias_place = 0, _ffi().new("uintptr_t *")
        if has_bias:
            self._describe(_EPILOGUE, "int *", _EPILOGUE_WITH_BIAS)
            self._describe(_BIAS_TYPE, "int *", kind)

        def layout(height, width):
            make = library.cublasLtMatrixLayoutCreate, library.cublasLtMatrixLayoutDestroy
            return _made(*make, kind, height, width, height)

        self._first = layout(depth, columns) if first_is_t else layout(columns, depth)
        self._second = layout(rows, depth) if second_is_t else layout(depth, rows)
        self._result = layout(columns, rows)
        self._one, self._zero = _ffi().new("float *", 1.0), _ffi().new("float *", 0.0)
        parts = max(1, depth // SHORTEST_PART) if depth < SHORT_DEPTH else depth
        self._choose(library, min(MOST_WORKSPACE, 4 * rows * columns * parts))

    def _describe(self, attribute: int, kind: str, value):
        place = _ffi().new(kind, value)
        size = _ffi().sizeof(_ffi().typeof(place).item)
        _do(_library().cublasLtMatmulDescSetAttribute(self._descriptor, attribute, place, size))

    def _choose(self, library, most: int):
        """Asks for the algorithm, with this much scratch memory. Parts of a sum are added in float32."""
        make = library.cublasLtMatmulPreferenceCreate, library.cublasLtMatmulPreferenceDestroy
        preference, new = _made(*make), _ffi().new
        wanted = [("uint64_t *", _WORKSPACE, most), ("uint32_t *", _REDUCTION, _REDUCED_IN_FLOAT32)]
        wanted += [("uint32_t *", which, 16) for which in _ALIGNMENTS]
        for kind, attribute, value in wanted:
            place = new(kind, value)
            size = _ffi().sizeof(_ffi().typeof(place).item)
            _do(library.cublasLtMatmulPreferenceSetAttribute(preference, attribute, place, size))
        answer, count = new("cublasLtMatmulHeuristicResult_t *"), new("int *")
        matrices = self._first, self._second, self._result, self._result
        of = self._handle, self._descriptor, *matrices, preference
        _do(library.cublasLtMatmulAlgoGetHeuristic(*of, 1, answer, count))
        if count[0] == 0 or answer.state:
            raise _Refused("no algorithm")
        self._algorithm = new("cublasLtMatmulAlgo_t *", answer.algo)
        self.bytes = answer.workspaceSize

    def __call__(self, second: int, first: int, bias: int, d: int, workspace: int, stream: int):
        """Launches the product of the matrices at these addresses. bias: (columns,), or 0 if it has none."""
        if bias != self._bias_at:
            self._bias_place[0] = self._bias_at = bias
            _do(_library().cublasLtMatmulDescSetAttribute(self._descriptor, _BIAS, self._bias_place, 8))
        status = _library().cublasLtMatmul(
            *(self._handle, self._descriptor, self._one, first, self._first, second, self._second),
            *(self._zero, d, self._result, d, self._result, self._algorithm, workspace, self.bytes, stream),
        )
        if status:
            raise RuntimeError(f"cublasLtMatmul returned status {status}")


def product(sizes, dtype, device: int, precision: str, **options) -> Product | None:
    """A product of these rows, columns and depth on a GPU; None on the simulator, or if cuBLAS has none.
    precision: "tf32", or else float32's for float32 matrices. options: of `Product`."""
    if device < 0 or 0 in sizes or _library() is None:
        return None
    try:
        return Product(sizes, dtype, device, precision, **options)
    except _Refused:
        return None


def linear(rows: int, weight: Tensor, bias: Tensor | None, device: int, precision: str) -> Product | None:
    """The product of a Linear with this weight and bias, for an x of so many rows and the weight's dtype."""
    return product((rows, *weight.shape), weight.dtype, device, precision, has_bias=bias is not None)
