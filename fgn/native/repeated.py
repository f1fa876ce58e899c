"""The repeated call: what a call costs that is like one before it.

`fgn.calls.run_chain()` checks every argument, chooses a version and builds what the C library wants.
Where the tensors could be used as they are, all that is kept as a `Call`, under a key of what decided it:
the chain, the sizes, the dtypes, the device, the precision, the thread. The next call of that key looks it
up, sees that the tensors are still such as can be used as they are, writes the addresses that have changed
into the struct, and calls C. Whatever is different takes the long way, which says what is wrong with it, or
does it.

Nothing is shared between threads: the key has the thread's number, so two threads that call one module have a
struct each.
"""

from __future__ import annotations

from threading import get_ident

import torch
from torch import Tensor
from torch._C._dynamo.guards import (
    TensorGuards,
    _empty_strided_cpu,
    _empty_strided_cuda,
    _reinterpret_tensor,
)
from torch.autograd import forward_ad
from torch.nn import Parameter

from cudasim.building.library import interruptible, is_counting
from fgn.native import prepared
from fgn.native.library import ffi

# ------------------------------------------------------------------------------------------------------------
# Whether a call is an ordinary one

_function_mode = torch._C._is_torch_function_mode_enabled
_dispatch_modes = torch._C._len_torch_dispatch_stack
_transform = torch._C._functorch.peek_interpreter_stack
_autocast = torch._C._is_any_autocast_enabled
_tracing = torch._C._get_tracing_state


def is_ordinary() -> bool:
    """Whether nobody traces or transforms calls here: torch.compile, torch.export, torch.jit, torch.func,
    autocast, a mode of `__torch_function__` or `__torch_dispatch__` (fake tensors are one), forward-mode
    derivatives. Otherwise a call has to go by torch.library."""
    return not (
        torch.compiler.is_compiling()
        or _function_mode()
        or _dispatch_modes()
        or _transform() is not None
        or _autocast()
        or _tracing() is not None
        or forward_ad._current_level >= 0
    )


# Tensors of these types have no `__torch_function__` of their own.
ORDINARY_TENSORS = frozenset((Tensor, Parameter))

# ------------------------------------------------------------------------------------------------------------
# The calls that are kept

MOST_CALLS = 4096

_calls: dict[tuple, Call] = {}


_forgotten = 0


def forget():
    """Forgets every call: the next ones take the long way once."""
    global _forgotten
    _forgotten += 1
    _calls.clear()


def usable_address(tensor: Tensor) -> int:
    """The tensor's address, or 0 where kernels cannot use it as it is: it is not contiguous, not aligned for
    128-bit accesses, empty, not dense, or a view that negates what is in memory."""
    try:
        pointer = tensor.data_ptr()
    except RuntimeError:  # it has no such memory: it is sparse
        return 0
    return 0 if pointer & 15 or not tensor.is_contiguous() or tensor.is_neg() else pointer


def _refuse(*_) -> bool:
    return False


class Arguments:
    """The tensors of a kept call: where their addresses go in its struct, and what later ones have to be.

    torch's own guard compares a tensor's type, dtype, device, sizes and strides, and what dispatches on it
    (it is sparse, negated, a transform's) with those of the call that was kept, all tensors in one call of
    C++, as it does where compiled code is called again. So later tensors can be used as they are where those
    of the kept call could, but for where their memory begins; where those could not, none is taken.

    places: one for each tensor. tensors: None for an absent one. given: what the caller gave where vectors of
    another dtype are used instead.
    """

    __slots__ = ("absent", "dtypes", "guard", "places", "pointers", "present")

    def __init__(self, places, tensors, given=None):
        self.present = [i for i, tensor in enumerate(tensors) if tensor is not None]
        self.absent = [i for i, tensor in enumerate(tensors) if tensor is None]
        of_present = [tensors[i] for i in self.present]
        given = of_present if given is None else [given[i] for i in self.present]
        self.guard = _refuse
        if all(map(usable_address, (*given, *of_present))):
            self.guard = TensorGuards(*given, dynamic_dims_sizes=None, dynamic_dims_strides=None).check
        self.dtypes = [tensor.dtype for tensor in of_present]
        self.pointers = [tensor.data_ptr() for tensor in of_present]
        self.places = [ffi().cast("uintptr_t *", places[i]) for i in self.present]

    def like_before(self, tensors):
        """The tensors that are there, or None where one is not such as the kept call's."""
        if self.absent:
            for place in self.absent:
                if tensors[place] is not None:
                    return None
            tensors = [tensors[place] for place in self.present]
        return tensors if self.guard(*tensors) else None

    def converted(self, present):
        """The same as the struct has them: vectors in another dtype where the caller gave those."""
        return [
            one if one.dtype is dtype else one.to(dtype)
            for one, dtype in zip(present, self.dtypes, strict=True)
        ]

    def write(self, present) -> bool:
        """Writes the addresses of these tensors into the struct. False where one is not aligned for 128-bit
        accesses."""
        pointers = [tensor.data_ptr() for tensor in present]
        if pointers != self.pointers:
            for place, pointer in enumerate(pointers):
                if pointer & 15:
                    return False
                self.places[place][0] = self.pointers[place] = pointer
        return True

    def point_to(self, tensors) -> bool:
        """Lets the struct point to these tensors. False where one is not such as the kept call's."""
        if self.absent:
            present = self.like_before(tensors)
            return present is not None and self.write(present)
        return self.guard(*tensors) and self.write(tensors)


def layout_of(sizes) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The sizes and strides of a contiguous tensor."""
    strides = [1]
    for size in reversed(sizes[1:]):
        strides.append(strides[-1] * size)
    return tuple(sizes), tuple(reversed(strides))


# A tensor of given sizes, strides and offset in another one's memory, of which autograd notes nothing.
part_of = _reinterpret_tensor


def empty_on(device: int):
    """What makes tensors of given sizes, strides and dtype: of the CPU (-1), or of the current GPU. The host
    takes half as long for it as for new_empty(); torch.compile's code calls it too."""
    return _empty_strided_cpu if device < 0 else _empty_strided_cuda


class Call:
    """What a thread keeps of a call.

    chain: is kept so that its id stays its own. c_chain: the struct, this thread's. arguments: of the
    parameters in their order. run: the C function on integers for pointers; it takes x, y, the workspace, its
    size and the stream, and returns a status. raise_for: raises for a status that is not FGN_OK. y_layout:
    y's sizes and strides. multiply: makes the product of x, the weight and the bias, where the plan finds it
    in the workspace; else None. splits: whether the version splits the weight, or was taken before one that
    does; then whether the weight is frozen, the bytes that are kept of it, that memory, and where its address
    goes. converts: whether there are vectors of a type that the version does not read.
    """

    __slots__ = (
        *("chain", "library", "c_chain", "arguments", "run", "raise_for", "device", "y_layout"),
        *("workspace_bytes", "splits", "frozen", "prepared_bytes", "prepared", "prepared_at"),
        *("converts", "multiply"),
    )

    def __init__(self, **fields):
        for name, value in fields.items():
            setattr(self, name, value)

    def find_prepared(self, weight: Tensor) -> bool:
        """Whether what is kept of the weight, if anything is, is there as it was; its address goes into the
        struct."""
        frozen = prepared.is_frozen(weight)
        if frozen != self.frozen:
            return False
        if not self.prepared_bytes:
            return True
        memory = prepared.find(weight, self.prepared_bytes, frozen)
        if memory is None:
            return False
        if memory is not self.prepared:
            self.prepared_at[0] = memory.data_ptr()
            self.prepared = memory
        return True

    def now(self, x: Tensor, parameters: tuple[Tensor | None, ...], y_layout=None) -> Tensor | None:
        """The result, where the call can be made: a counted one is of another library. y_layout: y's sizes
        and strides, for an x of more dimensions, the rows of which are those of the kept call's."""
        return None if self.device < 0 and is_counting.get() else self(x, parameters, y_layout)

    def __call__(self, x: Tensor, parameters: tuple[Tensor | None, ...], y_layout=None) -> Tensor | None:
        """The result, or None where a tensor is not one that can be used as it is."""
        device = self.device
        if device >= 0 and torch._C._cuda_getDevice() != device:
            with torch.cuda.device(device):
                return self(x, parameters, y_layout)
        x_pointer = usable_address(x)
        arguments = self.arguments
        used = arguments.like_before(parameters)
        if not x_pointer or used is None:
            return None
        if self.converts:
            used = arguments.converted(used)
        if not arguments.write(used) or (self.splits and not self.find_prepared(parameters[0])):
            return None
        size = self.workspace_bytes
        empty = empty_on(device)
        if self.multiply is not None:
            workspace = self.multiply(x, parameters[0], parameters[1])
        else:
            workspace = empty((size,), (1,), torch.uint8) if size else None
        y = empty(*(y_layout or self.y_layout), x.dtype)
        pointers = (x_pointer, y.data_ptr(), workspace.data_ptr() if size else 0, size)
        if device < 0:
            with interruptible(self.library):
                status = self.run(*pointers, 0)
        else:
            status = self.run(*pointers, torch._C._cuda_getCurrentRawStream(device))
        if status:
            self.raise_for(self.library, status)
        return y


_deterministic = torch._C._get_deterministic_algorithms


def key_of(chain, x: Tensor, parameters: tuple[Tensor | None, ...], version, precision) -> tuple:
    """Cache key: everything that selects a plan and that `Call` does not recheck, torch's settings too."""
    if x.dtype is torch.float32:
        setting = torch._C._get_fp32_precision_getter("cuda", "matmul")
        precision = setting if precision is None else (precision, setting)
    weight = parameters[0]
    return (
        id(chain),
        x.shape,
        x.get_device(),
        weight.shape,
        version,
        precision,
        get_ident(),
        x.dtype,
        _deterministic(),
        *[None if tensor is None else tensor.dtype for tensor in parameters],
    )


def settings() -> tuple:
    """What may change a plan besides the tensors: torch's settings, and whether all calls were forgotten."""
    return torch._C._get_fp32_precision_getter("cuda", "matmul"), _deterministic(), _forgotten


def kept(key: tuple) -> Call | None:
    """The call of this key, if one was kept."""
    return _calls.get(key)


def repeat(chain, x, parameters: tuple, version, precision, with_gradients=None) -> Tensor | None:
    """The result of an ordinary call that is like one before it, or None.

    parameters: the weight, bias, norm_weight, norm_bias and the chain's operands, vectors and tensors.
    with_gradients: the same for tensors that require grad; it takes the call's key too.
    """
    if type(x) not in ORDINARY_TENSORS or type(parameters[0]) not in ORDINARY_TENSORS:
        return None
    try:
        key = key_of(chain, x, parameters, version, precision)
    except (AttributeError, TypeError):  # something that is no tensor, or no name of a version
        return None
    if torch.is_grad_enabled() and (
        x.requires_grad or any(tensor is not None and tensor.requires_grad for tensor in parameters)
    ):
        return with_gradients and with_gradients(chain, x, parameters, version, precision, key)
    try:
        call = _calls.get(key)
    except TypeError:  # no name of a version
        return None
    return call and call.now(x, parameters)


def keep(key: tuple, call: Call):
    """Keeps a call for those like it."""
    if len(_calls) >= MOST_CALLS:
        _calls.clear()
    _calls[key] = call
