"""What an exported file does beside its model: it compiles its sources with nvcc and calls their C API.

`fgn.exporting.one_file` copies the text below unchanged into every exported file, so it may not import fgn.
The exported file defines SOURCES, the text of every source file by name, and LAUNCHER.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import hashlib
import os
import shutil
import subprocess
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.utils.cpp_extension import CUDA_HOME, get_default_build_root

SOURCES: dict[str, str] = {}


class Step(NamedTuple):
    """A pointwise operator. kind: a number of `fgn_pointwise_kind` in fgn.h; a, b: its constants; channel:
    its (out_features,) vector; tensor: its (batch, out_features) tensor."""

    kind: int
    a: float = 0.0
    b: float = 0.0
    channel: Tensor | None = None
    tensor: Tensor | None = None


# ---- The structs of fgn.h ----

MOST_STEPS = 8  # FGN_MAX_POINTWISE
TYPES = {torch.float32: 0, torch.float16: 1, torch.bfloat16: 2}  # fgn_type
INVALID_ARGUMENT, NOT_SUPPORTED = 1, 2  # fgn_status


class CStep(ctypes.Structure):
    """struct fgn_pointwise"""

    _fields_ = (
        *(("kind", ctypes.c_int), ("a", ctypes.c_float), ("b", ctypes.c_float)),
        *((name, ctypes.c_void_p) for name in ("channel", "tensor")),
        ("one", ctypes.c_int),
    )


class CChain(ctypes.Structure):
    """struct fgn_chain"""

    _fields_ = (
        *((name, ctypes.c_longlong) for name in ("batch", "in_features", "out_features", "groups")),
        ("eps", ctypes.c_float),
        *((name, ctypes.c_int) for name in ("type", "precision", "vector_type", "frozen", "x_is_split")),
        *((name, ctypes.c_int) for name in ("can_multiply", "before_count", "after_count")),
        *((name, ctypes.c_void_p) for name in ("weight", "prepared", "bias", "norm_scale", "norm_shift")),
        *((name, CStep * MOST_STEPS) for name in ("before", "after")),
    )


class CDevice(ctypes.Structure):
    """struct fgn_device"""

    _fields_ = (
        *((name, ctypes.c_int) for name in ("major", "minor", "multiprocessors")),
        ("l2_bytes", ctypes.c_longlong),
    )


class CPlan(ctypes.Structure):
    """The beginning of struct fgn_plan; `bytes_of_plan()` gives its full size."""

    _fields_ = (
        ("version", ctypes.c_int),
        ("candidate", ctypes.c_int),
        ("device", CDevice),
        ("chain", CChain),
        *((name, ctypes.c_ulonglong) for name in ("workspace_bytes", "product_bytes", "prepared_bytes")),
    )


# ---- Compiling ----


def build(sources: dict[str, str], architecture: str) -> Path:
    """The path of the sources' library for one architecture, for instance "90a". It is compiled unless it
    exists.

    It is kept where torch keeps extensions: in $TORCH_EXTENSIONS_DIR, or in the user's cache. RuntimeError
    with nvcc's message if nvcc refuses a file, or if there is no nvcc.
    """
    homes = (home for home in (os.environ.get("CUDA_HOME"), CUDA_HOME, "/usr/local/cuda") if home)
    folders = [*(f"{home}/bin" for home in homes), os.environ.get("PATH", "")]
    nvcc = shutil.which("nvcc", path=os.pathsep.join(folders))
    if nvcc is None:
        raise RuntimeError("nvcc was not found ($CUDA_HOME, /usr/local/cuda, PATH)")
    flags = [f"-gencode=arch=compute_{architecture},code=sm_{architecture}", "-O3", "-std=c++17"]
    made_of = hashlib.sha256(repr((sorted(sources.items()), flags, nvcc)).encode()).hexdigest()
    root = Path(os.environ.get("TORCH_EXTENSIONS_DIR") or get_default_build_root())
    library = root / f"model_new_{made_of[:16]}.so"
    if library.exists():
        return library
    root.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=root) as name:
        folder = Path(name)
        for file, text in sources.items():
            path = folder / file
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)

        def run(*arguments):
            result = subprocess.run([nvcc, *flags, *arguments], cwd=folder, capture_output=True, text=True)
            if result.returncode != 0:
                raise RuntimeError(f"nvcc {' '.join(arguments)}\n{result.stdout}{result.stderr}")

        def compile_one(file: str) -> str:
            made = file.replace("/", "_") + ".o"
            run("-Xcompiler=-fPIC", "-I.", "-c", file, "-o", made)
            return made

        units = [file for file in sources if file.endswith(".cu")]
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            objects = list(pool.map(compile_one, units))
        run("-shared", *objects, "-o", "library.so")
        # Another process may have been faster; both make the same library.
        os.replace(folder / "library.so", library)
    return library


@functools.cache
def library_for(architecture: str) -> ctypes.CDLL:
    """The library of SOURCES for one architecture, loaded."""
    return load(build(SOURCES, architecture))


def load(path: Path) -> ctypes.CDLL:
    """The library at the path, with its functions declared as in fgn.h."""
    library = ctypes.CDLL(str(path))
    chain, plan, pointer, size = ctypes.POINTER(CChain), ctypes.c_void_p, ctypes.c_void_p, ctypes.c_ulonglong
    library.bytes_of_plan.restype = size
    library.fgn_last_error.restype = ctypes.c_char_p
    library.fgn_plan_chain.argtypes = (ctypes.c_int, chain, pointer, plan)
    library.fgn_prepare.argtypes = (plan, chain, pointer, pointer)
    library.fgn_run.argtypes = (plan, chain, pointer, pointer, pointer, size, pointer)
    return library


@contextlib.contextmanager
def on_device(device: torch.device):
    """Yields (library, stream) with the device made current."""
    if device.type != "cuda":
        raise RuntimeError(f"x: expected it on a CUDA device, got {device}")
    major, minor = torch.cuda.get_device_capability(device)
    # Only 9.0a has Hopper's own instructions, which later architectures lack.
    library = library_for("90a" if (major, minor) == (9, 0) else f"{major}{minor}")
    with torch.cuda.device(device):
        yield library, torch.cuda.current_stream(device).cuda_stream


# ---- Calling ----


class _WithoutBackward(torch.autograd.Function):
    """The result of `run()`, which cannot be differentiated."""

    @staticmethod
    def forward(ctx, run, *tensors):
        return run()

    @staticmethod
    def backward(ctx, *gradients):
        raise RuntimeError("ModelNew has a forward only; fgn's own modules have gradients")


class Kernels:
    """The version's kernels, for chains of tensors of `dtype`. precision: `fgn_precision` in fgn.h."""

    def __init__(self, dtype: torch.dtype, precision: int):
        self.dtype, self.precision = dtype, precision
        # The halves that the version makes of a weight, and the weight's identity. Each call checks on the
        # GPU whether the weight has changed, and if so makes the halves again.
        self.prepared: tuple[tuple, Tensor] | None = None

    def __reduce__(self):
        return Kernels, (self.dtype, self.precision)  # copies prepare anew

    def __deepcopy__(self, memo):
        return Kernels(self.dtype, self.precision)

    @torch.compiler.disable
    def __call__(self, x: Tensor, linear: nn.Linear, before, norm: nn.GroupNorm, after) -> Tensor:
        """y = after(GroupNorm(before(x W^T + bias))). x: (batch, in_features); before, after: Steps."""
        vectors = [linear.bias, norm.weight, norm.bias, *(step.channel for step in (*before, *after))]
        tensors = [step.tensor for step in (*before, *after)]
        self._check(x, linear, norm, vectors, tensors)

        def run():
            return self._run(x, linear, before, norm, after)

        read = [tensor for tensor in (x, linear.weight, *vectors, *tensors) if tensor is not None]
        if torch.is_grad_enabled() and any(tensor.requires_grad for tensor in read):
            return _WithoutBackward.apply(run, *read)
        return run()

    def _check(self, x, linear, norm, vectors, tensors):
        """Raises TypeError, ValueError or RuntimeError for tensors that the kernels do not take."""
        if not isinstance(x, Tensor):
            raise TypeError(f"x: expected a torch.Tensor, got {type(x).__name__}")
        channels = linear.out_features
        expected = {"x": (x, (x.shape[0] if x.dim() else 0, linear.in_features))}
        expected["weight"] = linear.weight, (channels, linear.in_features)
        expected |= {f"tensor {number}": (one, (x.shape[0], channels)) for number, one in enumerate(tensors)}
        for name, (tensor, shape) in expected.items():
            if tensor is None:
                continue
            if tensor.dtype != self.dtype:
                raise TypeError(f"{name}: expected dtype {self.dtype}, got {tensor.dtype}")
            if tensor.shape != shape:
                raise ValueError(f"{name}: expected shape {shape}, got {tuple(tensor.shape)}")
        for vector in vectors:
            if vector is not None and vector.dtype not in (self.dtype, torch.float32):
                raise TypeError(f"parameters: expected dtype {self.dtype}, got {vector.dtype}")
            if vector is not None and (vector.numel(), *vector.shape[-1:]) not in (
                (1,),
                (1, 1),
                (channels,) * 2,
            ):
                raise ValueError(f"parameters: expected shape ({channels},), got {tuple(vector.shape)}")
        for tensor in (linear.weight, *vectors, *tensors):
            if tensor is not None and tensor.device != x.device:
                raise RuntimeError(
                    f"parameters: expected them on {x.device}, where x is, got {tensor.device}"
                )
        if norm.num_channels != channels:
            raise ValueError(f"num_channels: expected {channels}, got {norm.num_channels}")

    def _run(self, x, linear, before, norm, after):
        kept = []  # keeps the tensors to which the chain points alive until the launches are in the stream

        def address(tensor: Tensor | None, dtype: torch.dtype) -> int | None:
            if tensor is not None:
                kept.append(tensor.detach().to(dtype).contiguous())
            return None if tensor is None else kept[-1].data_ptr()

        channels = linear.out_features
        chain = CChain(x.shape[0], linear.in_features, channels, norm.num_groups, norm.eps)
        chain.type, chain.precision = TYPES[self.dtype], self.precision
        chain.before_count, chain.after_count = len(before), len(after)
        steps = [*zip(chain.before, before, strict=False), *zip(chain.after, after, strict=False)]
        for c_step, step in steps:
            c_step.kind, c_step.a, c_step.b = step.kind, step.a, step.b
        with on_device(x.device) as (library, stream):

            def check(status: int):
                if status:
                    error = library.fgn_last_error().decode()
                    raise (ValueError if status == INVALID_ARGUMENT else RuntimeError)(error)

            plan = ctypes.create_string_buffer(library.bytes_of_plan())
            vectors = [linear.bias, norm.weight, norm.bias, *(step.channel for _, step in steps)]
            own = all(vector is None or vector.dtype == self.dtype for vector in vectors)
            # Some versions read 16-bit vectors; the others want vectors as float32.
            vector_dtype = self.dtype if own else torch.float32
            chain.vector_type = TYPES[vector_dtype]
            status = library.fgn_plan_chain(0, chain, None, plan)
            if status == NOT_SUPPORTED and vector_dtype != torch.float32:
                vector_dtype, chain.vector_type = torch.float32, TYPES[torch.float32]
                status = library.fgn_plan_chain(0, chain, None, plan)
            check(status)

            x_at, chain.weight = address(x, self.dtype), address(linear.weight, self.dtype)
            weight = kept[-1]
            chain.bias = address(linear.bias, vector_dtype)
            chain.norm_scale = address(norm.weight, vector_dtype)
            chain.norm_shift = address(norm.bias, vector_dtype)
            for c_step, step in steps:
                vector = None if step.channel is None else step.channel.reshape(-1).expand(channels)
                c_step.channel = address(vector, vector_dtype)
                c_step.tensor = address(step.tensor, self.dtype)

            sizes = CPlan.from_buffer(plan)
            y = x.new_empty(x.shape[0], channels)
            workspace = torch.empty(sizes.workspace_bytes, dtype=torch.uint8, device=x.device)
            if sizes.prepared_bytes > 0 and len(x) > 0:
                of = (weight.data_ptr(), weight.shape, x.device, stream, sizes.prepared_bytes)
                capturing = x.is_cuda and torch.cuda.is_current_stream_capturing()
                if self.prepared is None or self.prepared[0] != of or capturing:
                    memory = torch.empty(sizes.prepared_bytes, dtype=torch.uint8, device=x.device)
                    check(library.fgn_prepare(plan, chain, memory.data_ptr(), stream))
                    kept.append(memory)
                    if not capturing:
                        self.prepared = of, memory
                else:
                    memory = self.prepared[1]
                chain.prepared = memory.data_ptr()
            size = sizes.workspace_bytes
            check(library.fgn_run(plan, chain, x_at, y.data_ptr(), workspace.data_ptr(), size, stream))
        return y
