"""Live kernels: CUDA C++ in a string or in a notebook cell, compiled for the device at hand.

    add = cudasim.kernel('''
    __global__ void add(const float *a, const float *b, float *sum, int n) {
        int i = blockIdx.x * blockDim.x + threadIdx.x;
        if (i < n)
            sum[i] = a[i] + b[i];
    }''')
    add[(n + 255) // 256, 256](a, b, total, n)

In a notebook, `%load_ext cudasim` once; then a cell that starts with `%%cuda` and goes on with CUDA C++
defines its kernels. What is on the CPU runs on the simulator, CUDA tensors on their GPU. Code for the host
alone, from `main` to launches, is left out, and a line says so; a cell with a `main()` runs that as well
(cudasim/programs/). The simulator has its own `cuda_fp16.h`,
`mma.h`, `cooperative_groups.h` and so on (cudasim/sim/cpp/); `sim/portable.h` is there without an #include.

`cudasim.check`, `cudasim.count` and `cudasim.source_view` take calls of kernels. On the simulator, Ctrl-C and
the stop button interrupt a kernel wherever it is. A GPU does not offer that: a kernel that never ends stops
there only with the process (restart the notebook's kernel), so try a kernel on the simulator first.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from cudasim.arrays import Array, array_of, is_array, loaded_torch
from cudasim.building.compilers import MissingToolError
from cudasim.building.library import BuildError, ffi, interruptible, is_counting, simulator
from cudasim.counting.counted import allow, checking, fault, forbid_all, only_checks
from cudasim.live import compiling, views
from cudasim.live.arguments import Arguments, Type, in_memory
from cudasim.live.compiling import Instance
from cudasim.live.instances import asked_for
from cudasim.live.isolated_copies import copied
from cudasim.live.judge import judged, with_what_is_there
from cudasim.live.loading import Entry, Loaded, load
from cudasim.live.locals import watched
from cudasim.live.numbers import bytes_of_shared, dim3
from cudasim.live.signature import (
    Signature,
    Variable,
    signatures,
    structs,
    structs_used_by,
    variables,
)
from cudasim.live.source import Included, included
from cudasim.live.symbols import Symbols, flush_printed
from cudasim.live.templates import deduced_template, template_text
from cudasim.live.tensor_maps import TensorMap
from cudasim.live.text import blanked
from cudasim.live.textures import Texture
from cudasim.live.to_torch import Launch, of_last_launch
from cudasim.live.unused import launch_unless_unused
from cudasim.source import launched_sources

_MOST_COPIED_BYTES = 1 << 30  # of a launch's tensors
_OWN_VALUES = (
    "with a GPU's values for what C++ leaves undefined the source does not compile, and a checked launch "
    "tells where it comes to such a value"
)


@dataclass(frozen=True, eq=False)
class Program:
    """A source with all its kernels, compiled together for each device on which it runs.

    folders: where to look for its headers. only: the name of the one kernel to compile, None for all.
    """

    source: str
    file: str
    folders: tuple[Path, ...] = ()
    only: str | None = None
    loaded: dict = field(default_factory=dict)
    has_warned: bool = False

    @cached_property
    def read(self) -> Included:
        return included(self.source, self.file, self.folders, self.only)

    @cached_property
    def text_for_gpu(self) -> str:
        """The part of a source that nvcc can compile if headers of its host code are missing."""
        text = included(self.source, self.file, self.folders, self.only, for_nvcc=True).text
        return with_what_is_there(f'#line 1 "{self.file}"\n{text}', says=False)

    @cached_property
    def kernels(self) -> dict[str, Signature]:
        found = signatures(self.read.text)
        text = blanked(self.source)  # kernels of the headers alone are not meant
        found = {name: found[name] for name in found if re.search(rf"\b{name}\b", text)}
        templates = [name for name, kernel in found.items() if kernel.template]
        asked = asked_for(self.source, self.read.text, templates) if templates else {}
        return found | {name: found[name].with_instances(asked[name]) for name in asked}

    @cached_property
    def variables(self) -> list[Variable]:
        return variables(self.read.text)

    @cached_property
    def structs(self) -> dict[str, list[str]]:
        """The structs that a kernel takes, and the structs among their members."""
        wanted = " ".join(p.declaration for kernel in self.kernels.values() for p in kernel.parameters)
        return structs_used_by(wanted, structs(self.read.text))

    @cached_property
    def symbols(self) -> Symbols:
        base = Instance(next(iter(self.kernels.values())))
        return Symbols(self.variables, lambda device: self.load(device, base))

    def _instances(self, extra: Instance | None) -> list[Instance]:
        if extra is not None and extra.instantiates:
            return [extra]
        return [Instance(kernel) for kernel in self.kernels.values() if not kernel.template]

    @judged
    def build(self, device: str, extra: Instance | None = None) -> tuple[Path, str]:
        """Compiles the source, or finds the earlier result. Returns the library and its warnings."""
        try:
            # What only the host needs is left out for nvcc too, unless nvcc misses something then.
            return self._build(device, extra, self.read, None if device == "cpu" else self.text_for_gpu)
        except BuildError:
            if device != "cpu":
                return self._build(device, extra, self.read)
            # A rewritten cast or shift of the source's own type may not compile. Unrewritten, a count that is
            # too large, or a float that the integer cannot hold, is reported at run time
            # (cudasim/sim/undefined.c).
            tried = {self.read.text}
            for values in (frozenset({"casts"}), frozenset()):
                plain = included(self.source, self.file, self.folders, self.only, values)
                if plain.text in tried:
                    continue
                tried.add(plain.text)
                try:
                    path, messages = self._build(device, extra, plain)
                except BuildError:
                    continue
                what = "shifts" if values else "shifts and casts to integers"
                return path, f"{self.file}: warning: {what} are C++'s own here: {_OWN_VALUES}\n{messages}"
            raise

    def _build(
        self, device: str, extra: Instance | None, read: Included, source: str | None = None
    ) -> tuple[Path, str]:
        while True:
            try:
                return compiling.build(
                    device,
                    self.file,
                    self.source if source is None else source,
                    read,
                    self._instances(extra),
                    self.variables,
                    self.structs,
                    self.folders,
                )
            except BuildError as error:
                wanted = None if extra is None else extra.signature.kernel
                if self.forgets(str(error), wanted):
                    continue
                if not self.structs or "in its parameters" not in str(error):
                    raise
                self.__dict__["structs"] = {}  # what was read of their members does not compile

    def forgets(self, said: str, wanted: str | None = None) -> bool:
        """Whether the compiler misses a variable or a kernel that an #if has removed. Then this program
        forgets it, and is compiled again.

        wanted: the kernel that is not forgotten.
        """
        missing = re.search(r"^error: (\w+) is not there for the compiler", said, re.M)
        name = missing and missing[1]
        found = len(self.variables) + len(self.kernels)
        self.__dict__["variables"] = [v for v in self.variables if v.name != name]
        if name != wanted and len(self.kernels) > 1:
            self.__dict__["kernels"] = {k: self.kernels[k] for k in self.kernels if k != name}
        return len(self.variables) + len(self.kernels) < found

    def load(self, device: str, instance: Instance) -> Loaded:
        """The library with the instance."""
        machine = simulator() if device == "cpu" else loaded_torch().cuda.get_device_capability(device)
        instantiated = instance.expression if instance.instantiates else ""
        key = (machine, device == "cpu" and only_checks(), instantiated)
        if key not in self.loaded:
            path, messages = self.build(device, instance)
            if messages and not self.loaded and not self.has_warned:
                warnings.warn(messages, stacklevel=6)
            self.loaded[key] = load(path, device, self._instances(instance), self.structs)
        return self.loaded[key]


# ------------------------------------------------------------------------------------------------------------
# Calling


def _device_of(arguments: Iterable) -> str:
    for argument in arguments:
        if is_array(argument):
            return str(getattr(argument, "device", "cpu"))
        nested = argument.values() if isinstance(argument, dict) else argument
        if isinstance(nested, (list, tuple, type({}.values()))):
            device = _device_of(nested)
            if device != "cpu":
                return device
    return "cpu"


def _has_pointer(kind: Type) -> bool:
    members = (member.type for member in kind.members)
    return (
        kind.kind == "p" or (kind.kind == "a" and _has_pointer(kind.item)) or any(map(_has_pointer, members))
    )


def _refuse_other_devices(signature: Signature, arguments: Sequence):
    for parameter, argument in zip(signature.parameters, arguments, strict=True):
        device = _device_of([argument]) if is_array(argument) else "cpu"
        if device.partition(":")[0] not in ("cpu", "cuda"):
            raise TypeError(f"{parameter.name}: expected a tensor on the CPU or on a GPU, got {device}")


@dataclass(frozen=True)
class BoundLaunch:
    """A kernel with its grid, block and bytes of dynamic shared memory: a call launches it."""

    kernel: Kernel
    grid: object
    block: object
    shared_bytes: object = 0

    def __call__(self, *arguments, shared_bytes=None, template=None, unchecked: bool = False, **unknown):
        __tracebackhide__ = True
        if unknown:
            raise TypeError(
                f"{self.kernel.name}: expected arguments by their places, then shared_bytes=, template= "
                f"or unchecked=, got {next(iter(unknown))}="
            )
        shared_bytes = self.shared_bytes if shared_bytes is None else shared_bytes
        self.kernel._launch(arguments, self.grid, self.block, shared_bytes, template, unchecked)

    def __repr__(self) -> str:
        return f"<{self.kernel.name}[{self.grid}, {self.block}]>"


class Kernel:
    """A kernel, launched as `kernel[grid, block](x, y, n)` or `kernel[grid, block, shared_bytes](x, y, n)`.

    grid, block: an int or up to three, (x, y, z). shared_bytes: of dynamic shared memory for each block, 0 by
    default; `kernel[grid, block](x, y, n, shared_bytes=1024)` means the same.

    A pointer takes a contiguous tensor of the dtype that it points to (float * a float32 one, __half * a
    float16 one) or None, a pointer to pointers a list of tensors; a number takes an int or float that its
    type can hold; a struct takes a dict of its members. The tensors' device decides where the kernel runs; it
    is compiled at the first launch there. A GPU runs the kernel on the current stream. As everywhere in
    torch, an error inside the kernel appears when something waits for the GPU.

    template: the arguments of a template, `kernel[grid, block](x, y, n, template=(32, 8))`: ints, bools,
    dtypes or names of types. Types that follow from the tensors may be left out, and so may arguments that
    are the same in all of the source's launches and explicit instantiations.

    On the simulator a launch is checked as by `cudasim.check()`. unchecked=True leaves the checks out, and
    the launch is several times as fast; an access that the processor refuses is a KernelFault even then. Such
    a launch runs on copies of its tensors, except those of volatile pointers.

    source, name: as given. signature: its name and parameters as the source has them. symbols: the variables
    in device memory by name, as tensors: `kernel.symbols["weights"].copy_(weights)`.
    """

    last_launch: Launch | None = None
    to_torch, sass, ptx = of_last_launch, views.sass, views.ptx

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
        """The source's name in messages, faults and counts."""
        return self._program.file

    @property
    def signature(self) -> str:
        return str(self._signature)

    def __repr__(self) -> str:
        return f"<kernel {self.signature}>"

    def __reduce__(self):
        # Another process makes the kernel again from its source, and finds the compiled library.
        return kernel, (self.source, self.name, self.file, tuple(map(str, self._program.folders)))

    def build(self, device="cpu", template=None) -> str:
        """Compiles the kernel for a device; returns the compiler's warnings. BuildError if it does not
        compile.

        template: a template kernel's arguments. Without them a template is only parsed, and not compiled.
        """
        return self.compiled(device, template)[1]

    def compiled(self, device="cpu", template=None) -> tuple[Path, str]:
        """The library that `build()` makes, and the compiler's warnings."""
        arguments = "" if template is None else template_text(self._signature, template)
        return self._program.build(str(device), Instance(self._signature, arguments))

    @property
    def symbols(self) -> Symbols:
        """The `__constant__`, `__device__` and `__managed__` variables of its source, by name."""
        return self._program.symbols

    def __call__(self, *arguments, **keywords):
        raise TypeError(f"{self.name}: expected {self.name}[grid, block](...), got no grid and no block")

    def __getitem__(self, sizes) -> BoundLaunch:
        if not isinstance(sizes, tuple) or len(sizes) not in (2, 3):
            raise TypeError(
                f"{self.name}: expected [grid, block] or [grid, block, shared_bytes], got [{sizes!r}]"
            )
        return BoundLaunch(self, *sizes)

    def _launch(self, arguments: tuple, grid, block, shared_bytes: int, template, unchecked: bool):
        __tracebackhide__ = True  # IPython's tracebacks end at the user's line
        if copy := watched(self, kernel):
            return copy._launch(arguments, grid, block, shared_bytes, template, unchecked)
        signature, given = self._signature, Arguments()
        device = _device_of(arguments)
        check = device == "cpu" and not unchecked and not is_counting.get()
        with checking() if check else nullcontext():
            try:
                sizes = dim3("grid", grid), dim3("block", block)
                shared_bytes = bytes_of_shared(shared_bytes)
                if len(arguments) != len(signature.parameters):
                    expected = f"expected {len(signature.parameters)} arguments for {signature}"
                    raise TypeError(f"{expected}, got {len(arguments)}")
                _refuse_other_devices(signature, arguments)
                instance = self._instance(arguments, template)
                loaded = self._program.load(device, instance)
                entry = loaded.entries[instance.expression]
                if entry.cluster[1:] != (1, 1):
                    raise ValueError(
                        f"expected a cluster along x, which all are that the simulator has, got "
                        f"__cluster_dims__{entry.cluster}"
                    )
                names = [parameter.name for parameter in signature.parameters]
                values = given.packed(names, entry.types, arguments)
                self.last_launch = Launch.of(sizes, shared_bytes, instance, entry.types, arguments)
                if device == "cpu" and (only_checks() or not is_counting.get()):
                    given = Arguments(self._copied(loaded, given, arguments))
                    values = given.packed(names, entry.types, arguments)
            except (TypeError, ValueError, RuntimeError) as error:
                if isinstance(error, (BuildError, MissingToolError)):
                    raise
                raise type(error)(f"{self.name}: {error}") from None
            pointers, size, _memory = in_memory(values)
            if device == "cpu":
                self._simulate(loaded, entry, pointers, size, *sizes, shared_bytes, given, check)
                return
        cuda = loaded_torch().cuda
        with cuda.device(device):
            stream = ffi().cast("void *", cuda.current_stream(device).cuda_stream)
            error = entry.function(*sizes, shared_bytes, pointers, stream)
        if error != 0:
            message = ffi().string(loaded.library.error_string(error)).decode()
            raise RuntimeError(f"{self.name}: {message}")

    def _copied(self, loaded: Loaded, given: Arguments, arguments: Sequence) -> list[tuple[int, int, int]]:
        """Lets the launch run on copies of its tensors, so that a wild access reaches nothing else. Volatile
        memory is not copied, because a kernel and the program may communicate through it; nor are textures,
        which hold their images' addresses. If a variable of the source may have a tensor's address, nothing
        is copied.
        """
        parameters = zip(self._signature.parameters, arguments, strict=True)
        staying = [
            array_of(argument)
            for parameter, argument in parameters
            if is_array(argument) and "volatile" in parameter.declaration
        ]
        for texture in (*arguments, *self._program.symbols.bound.values()):
            if isinstance(texture, Texture):
                staying += [texture.memory, texture.descriptor]
            elif isinstance(texture, TensorMap):
                staying.append(texture.memory)
        staying += given.kept  # what the launch has made itself: tables of addresses, encoded maps
        has_pointers = any(_has_pointer(kind) for kind, _ in loaded.variables.values())
        return copied(simulator().load(), {} if has_pointers else given.tensors, staying, arguments)

    def _instance(self, arguments: Sequence, template) -> Instance:
        signature = self._signature
        if template is not None:
            if not signature.template:
                raise TypeError(f"template: {signature} is no template")
            return Instance(signature, template_text(signature, template))
        return Instance(signature, deduced_template(signature, arguments) if signature.template else "")

    def _simulate(
        self,
        loaded: Loaded,
        entry: Entry,
        pointers,
        size: int,
        grid,
        block,
        shared_bytes,
        given: Arguments,
        alone: bool,
    ):
        __tracebackhide__ = True
        library, tensors = simulator().load(), given.tensors
        # Reports have pointers to the kernel's name and file, so both strings live as long as the kernel.
        launched_sources.update({name: text for name, text in self._program.read.texts.items()})
        for name, texture in self._program.symbols.bound.items() if self._program.variables else ():
            tensors = tensors | {name: texture.memory, f"{name} (descriptor)": texture.descriptor}

        def launch():
            __tracebackhide__ = True
            allow(given.moved, **tensors)
            try:
                with interruptible(library), self._program.symbols.during(loaded):
                    error = library.sim_launch_clusters(
                        self._c_name,
                        self._c_file,
                        entry.function,
                        pointers,
                        size,
                        grid,
                        block,
                        shared_bytes,
                        entry.cluster[0],
                    )
                if error != 0:
                    raise fault(library)
            finally:
                forbid_all()
                flush_printed()

        try:
            if alone and self._may_run_again(tensors):  # cudasim.check() tells all such reads
                launch_unless_unused(library, launch, tensors)
            else:
                launch()
        finally:
            library.sim_isolate_nothing()

    def _may_run_again(self, tensors: dict[str, Array]) -> bool:
        """Whether a launch changes only its tensors, and reads shared memory at all."""
        text = self._program.read.text
        return (
            "shared" in text
            and not self._program.variables
            and "printf" not in text
            and sum(tensor.nbytes for tensor in tensors.values()) <= _MOST_COPIED_BYTES
        )


def kernel(
    source: str, name: str | None = None, file: str | None = None, include: Sequence[str | Path] = ()
) -> Kernel:
    """A kernel from CUDA C++, to be launched as `kernel[grid, block](...)`; see `Kernel`.

    source: CUDA C++ with one or more `__global__` functions; host code is left out. name: the kernel's, if
    there are several. file: the source's name in compiler messages, faults and counts; by default
    `<name>.cu`. include: folders of its headers.

    The source is compiled at the first launch on a device, once for the same text: `BuildError` has the
    compiler's messages with the source's own line numbers, and warnings are shown as Python's. ValueError if
    the source has no such kernel; TypeError at the launch if Python has no value for a parameter's type.
    """
    if not isinstance(source, str):
        raise TypeError(f"source: expected a str of CUDA C++, got {type(source).__name__}")
    if not source.isascii() and re.search("[\ud800-\udfff]", source):
        raise ValueError(
            "source: expected text, got bytes of another encoding (surrogates); decode it as UTF-8"
        )
    folders = tuple(Path(folder) for folder in include)
    program = Program(source, "kernel.cu", folders)
    kernels = program.kernels
    if name is None and len(kernels) == 1:
        name = next(iter(kernels))
    if name not in kernels:
        if not kernels:
            raise ValueError(f"source: expected a __global__ function in it, found none: {source[:60]!r}")
        there = ", ".join(kernels)
        raise ValueError(f"name: expected one of the source's __global__ functions ({there}), got {name!r}")
    file = f"{name}.cu" if file is None else file
    if Path(file).name != file or Path(file).suffix != ".cu":
        raise ValueError(f"file: expected a name like scale.cu, got {file!r}")
    return Kernel(Program(source, file, folders, name if len(kernels) > 1 else None), name)
