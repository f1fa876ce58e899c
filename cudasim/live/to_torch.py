"""A kernel as an operator of PyTorch: one file of Python that needs torch, nvcc and a GPU, and no cudasim.

The file has the kernel's source without its host code, C++ that launches it with the grid, block and shared
memory of a launch, and an operator of torch. The operator checks its arguments, declares which tensors it
writes and works with `torch.compile`. torch compiles it at its first call
(`torch.utils.cpp_extension.load_inline`).
"""

from __future__ import annotations

import keyword
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from string import Template

from cudasim.arrays import array_of, dtype_name, is_array
from cudasim.live.arguments import Arguments, Type
from cudasim.live.compiling import Instance, nvcc_language
from cudasim.live.numbers import bytes_of_shared, dim3, is_float
from cudasim.live.signature import Parameter
from cudasim.live.source import included
from cudasim.live.text import blanked

_FIRST_LINE = 'r"""A kernel of CUDA C++ as an operator of PyTorch, written by cudasim.'
_TAKEN = {"torch", "functools", "load_inline", "library", "launch", "check", "check_int"}
# Kernels may use what torch's own flags for nvcc remove from half and bfloat16.
_OF_HALF = tuple(
    f"-U__CUDA_NO_{name}__"
    for name in ("HALF_OPERATORS", "HALF_CONVERSIONS", "HALF2_OPERATORS", "BFLOAT16_CONVERSIONS")
)


@dataclass(frozen=True)
class GivenTensor:
    """What is kept of a tensor from a launch, without its memory."""

    count: int

    @classmethod
    def or_value(cls, argument) -> object:
        if is_array(argument):
            return cls(math.prod(argument.shape))
        is_number = argument is None or isinstance(argument, (int, float)) or dtype_name(argument)
        return argument if is_number else type(argument).__name__


@dataclass(frozen=True)
class Launch:
    """A launch of a kernel, without its memory. types: of the kernel's parameters. given: its arguments."""

    grid: dict[str, int]
    block: dict[str, int]
    shared_bytes: int
    instance: Instance
    types: tuple[Type, ...]
    given: tuple

    @classmethod
    def of(cls, sizes, shared_bytes: int, instance: Instance, types, arguments: Sequence) -> Launch:
        return cls(*sizes, shared_bytes, instance, types, tuple(map(GivenTensor.or_value, arguments)))


@dataclass(frozen=True)
class _Argument:
    """An argument of the operator. count: the elements of a tensor. is_written: whether the kernel writes
    them."""

    name: str
    type: Type
    count: int | None
    is_written: bool = False

    @property
    def schema(self) -> str:
        if self.count is not None:
            return f"Tensor(a{self.name}!) {self.name}" if self.is_written else f"Tensor {self.name}"
        kind = "bool" if self.type.kind == "b" else "float" if is_float(self.type.dtype) else "int"
        return f"{kind} {self.name}"

    @property
    def annotated(self) -> str:
        kinds = {"Tensor": "torch.Tensor"}
        kind = re.match(r"\w+", self.schema)[0]
        return f"{self.name}: {kinds.get(kind, kind)}"

    @property
    def in_cpp(self) -> str:
        """Its parameter of the C++ function that torch calls."""
        kind = re.match(r"\w+", self.schema)[0]
        kinds = {"Tensor": "const at::Tensor &", "float": "double ", "int": "int64_t ", "bool": "bool "}
        return kinds[kind] + self.name

    @property
    def in_cuda(self) -> str:
        """The type of its parameter of the launching function."""
        kind = re.match(r"\w+", self.schema)[0]
        return {"Tensor": "void *", "float": "double", "int": "long long", "bool": "bool"}[kind]

    @property
    def passed(self) -> str:
        return f"{self.name}.data_ptr()" if self.count is not None else self.name

    def check(self, fixed: bool) -> str:
        """The Python statement that refuses what the kernel does not take."""
        if self.count is not None:
            item = self.type.item
            dtype = f"torch.{item.dtype}" if item.dtype else None
            count = self.count if fixed else None
            return f'check("{self.name}", {self.name}, {dtype}, {item.alignment or 1}, {count})'
        if self.type.kind not in "iu":
            return ""
        bits = min(8 * self.type.size, 64) - (self.type.kind == "i" or self.type.size == 8)
        low = f"-(2**{bits})" if self.type.kind == "i" else 0
        return f'check_int("{self.name}", {self.name}, {low}, 2**{bits} - 1)'


def _is_of_constants(declaration: str) -> bool:
    """Whether a parameter is a pointer through which nothing is written."""
    before, star, _ = declaration.rpartition("*")
    return bool(star and re.search(r"\bconst\b", before))


def _argument(parameter: Parameter, kind: Type, given) -> _Argument:
    name = re.sub(r"\W", "_", parameter.name)
    name = f"{name}_" if keyword.iskeyword(name) or name in _TAKEN else name
    if kind.kind == "p" and isinstance(given, GivenTensor):
        if kind.item.kind == "p" or (kind.item.kind == "s" and not kind.item.dtype):
            raise TypeError(f"{parameter.name}: expected a pointer to numbers, got {parameter.declaration}")
        return _Argument(name, kind, given.count, not _is_of_constants(parameter.declaration))
    if kind.kind in "biuf" or (kind.dtype and kind.count == 1):
        if isinstance(given, str):
            raise TypeError(f"{parameter.name}: expected a number, got a {given}")
        return _Argument(name, kind, None)
    raise TypeError(
        f"{parameter.name}: expected a tensor or a number, which operators of torch take, "
        f"got {parameter.declaration}"
    )


def _grid(given, called: dict[str, int]) -> tuple[list[str], bool]:
    """The grid's sizes in C++, and whether they are the launch's."""
    if given is None:
        return [str(called[axis]) for axis in "xyz"], True
    sizes = list(given) if isinstance(given, (tuple, list)) else [given]
    if not 1 <= len(sizes) <= 3 or not all(isinstance(size, (int, str)) and size != "" for size in sizes):
        raise TypeError(f"grid: expected up to three ints or formulas in C++, got {given!r}")
    return [str(size) for size in sizes], False


def _refuse_filled_constants(program):
    text = blanked(program.source)
    for variable in program.variables:
        found = re.search(rf"\b__constant__\b[^;]*?\b{variable.name}\b\s*(?:\[[^\]]*\]\s*)*(.)", text, re.S)
        if found and found[1] not in "={":
            raise ValueError(
                f"{variable.name}: expected a kernel that gets all its values by arguments, got __constant__ "
                "memory that Python fills, which an operator of torch does not have"
            )


def _writes(arguments: Sequence[_Argument], writes) -> list[str]:
    can = [argument.name for argument in arguments if argument.is_written]
    if writes is None:
        return can
    for name in writes:
        if name not in can:
            raise ValueError(f"writes: expected names among {', '.join(can) or 'none'}, got {name!r}")
    return list(writes)


_CUDA = Template("""
// What follows is not the kernel's own source: it launches the kernel.
#include <cuda_runtime.h>
template <class... Op_types, class... Op_given>
static void op_run(void (*op_kernel)(Op_types...), dim3 op_grid, dim3 op_block, size_t op_shared,
                   cudaStream_t op_stream, Op_given... op_given) {
    // More dynamic shared memory than 48 KiB has to be asked for. Errors stay for who asks for the last one.
    if (op_shared > 48 << 10 && cudaFuncSetAttribute((const void *)op_kernel,
                                                     cudaFuncAttributeMaxDynamicSharedMemorySize,
                                                     (int)op_shared) != cudaSuccess)
        return;
    op_kernel<<<op_grid, op_block, op_shared, op_stream>>>((Op_types)op_given...);
}
void op_launch(dim3 op_grid, dim3 op_block, size_t op_shared, cudaStream_t op_stream$parameters) {
    op_run($kernel, op_grid, op_block, op_shared, op_stream$arguments);
}
""")

_CPP = Template("""
#include <torch/extension.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>

void op_launch(dim3 grid, dim3 block, size_t shared, cudaStream_t stream$types);

static unsigned op_size(int64_t size) {
    TORCH_CHECK(0 < size && size < int64_t(1) << 31, "grid: expected 0 < size < 2**31, got ", size);
    return unsigned(size);
}

void launch($parameters) {
    const c10::cuda::CUDAGuard op_guard($first.device());
    op_launch(dim3($grid), dim3($block), $shared, c10::cuda::getCurrentCUDAStream()$arguments);
    C10_CUDA_KERNEL_LAUNCH_CHECK();
}
""")

_PYTHON = Template('''$first_line

    from $module import $name
    $name($names)            # or torch.ops.cudasim.$name($names)

kernel: $kernel
grid: $grid
block: $block
dynamic shared memory of a block: $shared bytes
written: $writes

torch compiles it at the first call, for which it needs nvcc.
There is no derivative: torch.autograd.Function or torch.library.register_autograd gives it one.
"""

import functools
$more_imports
import torch
from torch.utils.cpp_extension import load_inline

CUDA = r"""$cuda"""

CPP = r"""$cpp"""


@functools.cache
def library():
    return load_inline(
        name="cudasim_$name",
        cpp_sources=CPP,
        cuda_sources=CUDA,
        functions=["launch"],
        extra_cuda_cflags=$flags,
        extra_include_paths=$folders,
        no_implicit_headers=True,
    )


def check(name, tensor, dtype, alignment, count):
    if not tensor.is_cuda:
        raise TypeError(f"$name: {name}: expected a tensor on a GPU, got one on {tensor.device}")
    if dtype is not None and tensor.dtype != dtype:
        raise TypeError(f"$name: {name}: expected a tensor of {dtype}, got one of {tensor.dtype}")
    if not tensor.is_contiguous():
        raise ValueError(f"$name: {name}: expected a contiguous tensor, got strides {tensor.stride()}")
    if tensor.data_ptr() % alignment:
        raise ValueError(f"$name: {name}: expected an address that {alignment} divides, got a view beside it")
    if count is not None and tensor.numel() != count:
        raise ValueError(
            f"$name: {name}: expected {count} elements, for which the grid is made, got {tensor.numel()}"
        )


def check_int(name, value, low, high):
    if not low <= value <= high:
        raise ValueError(f"$name: {name}: expected {low} <= {name} <= {high}, got {value}")


@torch.library.custom_op("cudasim::$name", mutates_args=$mutated, schema="($schema) -> ()")
def $name($annotated) -> None:
$checks
    library().launch($names)


@$name.register_fake
def fake_$name($names):
    return None
''')


def _together(name: str, path: Path, program, launch: Launch, writes, grid) -> str:
    """The text of the file."""
    signature = launch.instance.signature
    arguments, values = [], []  # of the operator; of the kernel
    every = zip(signature.parameters, launch.types, launch.given, strict=True)
    for number, (parameter, kind, given) in enumerate(every):
        if kind.kind == "p" and given is None:
            values.append("(void *)0")
            continue
        arguments.append(_argument(parameter, kind, given))
        values.append(f"op_{number}")
    tensors = [argument.name for argument in arguments if argument.count is not None]
    if not tensors:
        raise TypeError(f"{signature.kernel}: expected a kernel that takes a tensor, got {signature}")
    _refuse_filled_constants(program)
    written = _writes(arguments, writes)
    arguments = [_Argument(a.name, a.type, a.count, a.name in written) for a in arguments]
    sizes, is_fixed = _grid(grid, launch.grid)
    block = ", ".join(str(launch.block[axis]) for axis in "xyz")

    source = included(program.source, program.file, program.folders, program.only, for_nvcc=True).text
    needs_headers = re.search(r'#\s*include\s*"sim/|\b(?:dynamic_shared|LAUNCHER|CALLED)\b', source)
    if needs_headers:
        source = f'#include "sim/portable.h"\n{source}'
    numbered = [
        (value, a) for value, a in zip([v for v in values if v != "(void *)0"], arguments, strict=True)
    ]
    cuda = f'#line 1 "{program.file}"\n{source}' + _CUDA.substitute(
        parameters="".join(f", {a.in_cuda} {value}" for value, a in numbered),
        kernel=launch.instance.expression,
        arguments="".join(f", {value}" for value in values),
    )
    cpp = _CPP.substitute(
        types="".join(f", {a.in_cuda}" for a in arguments),
        parameters=", ".join(a.in_cpp for a in arguments),
        first=tensors[0],
        grid=", ".join(f"op_size({size})" for size in sizes),
        block=block,
        shared=launch.shared_bytes,
        arguments="".join(f", {a.passed}" for a in arguments),
    )
    if '"""' in cuda + cpp:
        raise ValueError(f'{program.file}: expected a source without """, got one')
    checks = [statement for a in arguments if (statement := a.check(is_fixed))]
    devices = [f"{tensor}.device" for tensor in tensors]
    same = f"if len({{{', '.join(devices)}}}) > 1:" if len(devices) > 1 else ""
    if same:
        checks += [same, f'    raise TypeError("{name}: expected tensors on one GPU, got several")']
    return _PYTHON.substitute(
        first_line=_FIRST_LINE,
        module=path.stem,
        name=name,
        names=", ".join(a.name for a in arguments),
        kernel=signature,
        grid=", ".join(sizes),
        block=block,
        shared=launch.shared_bytes,
        writes=", ".join(written) or "nothing",
        more_imports="from importlib.util import find_spec\nfrom pathlib import Path\n"
        if needs_headers
        else "",
        cuda=cuda,
        cpp=cpp,
        flags=list((*_OF_HALF, *nvcc_language(source), "-O3", "-lineinfo")),
        folders='[str(Path(find_spec("cudasim").origin).parent)]' if needs_headers else "[]",
        mutated=tuple(written),
        schema=", ".join(a.schema for a in arguments),
        annotated=", ".join(a.annotated for a in arguments),
        checks="\n".join(f"    {line}" for line in checks),
    )


def _write(kernel, launch: Launch, name: str, path, writes, grid) -> Path:
    if not isinstance(name, str) or not name.isidentifier() or keyword.iskeyword(name) or name in _TAKEN:
        raise ValueError(f"name: expected a name of Python that the file does not use itself, got {name!r}")
    path = Path(f"{name}_op.py" if path is None else path)
    if path.exists() and not path.read_text(errors="replace").startswith(_FIRST_LINE):
        raise FileExistsError(f"path: expected no file, or one that was written by to_torch, got {path}")
    try:
        text = _together(name, path, kernel._program, launch, writes, grid)
    except (TypeError, ValueError) as error:
        raise type(error)(f"{kernel.name}: {error}") from None
    path.write_text(text)
    return path


def _prepared(bound, arguments: Sequence, template) -> Launch:
    """A launch that is not made, with its arguments checked."""
    kernel, sizes = bound.kernel, (dim3("grid", bound.grid), dim3("block", bound.block))
    instance = kernel._instance(arguments, template)
    parameters = instance.signature.parameters
    if len(arguments) != len(parameters):
        expected = f"expected {len(parameters)} arguments for {instance.signature}"
        raise TypeError(f"{kernel.name}: {expected}, got {len(arguments)}")
    devices = [array_of(argument).device for argument in arguments if is_array(argument)]
    loaded = kernel._program.load(next(iter(devices), "cpu"), instance)
    types = loaded.entries[instance.expression].types
    Arguments().packed([parameter.name for parameter in parameters], types, arguments)
    return Launch.of(sizes, bytes_of_shared(bound.shared_bytes), instance, types, arguments)


def to_torch(bound, *arguments, name: str, path=None, writes=None, grid=None, template=None) -> Path:
    """Writes a file of Python that makes a kernel an operator of PyTorch: `torch.ops.cudasim.<name>`.

        cudasim.to_torch(scale[(n + 255) // 256, 256], x, y, n, name="scale", grid="(n + 255) / 256")
        from scale_op import scale

    bound: the kernel with the operator's grid and block. arguments: those of a launch, which does not run;
    None for a pointer that the operator always passes as null. path: by default `<name>_op.py`; replaces an
    earlier file of to_torch. writes: the names of the tensors that the kernel writes; by default all with
    pointers that are not const. grid: one to three ints or C++ formulas of the kernel's numbers and tensors,
    such as "(x.numel() + 255) / 256"; without them the operator takes tensors with the same number of
    elements as these. Returns the file's path.

    TypeError for a kernel with arguments that torch's operators cannot take: structs, textures, tables of
    pointers. ValueError for one that reads `__constant__` memory filled by Python.
    """
    return _write(bound.kernel, _prepared(bound, arguments, template), name, path, writes, grid)


def of_last_launch(kernel, name: str, path=None, writes=None, grid=None) -> Path:
    """Writes a file of Python that makes the kernel an operator of PyTorch, with the grid and block of its
    last launch; see `cudasim.to_torch`."""
    if kernel.last_launch is None:
        raise RuntimeError(f"{kernel.name}: expected a kernel that was launched before, got one that was not")
    return _write(kernel, kernel.last_launch, name, path, writes, grid)
