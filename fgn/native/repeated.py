"""The repeated call: a cheap way for a call that is like an earlier one.

`fgn.calls.run_chain()` checks every argument, chooses a version and builds the C library's arguments. If the
tensors needed no copies, all that is kept as a `Call`, under a key of everything that decided it: the chain,
the sizes, the dtypes, the device, the precision, the thread. The next call with that key looks it up, checks
that the tensors still need no copies, writes changed addresses into the struct, and calls C. Any other call
takes the slow path, which reports what is wrong with it, or runs it.

Threads share nothing: the key has the thread's number, so two threads that call one module have separate
structs.
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
from fgn.native import prepared, replays
from fgn.native.library import ffi

# ------------------------------------------------------------------------------------------------------------
# Whether a call is an ordinary one

_function_mode = torch._C._is_torch_function_mode_enabled
_dispatch_modes = torch._C._len_torch_dispatch_stack
_transform = torch._C._functorch.peek_interpreter_stack
_autocast = torch._C._is_any_autocast_enabled
_tracing = torch._C._get_tracing_state


def is_ordinary() -> bool:
    """Whether calls are neither traced nor transformed here: by torch.compile, torch.export, torch.jit,
    torch.func, autocast, a mode of `__torch_function__` or `__torch_dispatch__` (such as fake tensors),
    forward-mode derivatives. Otherwise a call has to go through torch.library."""
    return not (
        torch.compiler.is_compiling()
        or _function_mode()
        or _dispatch_modes()
        or _transform() is not None
        or _autocast()
        or _tracing() is not None
        or forward_ad._current_level >= 0
    )


# Tensors of these types do not define `__torch_function__`.
ORDINARY_TENSORS = frozenset((Tensor, Parameter))

# ------------------------------------------------------------------------------------------------------------
# The calls that are kept

MOST_CALLS = 4096

_calls: dict[tuple, Call] = {}


_forgotten = 0


def forget():
    """Forgets every call: the next ones take the slow path once."""
    global _forgotten
    _forgotten += 1
    _calls.clear()
    replays.forget()


def usable_address(tensor: Tensor) -> int:
    """The tensor's address, or 0 if kernels would need a copy: it is not contiguous, not aligned for 128-bit
    accesses, empty, not dense, or a negated view."""
    try:
        pointer = tensor.data_ptr()
    except RuntimeError:  # it has no such memory: it is sparse
        return 0
    return 0 if pointer & 15 or not tensor.is_contiguous() or tensor.is_neg() else pointer


def _refuse(*_) -> bool:
    return False


def guard_of(given):
    """Whether tensors are like these ones, as a function of them. torch's guard refuses a tensor that comes
    twice, such as a gate that is added too: where one did, the same places must have one tensor again."""
    first = [next(j for j, other in enumerate(given) if other is one) for one in given]
    unique = sorted(set(first))
    guard = TensorGuards(
        *[given[i] for i in unique], dynamic_dims_sizes=None, dynamic_dims_strides=None
    ).check
    if len(unique) == len(given):
        return guard
    again = [(i, j) for i, j in enumerate(first) if i != j]

    def check(*tensors) -> bool:
        return all([tensors[i] is tensors[j] for i, j in again]) and guard(*[tensors[i] for i in unique])

    return check


class Arguments:
    """The tensors of a kept call: the places of their addresses in its struct, and the requirements for later
    ones.

    torch's own guard compares a tensor's type, dtype, device, sizes and strides, and its dispatch keys
    (sparse, negated, a transform's) with those of the kept call, all tensors in one C++ call, as it does
    before it runs compiled code again. So if the kept call's tensors needed no copies, later ones need none
    either, except for alignment; if those needed copies, none is taken.

    places: one for each tensor. tensors: None for an absent one. given: the caller's tensors, if vectors of
    another dtype replace them.
    """

    __slots__ = ("absent", "dtypes", "guard", "places", "pointers", "present")

    def __init__(self, places, tensors, given=None):
        self.present = [i for i, tensor in enumerate(tensors) if tensor is not None]
        self.absent = [i for i, tensor in enumerate(tensors) if tensor is None]
        of_present = [tensors[i] for i in self.present]
        given = of_present if given is None else [given[i] for i in self.present]
        self.guard = _refuse
        if all(map(usable_address, (*given, *of_present))):
            self.guard = guard_of(given)
        self.dtypes = [tensor.dtype for tensor in of_present]
        self.pointers = [tensor.data_ptr() for tensor in of_present]
        self.places = [ffi().cast("uintptr_t *", places[i]) for i in self.present]
        for place, pointer in zip(self.places, self.pointers, strict=True):
            place[0] = pointer  # a struct that was copied has the addresses of another call

    def like_before(self, tensors):
        """The present tensors, or None if one does not match the kept call's."""
        if self.absent:
            for place in self.absent:
                if tensors[place] is not None:
                    return None
            tensors = [tensors[place] for place in self.present]
        return tensors if self.guard(*tensors) else None

    def converted(self, present):
        """The same in the form of the struct: vectors converted to another dtype if the caller's differ."""
        return [
            one if one.dtype is dtype else one.to(dtype)
            for one, dtype in zip(present, self.dtypes, strict=True)
        ]

    def write(self, present) -> bool:
        """Writes the addresses of these tensors into the struct. False if one is not aligned for 128-bit
        accesses."""
        pointers = [tensor.data_ptr() for tensor in present]
        if pointers != self.pointers:
            for place, pointer in enumerate(pointers):
                if pointer & 15:
                    return False
                self.places[place][0] = self.pointers[place] = pointer
        return True

    def point_to(self, tensors) -> bool:
        """Lets the struct point to these tensors. False if one does not match the kept call's."""
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


def whole_blocks(size: int) -> int:
    """The size in bytes, up to a multiple of 256."""
    return -(-size // 256) * 256


# A tensor of given sizes, strides and offset in another one's memory, of which autograd notes nothing.
part_of = _reinterpret_tensor


def empty_on(device: int):
    """A function that makes tensors of given sizes, strides and dtype on the CPU (-1) or the current GPU. It
    takes the host half as long as new_empty(); torch.compile's code calls it too."""
    return _empty_strided_cpu if device < 0 else _empty_strided_cuda


class Call:
    """What a thread keeps of a call.

    chain: kept so that no other object gets its id. c_chain: this thread's struct. arguments: of the
    parameters in order. run: the C function with integers for pointers; it takes x, y, the workspace, its
    size and the stream, and returns a status. raise_for: raises for a status other than FGN_OK. y_layout: y's
    sizes and strides. product: cuBLAS's, which is computed at the beginning of the workspace, if the plan
    expects it there; multiply: the same by torch, where there is no such product. replays: what launches all
    that is not torch's. splits: whether the version splits the weight, or was chosen over one that does;
    then whether the weight is frozen, the number of kept bytes, their memory, and the place of its address.
    converts: whether there are vectors of a type that the version does not read.
    """

    __slots__ = (
        *("chain", "library", "c_chain", "arguments", "run", "raise_for", "device", "y_layout"),
        *("workspace_bytes", "splits", "frozen", "prepared_bytes", "prepared", "prepared_at"),
        *("converts", "multiply", "product", "product_at", "replays"),
    )

    def __init__(self, **fields):
        for name, value in fields.items():
            setattr(self, name, value)
        self.product_at = 0 if self.product is None else whole_blocks(self.workspace_bytes)
        self.replay()

    def replay(self):
        """From now on launches that come again are replayed, where all are the library's or cuBLAS's."""
        can = self.multiply is None
        self.replays = replays.for_launches(self.library, self.device, self.launch) if can else self.launch

    def find_prepared(self, weight: Tensor) -> bool:
        """Whether the kept halves of the weight, if any, are unchanged; writes their address into the
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
        """The result, if the call can be made; a counted one uses another library. y_layout: y's sizes and
        strides, for an x of more dimensions with the kept call's number of rows."""
        return None if self.device < 0 and is_counting.get() else self(x, parameters, y_layout)

    def __call__(self, x: Tensor, parameters: tuple[Tensor | None, ...], y_layout=None) -> Tensor | None:
        """The result, or None if a tensor would have to be copied."""
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
        size, bias = self.workspace_bytes, 0
        empty = empty_on(device)
        if self.multiply is not None:
            workspace = self.multiply(x, parameters[0], parameters[1])
        else:
            if self.product is not None:
                size = self.product_at + self.product.bytes
                bias = 0 if parameters[1] is None else parameters[1].data_ptr()
                if bias & 15:
                    return None
            workspace = empty((size,), (1,), torch.uint8) if size else None
        y = empty(*(y_layout or self.y_layout), x.dtype)
        halves = 0 if self.prepared is None else self.prepared.data_ptr()
        at = (x_pointer, y.data_ptr(), workspace.data_ptr() if size else 0, bias, halves, *arguments.pointers)
        if device < 0:
            with interruptible(self.library):
                self.launch(at, 0)
        else:
            self.replays(at, torch._C._cuda_getCurrentRawStream(device))
        return y

    def launch(self, addresses: tuple, stream: int):
        """The call's launches. The struct has the addresses of the parameters."""
        x, y, workspace, bias, _, weight, *_ = addresses
        if self.product is not None:
            self.product(x, weight, bias, workspace, workspace + self.product_at, stream)
        status = self.run(x, y, workspace, self.workspace_bytes, stream)
        if status:
            self.raise_for(self.library, status)


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
    """What may change a plan besides the tensors: torch's settings, and a count of how often all calls were
    forgotten."""
    return torch._C._get_fp32_precision_getter("cuda", "matmul"), _deterministic(), _forgotten


def kept(key: tuple) -> Call | None:
    """The call of this key, if one was kept."""
    return _calls.get(key)


def repeat(chain, x, parameters: tuple, version, precision, with_gradients=None) -> Tensor | None:
    """The result of an ordinary call that is like an earlier one, or None.

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
