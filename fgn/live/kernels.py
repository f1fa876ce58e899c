"""Live kernels: CUDA C in a string or in a notebook cell, compiled for the device at hand.

    add = fgn.kernel('''
    __global__ void add(const float *a, const float *b, float *sum, int n) {
        int i = blockIdx.x * blockDim.x + threadIdx.x;
        if (i < n)
            sum[i] = a[i] + b[i];
    }''')
    add[(n + 255) // 256, 256](a, b, total, n)

In a notebook, `%load_ext fgn` once; then a cell that starts with `%%cuda` and goes on with CUDA C defines its
kernels. CPU tensors run on the simulator, CUDA tensors on their GPU. To run on both, a kernel is written in
the C subset of CUDA: no templates, references or classes, and the sizes of arrays are macros. What
`cuda_c/shared/portable.h` has is there without an #include.

`fgn.check`, `fgn.count`, `fgn.simulator.source_view` and `fgn.measure.time_call` take calls of live
kernels just as calls of fgn's own. On the simulator, Ctrl-C and the stop button interrupt a kernel wherever
it is. A GPU offers no such thing: a kernel without an end there ends with the process only (restart the
notebook's kernel), so try it on CPU tensors first. Nor does a plain run, on either machine, stop a kernel
before it leaves its arrays, which may end the process: `fgn.check` does.
"""

from __future__ import annotations

import functools
import operator
import re
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

import cffi
import torch

from fgn.ladder import default_device
from fgn.live.signature import Arguments, Signature, blanked, signatures
from fgn.native.library import (
    GPU,
    BuildError,
    Library,
    digest,
    ffi,
    for_device,
    interruptible,
    locked,
    replacing,
)
from fgn.native.places import SOURCES, build_folder
from fgn.native.source import launched_sources
from fgn.simulator.counted import allow, fault, forbid_all

# ------------------------------------------------------------------------------------------------------------
# From a source to a text for one compiler

# A block's dynamic shared memory, as CUDA declares it. C has a pointer there.
_EXTERN_SHARED = re.compile(
    r"\bextern\s+(?:__align__\s*\([^()]*\)\s*)?__shared__\s+(?:__align__\s*\([^()]*\)\s*)?"
    r"(?P<type>[\w\s]+?)\s*\b(?P<name>\w+)\s*\[\s*\]\s*;"
)

LAUNCH_CODE = "launch code"  # what the text after the source is called; no message is about it alone


def _as_c(source: str) -> str:
    """The source with the little that is C++ in every kernel written as C; its lines stay its lines."""
    text = blanked(source)
    macros = []
    for match in reversed(list(_EXTERN_SHARED.finditer(text))):
        kind, name = " ".join(match["type"].split()), match["name"]
        inside_a_function = text.count("{", 0, match.start()) > text.count("}", 0, match.start())
        if name == "dynamic_shared":
            pointer = ""
        elif inside_a_function:
            pointer = f"{kind} *{name} = ({kind} *)dynamic_shared;"
        else:
            pointer = ""
            macros.append(f"#define {name} (({kind} *)dynamic_shared)\n")
        kept = pointer + "\n" * match[0].count("\n")
        source = source[: match.start()] + kept + source[match.end() :]
    source = re.sub(r'\bextern\s+"C"\s+(?=__global__)', lambda match: " " * len(match[0]), source)
    return "".join(macros) + ("#line 1\n" if macros else "") + source


def _simulator_text(source: str, kernels: Iterable[Signature]) -> str:
    """The source, and for each kernel a function that calls it with the arguments that pointers lead to."""
    lines = []
    for kernel in kernels:
        pointers = [kernel.interface.getctype(parameter.type, "*") for parameter in kernel.parameters]
        arguments = [f"*({pointer})arguments[{index}]" for index, pointer in enumerate(pointers)]
        for parameter in kernel.parameters:
            if parameter.type.kind == "struct":
                name, size = (
                    kernel.interface.getctype(parameter.type),
                    kernel.interface.sizeof(parameter.type),
                )
                lines.append(
                    f'_Static_assert(sizeof({name}) == {size}, "Python lays {name} out differently");'
                )
        lines += [
            '__attribute__((visibility("default"), no_sanitize("thread")))',
            f"void enter_{kernel.kernel}(const void *memory) {{",
            "    void *const *arguments = memory;",
            "    (void)arguments;",
            f"    {kernel.kernel}({', '.join(arguments)});",
            "}",
        ]
    return "\n".join([_as_c(source), f'#line 1 "{LAUNCH_CODE}"', *lines, ""])


def _gpu_text(source: str, kernels: Iterable[Signature]) -> str:
    """The source, and for each kernel a function that launches it with arguments that pointers lead to."""
    lines = ['extern "C" const char *error_string(int error) {']
    lines += ["    return cudaGetErrorString((cudaError_t)error);", "}"]
    for kernel in kernels:
        # More dynamic shared memory than 48 KiB has to be asked for.
        lines += [
            f'extern "C" int launch_{kernel.kernel}(dim3 grid, dim3 block, unsigned long long shared_bytes,',
            "                           void **arguments, void *stream) {",
            f"    const void *kernel = (const void *){kernel.kernel};",
            "    cudaError_t error = cudaSuccess;",
            "    if (shared_bytes > 48 << 10)",
            "        error = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,",
            "                                     (int)shared_bytes);",
            "    if (error == cudaSuccess)",
            "        error = cudaLaunchKernel(kernel, grid, block, arguments, shared_bytes,",
            "                                 (cudaStream_t)stream);",
            "    cudaGetLastError();",
            "    return error;",
            "}",
        ]
    return "\n".join([source, f'#line 1 "{LAUNCH_CODE}"', *lines, ""])


def _hint(source: str, file: str) -> str:
    """What a C compiler does not say well: which brace is open at the end, and that it has been given C++."""
    text = blanked(source)
    opened = []
    for brace in re.finditer("[{}]", text):
        if brace[0] == "{":
            opened.append(brace.start())
        elif opened:
            opened.pop()
    line = 1 + text.count("\n", 0, opened[-1]) if opened else 0
    if opened:
        return f"{file}:{line}: the brace that opens here is never closed\n"
    words = r"\b(template|class|namespace|using|constexpr|auto|nullptr|static_cast|reinterpret_cast|std)\b"
    beyond = re.search(words, text)
    if beyond:
        line = 1 + text.count("\n", 0, beyond.start())
        return f"{file}:{line}: {beyond[0]!r} is C++; the simulator takes the C subset of CUDA\n"
    return ""


# ------------------------------------------------------------------------------------------------------------
# Compiling

# Warnings of older C compilers that are errors in C++ and in newer C.
_ERRORS = ("implicit-function-declaration", "implicit-int", "int-conversion", "incompatible-pointer-types")


@functools.cache
def _toolchain(library: Library):
    return library.toolchain()


def _simulator_flags(library: Library) -> tuple[str, ...]:
    flags = [flag for flag in _toolchain(library).flags if flag not in ("-Werror", "-Wextra")]
    # At every branch the kernel looks whether it is to stop (sim/interrupt.c).
    stop = "-fsanitize-coverage=trace-pc"
    return (*flags, *(f"-Werror={name}" for name in _ERRORS), stop, "-fvisibility=hidden")


def _gpu_flags(capability: tuple[int, int]) -> tuple[str, ...]:
    dropped = ("-gencode", "-Werror", "-Xcompiler")
    flags = [flag for flag in _toolchain(GPU).flags if not flag.startswith(dropped)]
    architecture = "{}{}".format(*capability)
    return (*flags, f"-gencode=arch=compute_{architecture},code=sm_{architecture}", "-Xcompiler=-fPIC")


@dataclass(frozen=True, eq=False)
class Program:
    """A source with all its kernels, compiled as one for each device that it runs on."""

    source: str
    file: str
    kernels: dict[str, Signature]
    loaded: dict = field(default_factory=dict)
    has_warned: bool = False

    def build(self, device: torch.device) -> tuple[Path, str]:
        """Compiles the source unless that was done before. Returns the library and its warnings."""
        if device.type == "cpu":
            library = for_device("cpu")
            text, flags = _simulator_text(self.source, self.kernels.values()), _simulator_flags(library)
            # The simulator is named as it was loaded, or else the kernel would get another one of its own.
            libraries = (str(library.build()), "-Wl,-z,defs")
        else:
            library, libraries = GPU, ()
            text = _gpu_text(self.source, self.kernels.values())
            flags = _gpu_flags(torch.cuda.get_device_capability(device))
        toolchain = _toolchain(library)
        made_by = (toolchain.compiler, toolchain.identity, *flags, *libraries)
        directory = build_folder() / "live" / digest(self.file, text, library.headers_digest(), *made_by)[:16]
        path, messages = directory / "kernels.so", directory / "warnings.txt"
        with locked(directory.with_suffix(".lock")):
            if not path.exists():
                directory.mkdir(exist_ok=True)
                (directory / self.file).write_text(text)
                if library is not GPU:
                    flags = (*flags, f"-fdebug-prefix-map={directory}=.")
                headers = (f"-I{SOURCES}", "-include", "shared/portable.h")
                # Run where the file is, so that messages call it by the name that its user knows.
                compile_it = [toolchain.compiler, *flags, *headers, "-c", self.file, "-o", "kernels.o"]
                messages.write_text(self._run(compile_it, directory))
                with replacing(path) as temporary:
                    link = [toolchain.compiler, "kernels.o", "-o", temporary, *libraries]
                    self._run([*link, *toolchain.link_flags], directory)
        return path, messages.read_text()

    def _run(self, command: list[str], directory: Path) -> str:
        result = subprocess.run(command, cwd=directory, capture_output=True, text=True)
        lines = (result.stdout + result.stderr).strip().splitlines()
        said = "\n".join(line for line in lines if not line.startswith((LAUNCH_CODE, "cc1: some warnings")))
        if result.returncode != 0:
            raise BuildError(_hint(self.source, self.file) + said or "\n".join(lines))
        return said

    def load(self, device: torch.device) -> Loaded:
        key = for_device("cpu") if device.type == "cpu" else torch.cuda.get_device_capability(device)
        if key not in self.loaded:
            path, messages = self.build(device)
            if messages and not self.loaded and not self.has_warned:
                warnings.warn(messages, stacklevel=5)
            self.loaded[key] = Loaded.open(path, self.kernels, device)
        return self.loaded[key]


@dataclass(frozen=True)
class Loaded:
    """A compiled source. functions: enter_<kernel> for the simulator, launch_<kernel> for a GPU."""

    library: object
    functions: dict[str, object]

    @classmethod
    def open(cls, path: Path, kernels: Iterable[str], device: torch.device) -> Loaded:
        interface = cffi.FFI()
        interface.include(ffi())
        if device.type == "cpu":
            for kernel in kernels:
                interface.cdef(f"void enter_{kernel}(const void *arguments);")
            library = interface.dlopen(str(path))
            functions = {kernel: interface.addressof(library, f"enter_{kernel}") for kernel in kernels}
        else:
            interface.cdef("const char *error_string(int error);")
            sizes = "dim3 grid, dim3 block, unsigned long long shared_bytes"
            for kernel in kernels:
                interface.cdef(f"int launch_{kernel}({sizes}, void **arguments, void *stream);")
            library = interface.dlopen(str(path))
            functions = {kernel: getattr(library, f"launch_{kernel}") for kernel in kernels}
        return cls(library, functions)


# ------------------------------------------------------------------------------------------------------------
# Calling


def _dim3(name: str, size) -> dict[str, int]:
    """CUDA's dim3 from an int or up to three of them."""
    sizes = tuple(size) if isinstance(size, (tuple, list)) else (size,)
    try:
        sizes = tuple(map(operator.index, sizes))
    except TypeError:
        sizes = ()
    if not 1 <= len(sizes) <= 3:
        raise TypeError(f"{name}: expected an int or up to three of them, (x, y, z), got {size!r}")
    if any(not 0 <= size < 1 << 32 for size in sizes):
        raise ValueError(f"{name}: expected sizes that 32 bits hold, got {size!r}")
    return dict(zip("xyz", (*sizes, 1, 1), strict=False))


def _shared_bytes(given) -> int:
    """The size of a block's dynamic shared memory."""
    try:
        size = operator.index(given)
    except TypeError:
        raise TypeError(f"shared_bytes: expected an int, got {given!r}") from None
    if not 0 <= size < 1 << 31:
        raise ValueError(f"shared_bytes: expected 0 <= shared_bytes < 2**31, got {size}")
    return size


def _in_memory(signature: Signature, values: list):
    """The arguments as a kernel is launched with them: pointers to values, all in one piece of memory."""
    place, places = 8 * len(values), []
    for parameter in signature.parameters:
        size = ffi().sizeof(parameter.type)
        alignment = 16 if parameter.type.kind == "struct" else size
        place = -(-place // alignment) * alignment
        places.append(place)
        place += size
    # Kernels may read a vector by an aligned load, so the memory has to be aligned as well.
    memory = ffi().new("float[]", place // 4 + 8)
    start = int(ffi().cast("uintptr_t", memory))
    start += -start % 16
    pointers = ffi().cast("void **", start)
    for index, (parameter, value) in enumerate(zip(signature.parameters, values, strict=True)):
        pointers[index] = ffi().cast("void *", start + places[index])
        typed = signature.interface.cast(signature.interface.getctype(parameter.type, "*"), pointers[index])
        typed[0] = value
    return pointers, memory


class Kernel:
    """A kernel, launched as `kernel[grid, block](x, y, n)` or `kernel[grid, block, shared_bytes](x, y, n)`.

    grid, block: an int or up to three, (x, y, z). shared_bytes: of dynamic shared memory for each block, 0 by
    default; `kernel[grid, block](x, y, n, shared_bytes=1024)` says the same.

    A pointer takes a contiguous tensor of the dtype that it points to (float * a float32 one) or None; a
    number takes an int or float that its type can hold; a struct takes a dict of its members. The device of
    the tensors decides where it runs; there it is compiled when it first runs. A GPU runs it on the current
    stream, and as everywhere in torch an error inside it shows when something waits for the GPU.

    source, name: as given. signature: its name and parameters as C has them.
    """

    def __init__(self, program: Program, name: str):
        self._program = program
        self._signature = program.kernels[name]
        self._c_name = ffi().new("char[]", name.encode())
        self._c_file = ffi().new("char[]", program.file.encode())
        self.name = name

    @property
    def source(self) -> str:
        return self._program.source

    @property
    def file(self) -> str:
        """What messages, faults and counts call the source."""
        return self._program.file

    @property
    def signature(self) -> str:
        return str(self._signature)

    def __repr__(self) -> str:
        return f"<kernel {self.signature}>"

    def __reduce__(self):
        # In another process it is made of its source again; what was compiled is found there.
        return kernel, (self.source, self.name, self.file)

    def build(self, device="cpu") -> str:
        """Compiles it for a device; returns the compiler's warnings. BuildError when it does not compile."""
        return self._program.build(torch.device(device))[1]

    def __call__(self, *arguments, **keywords):
        raise TypeError(f"{self.name}: expected {self.name}[grid, block](...), got no grid and no block")

    def __getitem__(self, sizes) -> Callable[..., None]:
        if not isinstance(sizes, tuple) or len(sizes) not in (2, 3):
            raise TypeError(
                f"{self.name}: expected [grid, block] or [grid, block, shared_bytes], got [{sizes!r}]"
            )
        grid, block, *rest = sizes

        def launch(*arguments, shared_bytes: int = rest[0] if rest else 0):
            __tracebackhide__ = True
            self._launch(arguments, grid, block, shared_bytes)

        return launch

    def _launch(self, arguments: tuple, grid, block, shared_bytes: int):
        __tracebackhide__ = True  # IPython's tracebacks end at the user's line
        given = Arguments()
        try:
            values = given.values(self._signature, arguments)
            sizes = _dim3("grid", grid), _dim3("block", block)
            shared_bytes = _shared_bytes(shared_bytes)
        except (TypeError, ValueError, RuntimeError) as error:
            raise type(error)(f"{self.name}: {error}") from None
        tensors = given.tensors
        device = next((tensor.device for tensor in tensors.values()), torch.device("cpu"))
        loaded = self._program.load(device)
        function = loaded.functions[self.name]
        pointers, _memory = _in_memory(self._signature, values)
        if device.type == "cpu":
            self._simulate(function, pointers, *sizes, shared_bytes, tensors)
            return
        with torch.cuda.device(device):
            stream = ffi().cast("void *", torch.cuda.current_stream(device).cuda_stream)
            error = function(*sizes, shared_bytes, pointers, stream)
        if error != 0:
            message = ffi().string(loaded.library.error_string(error)).decode()
            raise RuntimeError(f"{self.name}: {message}")

    def _simulate(self, function, pointers, grid, block, shared_bytes: int, tensors):
        __tracebackhide__ = True
        library = for_device("cpu").load()
        # Reports keep pointing to the name and the file, so they live as long as the kernel.
        launched_sources[self.file] = self.source
        allow(**tensors)
        try:
            with interruptible(library):
                error = library.sim_launch(
                    self._c_name, self._c_file, function, pointers, grid, block, shared_bytes
                )
            if error != 0:
                raise fault(library)
        finally:
            forbid_all()


def kernel(source: str, name: str | None = None, file: str | None = None) -> Kernel:
    """A kernel from CUDA C, to be launched as `kernel[grid, block](...)`; see `Kernel`.

    source: CUDA C with one or more `__global__` functions. name: which one is meant, when there are several.
    file: what the compiler's messages, faults and counts call the source; by default `<name>.cu`.

    It is compiled when it is first launched on a device, once for one content: `BuildError` has the
    compiler's messages with the source's own line numbers, and warnings are shown as Python's. ValueError
    when the source has no such kernel, or one that takes what Python has no value for.
    """
    if not isinstance(source, str):
        raise TypeError(f"source: expected a str of CUDA C, got {type(source).__name__}")
    kernels = signatures(source)
    if name is None and len(kernels) == 1:
        name = next(iter(kernels))
    if name not in kernels:
        there = ", ".join(kernels) or "none"
        raise ValueError(f"name: expected one of the source's __global__ functions ({there}), got {name!r}")
    file = f"{name}.cu" if file is None else file
    if Path(file).name != file or Path(file).suffix != ".cu":
        raise ValueError(f"file: expected a name like scale.cu, got {file!r}")
    return Kernel(Program(source, file, kernels), name)


# ------------------------------------------------------------------------------------------------------------
# Notebooks


class CellError(BuildError):
    """A cell that does not compile. A notebook shows the compiler's messages and no traceback of Python's."""

    def _render_traceback_(self) -> list[str]:
        coloured = re.sub(r"\b(error|warning|note):", "\033[1;31m\\1:\033[0m", str(self))
        return [f"\033[1;31mdoes not compile\033[0m\n{coloured}"]


def _define(line: str, cell: str) -> dict[str, Kernel]:
    """The kernels of a cell: the one that the line names, or all. Compiled for the device at hand."""
    # The line of the magic is the cell's first, so the source's own first line is the second.
    source = "\n" + cell
    try:
        kernels = signatures(source)
        wanted = line.split() or list(kernels)
        missing = [name for name in wanted if name not in kernels]
        if missing or not kernels:
            there = ", ".join(kernels) or "none"
            expected = " ".join(("a __global__ function", *missing))
            raise BuildError(f"expected {expected} in the cell, got {there}")
        program = Program(source, f"{wanted[0]}.cu", kernels, has_warned=True)
        _, messages = program.build(default_device())
    except (BuildError, ValueError) as error:
        raise CellError(str(error)) from None
    if messages:
        print(messages, file=sys.stderr)
    return {name: Kernel(program, name) for name in wanted}


def load_ipython_extension(shell):
    """What `%load_ext fgn` does: from then on there is the cell magic `%%cuda [name ...]`."""

    def cuda(line: str, cell: str):
        """Defines the kernels of a cell of CUDA C, or only those that are named, as Python objects."""
        shell.push(_define(line, cell))

    shell.register_magic_function(cuda, "cell", "cuda")
