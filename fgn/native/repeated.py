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


class Argument:
    """A parameter's place in the struct: where its address goes, which is there, and what it points to."""

    __slots__ = ("at", "dtype", "pointer", "shape")

    def __init__(self, at, tensor: Tensor):
        self.at = ffi().cast("uintptr_t *", at)
        self.pointer, self.shape, self.dtype = tensor.data_ptr(), tensor.shape, tensor.dtype


def point_to(arguments, tensors, device: int) -> bool:
    """Writes the addresses of these tensors into the struct. False where one is not such as the struct was
    made for, or cannot be used as it is. device: its number, -1 for the CPU."""
    try:
        for tensor, argument in zip(tensors, arguments, strict=True):
            if tensor is None:
                continue
            if (
                type(tensor) not in ORDINARY_TENSORS
                or tensor.get_device() != device
                or tensor.shape != argument.shape
                or tensor.dtype is not argument.dtype
                or not tensor.is_contiguous()
                or tensor.is_neg()
            ):
                return False
            pointer = tensor.data_ptr()
            if pointer != argument.pointer:
                if not pointer or pointer & 15:
                    return False
                argument.at[0] = argument.pointer = pointer
    except RuntimeError:  # one has no such memory: it is sparse
        return False
    return True


class Call:
    """What a thread keeps of a call.

    chain: is kept so that its id stays its own. c_chain: the struct, this thread's. arguments: of the
    parameters in their order, None for those that there are not. run: the C function on integers for
    pointers; it takes x, y, the workspace, its size and the stream, and returns a status.
    raise_for: raises for a status that is not FGN_OK. multiply: makes the product of x, the weight and the
    bias, where the plan finds it in the workspace; else None. splits: whether the version splits the weight,
    or was taken before one that does; then whether the weight is frozen, the bytes that are kept of it, that
    memory, and where its address goes.
    converts: whether there are vectors of a type that the version does not read.
    """

    __slots__ = (
        *("chain", "library", "c_chain", "arguments", "run", "raise_for", "device", "y_shape"),
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

    def now(self, x: Tensor, parameters: tuple[Tensor | None, ...], y_shape=None) -> Tensor | None:
        """The result, where the call can be made: a counted one is of another library. y_shape: for an x of
        more dimensions, the rows of which are those of the kept call's."""
        return None if self.device < 0 and is_counting.get() else self(x, parameters, y_shape)

    def __call__(self, x: Tensor, parameters: tuple[Tensor | None, ...], y_shape=None) -> Tensor | None:
        """The result, or None where a tensor is not one that can be used as it is."""
        device, given = self.device, parameters
        x_pointer = usable_address(x)
        if not x_pointer:
            return None
        if self.converts:
            parameters = [
                tensor if tensor is None or tensor.dtype is argument.dtype else tensor.to(argument.dtype)
                for tensor, argument in zip(parameters, self.arguments, strict=True)
            ]
        if not point_to(self.arguments, parameters, device):
            return None
        if self.splits and not self.find_prepared(parameters[0]):
            return None
        size = self.workspace_bytes
        if self.multiply is not None:
            workspace = self.multiply(x, given[0], given[1])
        else:
            workspace = x.new_empty(size, dtype=torch.uint8) if size else None
        y = x.new_empty(y_shape or self.y_shape)
        pointers = (x_pointer, y.data_ptr(), workspace.data_ptr() if size else 0, size)
        if device < 0:
            with interruptible(self.library):
                status = self.run(*pointers, 0)
        elif torch._C._cuda_getDevice() == device:
            status = self.run(*pointers, torch._C._cuda_getCurrentRawStream(device))
        else:
            with torch.cuda.device(device):
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
