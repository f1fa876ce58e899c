"""One chain in a model: the modules and functions that it replaces, and the call that replaces them.

`ChainPart` reads all parameters and constants at the call. If a module no longer computes what its class
defines (it has a hook, a subclass or a parametrization), or if the kernels do not take the tensors, torch
runs the parts, with one warning.
"""

from __future__ import annotations

import operator
import warnings
from collections.abc import Iterator
from typing import NamedTuple

import torch
from torch import Tensor, fx, nn

from fgn import autocast, gradients
from fgn.calls import can_multiply, reading_ones
from fgn.chains import Chain, Shape
from fgn.functional import chain_forward, forward_in_autocast
from fgn.fusing.accepting import NotAChain, as_operand, check_linear, check_vector
from fgn.fusing.by_torch import by_torch
from fgn.fusing.kept import MOST_KINDS, Checked, Last, dtypes_of, keep, kind_of, ones_of, recall
from fgn.fusing.meanings import has_global_hooks, not_plain
from fgn.native import prepared, repeated
from fgn.operators import POINTWISE, Pointwise
from fgn.precision import resolve
from fgn.rows import AGAIN
from fgn.structs import plan_of
from fgn.training_calls import multiplies_by_torch
from fgn.transforms import run_when_compiled

# The operand of a step that reads the first step's input again (`fgn.rows.AGAIN`).
VALUE_AGAIN = -1
# The operand of the step that adds a convolution's bias, which is no input of the part.
BIAS_OF_CONVOLUTION = -2
# Otherwise a constant that changes in each call would keep a chain for each call.
MOST_CHAINS = 16


class Step(NamedTuple):
    """kind: of the operator; a function of the module that returns it; or "add", "subtract", "multiply" or
    "divide" by an operand whose shape at the call decides whether it is a channel vector. constants: numbers.
    attributes: names of the module's attributes that are constants too. operand: the number of the part's
    input that it reads, or `VALUE_AGAIN`.
    """

    kind: object
    constants: tuple[float, ...] = ()
    module: nn.Module | None = None
    attributes: tuple[str, ...] = ()
    operand: int | None = None

    def at_call(self, left: Iterator[str], name: str | None = None) -> Pointwise:
        """The operator with its module's present settings. left: the roles of this step's operand and of
        those after it. name: of its operand. ValueError or NotAChain if there is none."""
        kind = self.kind(self.module) if callable(self.kind) else self.kind
        constants = [_number(value) for value in self.constants]
        constants += [_number(getattr(self.module, name)) for name in self.attributes]
        if self.operand is None:
            return Pointwise(kind, *constants)
        if self.operand == VALUE_AGAIN:
            return Pointwise(f"{kind}_tensor", tensor=AGAIN)
        role, name = next(left), name or f"operand_{self.operand}"
        if kind in POINTWISE and POINTWISE[kind].uses_channel:
            if role != "channel":
                raise NotAChain(f"the operand of {kind} is no channel vector")
            return Pointwise(kind, *constants, channel=name)
        if role == "tensor" and kind not in ("add", "multiply"):
            raise NotAChain(f"no operator can {kind} by a whole tensor")
        return Pointwise(f"{kind}_{role}", **{role: name})


class Found(NamedTuple):
    """A chain in a graph. nodes: in order. inputs: the nodes that it reads, x first. has_norm: whether the
    nodes include a norm. norm: a GroupNorm or LayerNorm module, or None. weight, bias, norm_weight,
    norm_bias: the number of each input, or None. groups, eps: if norm is None; normalized: then the number of
    channels of a LayerNorm. is_transposed: the weight is stored as (in_features, out_features). by_rows:
    whether x may have other than two dimensions; the chain computes its rows.
    """

    name: str
    nodes: list[fx.Node]
    inputs: list[fx.Node]
    linear: nn.Linear | None
    norm: nn.GroupNorm | nn.LayerNorm | None
    before: list[Step]
    after: list[Step]
    leaves: list[tuple[nn.Module, type, bool]]
    weight: int | None = None
    bias: int | None = None
    norm_weight: int | None = None
    norm_bias: int | None = None
    groups: int = 0
    eps: float = 1e-5
    normalized: int | None = None
    is_transposed: bool = False
    by_rows: bool = False
    has_norm: bool = True


def _number(value) -> float:
    if type(value) not in (int, float, bool):
        raise NotAChain(f"a constant is a {type(value).__name__}")
    return float(value)


@run_when_compiled
def _is_ieee(precision: str | None) -> bool:
    """Whether float32 products are float32's, by the option or else by torch's setting."""
    return resolve(precision, torch.float32) == "ieee"


class Part:
    """Replaces nodes of a model in a graph, and does not write to its inputs."""

    name = ""

    def __init__(self, steps=()):
        self.said: set[str] = set()
        self.attributes = [(step.module, name) for step in steps for name in step.attributes]
        self.choices = [(step.module, step.kind) for step in steps if callable(step.kind)]

    def path_of(self, module: nn.Module) -> str:
        """The name of a module of the part in messages."""
        return self.name

    def weight_and_bias(self, module: nn.Module) -> tuple[Tensor | None, Tensor | None]:
        """The module's parameters. NotAChain if an attribute of that name is something else."""
        own = module._parameters
        try:
            return own["weight"], own["bias"]
        except KeyError as name:
            raise NotAChain(f"{self.path_of(module)}.{name.args[0]} is no parameter") from None

    def every_leaf(self) -> list:
        """The leaves of the part and of those inside it."""
        return list(self.leaves)

    def settings_of_steps(self) -> list:
        """The constants and the kinds of the steps that are attributes of their modules."""
        found = [getattr(module, name) for module, name in self.attributes] if self.attributes else []
        return found + [kind(module) for module, kind in self.choices] if self.choices else found

    def parameters(self) -> list[Tensor]:
        """The parameters of the modules inside."""
        modules = {module for module, *_ in self.every_leaf()}
        return [value for module in modules for value in module._parameters.values() if value is not None]

    def needs_gradients(self, inputs) -> bool:
        """Whether a gradient is wanted, or a tensor's class may ask for one."""
        if not torch.is_grad_enabled():
            return False
        tensors = (*inputs, *self.parameters())
        return any(type(one) not in repeated.ORDINARY_TENSORS or one.requires_grad for one in tensors)

    @run_when_compiled
    def say(self, reason: str) -> bool:
        """Warns once why torch runs the parts one after the other."""
        if reason not in self.said:
            self.said.add(reason)
            warnings.warn(f"fgn: {self.name} runs part by part, as torch runs it: {reason}", stacklevel=5)
        return True


class ChainPart(Part):
    """Runs one chain of a model. It is called with the values that the chain reads: x and operands."""

    def __init__(self, found: Found, owner: nn.Module, options):
        super().__init__((*found.before, *found.after))
        self.found, self.owner, self.options = found, owner, options
        self.name = found.name
        self.leaves = found.leaves
        self.by_torch = by_torch(found.inputs, found.nodes, owner)
        self.steps = (*found.before, *found.after)
        self.operands = [step.operand for step in self.steps if step.operand is not None]
        self.chains: dict[tuple, Chain] = {}
        self.dtypes: dict[tuple, torch.dtype] = {}
        self.checked: Checked | None = None
        self.lasts: dict[tuple, Last] = {}

    def __call__(self, *inputs):
        y = self._again(inputs)
        return self._anew(*inputs) if y is None else y

    def _again(self, inputs) -> Tensor | None:
        """The result of a call that is like an earlier one, or None. It checks modules, settings and tensors,
        which may have changed since; the plan follows from them."""
        x = inputs[0]
        if type(x) is not Tensor or x.is_nested or not repeated.is_ordinary():
            return None
        last = self.lasts.get(kind_of(x))
        if last is None or last.settings != self.settings():
            return None
        if last.chain is None:
            return self.by_torch(*inputs)
        try:
            if last.views:
                inputs = last.with_views(inputs)
                if inputs is None:
                    return None
            tensors, norm = self.tensors_and_norm(inputs)
            if self.chain_of(x, norm, last.checked) is not last.chain:
                return None
        except NotAChain:
            return None
        if last.call is not None:
            y = last.call.now(x, tensors, last.layout)
            if y is not None:
                return y
        if dtypes_of(tensors) != last.dtypes:
            return None
        if last.sizes is None:
            return self._repeat(last.chain, x, tensors)
        y = self._repeat(last.chain, x.reshape(last.x_sizes), tensors)
        return None if y is None else y.view(last.sizes)

    def settings(self) -> tuple:
        return self.options.version, self.options.precision, *repeated.settings()

    def _anew(self, *inputs):
        if self._is_the_compilers(inputs[0]):
            return self.by_torch(*inputs)
        try:
            if self.found.by_rows and inputs[0].dim() != 2:
                rows, sizes = self.inputs_of_rows(inputs)
                y = self._of_matrix(rows, inputs)
                if y is None:
                    return self.by_torch(*inputs)
                return y.unflatten(0, sizes) if sizes else y[0]
            y = self._of_matrix(inputs, inputs)
            return self.by_torch(*inputs) if y is None else y
        except NotAChain as reason:
            return self.run_parts(inputs, reason.args[0])

    def _is_the_compilers(self, x) -> bool:
        """Whether torch.compile, which also fuses operators, takes the parts: those of a chain without a
        norm, except products that take cuBLAS several times as long. A call of another library's operator
        costs the host more than it saves (measured in bfloat16: lab/README.md)."""
        return (
            not self.found.has_norm
            and torch.compiler.is_compiling()
            and self.options.version is None
            and not self._is_float32(x)
        )

    def _is_as_many_launches(self, chain: Chain, x: Tensor, tensors) -> bool:
        """Whether torch needs as few launches: one operator after a product that is torch's here too. torch's
        calls cost the host less (lab/README.md: a block of 1024 in bfloat16 took twice eager's time in a
        loop)."""
        options = self.options
        if self.found.has_norm or len(self.steps) != 1 or not x.is_cuda or options.version is not None:
            return False
        if torch.compiler.is_compiling():
            return False
        if autocast.dtype_for(x) is not None:
            return True
        weight, bias, *_ = tensors
        precision, shape = resolve(options.precision, x.dtype), Shape(*x.shape, weight.shape[0], 0)
        if torch.is_grad_enabled() and any(one is not None and one.requires_grad for one in (x, *tensors)):
            return multiplies_by_torch(x.device, shape, precision)
        plan = plan_of(
            *(chain, shape, None, x.device, precision),
            frozen=prepared.is_frozen(weight),
            can_multiply=can_multiply(x, {"bias": bias}, precision),
        )
        return plan.product_bytes > 0

    def _is_float32(self, x) -> bool:
        """Whether the product of x is in float32, with float32's accuracy."""
        return x.dtype is torch.float32 and autocast.dtype_for(x) is None and _is_ieee(self.options.precision)

    def inputs_of_rows(self, inputs) -> tuple[list[Tensor], torch.Size]:
        """The inputs with x as a matrix of rows, and the other dimensions of x. NotAChain if the other inputs
        are not vectors or tensors of y's shape."""
        x, *others = inputs
        if x.is_nested:
            raise NotAChain("x is a nested tensor")
        if x.dim() == 0:
            raise NotAChain("x has no dimensions")
        sizes = x.shape[:-1]
        rows = [_rows_of(x), *others]
        for number in self.operands:
            shape = inputs[number].shape
            if shape[:-1] == sizes:
                rows[number] = _rows_of(inputs[number])
            elif len(shape) > 1:
                raise NotAChain(f"an operand has shape {tuple(shape)}, and x {tuple(x.shape)}")
        return rows, sizes

    def _of_matrix(self, inputs, given) -> Tensor | None:
        """The chain of a matrix x; None if torch's operators are as good. given: the original inputs, whose
        rows these are."""
        options, x = self.options, inputs[0]
        chain, tensors, checked = self.chain_and_tensors(*inputs)
        if repeated.is_ordinary():
            y = self._repeat(chain, x, tensors)
            if y is not None:
                last = Last(given, x, y, self.settings(), chain, checked, self.operands, tensors)
                key = repeated.key_of(chain, x, tensors, options.version, options.precision)
                if y.requires_grad:
                    last.call = gradients.kept(key, tensors)
                elif not torch.is_grad_enabled():
                    last.call = repeated.kept(key)
                    ones = last.call and ones_of(given, self.operands, tensors)
                    reading = ones and reading_ones(last.call, chain, ones)
                    if reading:
                        last = Last(given, x, y, self.settings(), chain, checked, self.operands, ones)
                        last.call = reading
                self._keep(last, given[0])
                return y
        if self._is_as_many_launches(chain, x, tensors):
            if repeated.is_ordinary():
                self._keep(Last(given, x, tensors[0], self.settings()), given[0])
            return None
        parameters = checked.parameters(tensors)
        if autocast.dtype_for(x) is not None:
            result = self._dtype_in_autocast(inputs, parameters, checked.roles)
            return forward_in_autocast(chain, x, parameters, options.version, result)
        return chain_forward(chain, x, parameters, options.version, options.precision)

    def _repeat(self, chain: Chain, x, tensors) -> Tensor | None:
        """The result of a call that is like an earlier one, also with gradients, or None."""
        options = self.options
        return repeated.repeat(chain, x, tensors, options.version, options.precision, gradients.repeat)

    def _keep(self, last: Last, x: Tensor):
        keep(self.lasts, kind_of(x), last, MOST_KINDS)

    def run_parts(self, inputs, reason: str):
        """Runs the parts by torch, one after the other."""
        self.say(reason)
        return self.by_torch(*inputs)

    def _dtype_in_autocast(self, inputs, parameters, roles) -> torch.dtype:
        """The dtype of torch's own result under the active autocast. torch computes two rows to tell it, once
        for each kind of inputs."""
        kind = inputs[0].device.type
        dtypes = (None if value is None else value.dtype for value in parameters.values())
        key = (kind, torch.get_autocast_dtype(kind), inputs[0].dtype, *dtypes)
        dtype = recall(self.dtypes, key)
        if dtype is None:
            operands = zip(self.operands, roles, strict=True)
            of_rows = {0, *(number for number, role in operands if role == "tensor")}
            few = [
                value.new_zeros(autocast.ROWS, value.shape[1]) if number in of_rows else value
                for number, value in enumerate(inputs)
            ]
            with torch.no_grad():
                dtype = self.by_torch(*few).dtype
            keep(self.dtypes, key, dtype, MOST_KINDS)
        return dtype

    def chain_and_tensors(self, *inputs) -> tuple[Chain, tuple[Tensor | None, ...], Checked]:
        """The chain with its modules' present settings, its tensors in the order of
        `fgn.functional.names_of()`, and what is known of them. NotAChain tells why there is none."""
        return self._checked_chain(inputs[0], *self.tensors_and_norm(inputs))

    def chain_and_parameters(self, *inputs) -> tuple[Chain, dict[str, Tensor | None]]:
        """The same, with the parameters by name."""
        chain, tensors, checked = self.chain_and_tensors(*inputs)
        return chain, checked.parameters(tensors)

    def tensors_and_norm(self, inputs) -> tuple[tuple[Tensor | None, ...], tuple]:
        """The tensors in the order of `fgn.functional.names_of()`, not yet checked, and the norm's present
        groups, eps, and a LayerNorm's channels. NotAChain if a module is no longer what it was."""
        found = self.found
        if self.leaves and has_global_hooks():
            raise NotAChain("there are hooks of all modules")
        for module, cls, only_in_eval in self.leaves:
            if reason := not_plain(module, cls):
                raise NotAChain(f"{self.path_of(module)}: {reason}")
            if only_in_eval and module.training:
                raise NotAChain(f"{self.path_of(module)}: it is in training mode")
        if found.linear is not None:
            weight, bias = self.weight_and_bias(found.linear)
        else:
            weight = inputs[found.weight]
            if found.is_transposed:
                weight = _transposed(weight)
            bias = None if found.bias is None else inputs[found.bias]
        if found.norm is not None:
            norm = found.norm
            norm_weight, norm_bias = self.weight_and_bias(norm)
            if type(norm) is nn.LayerNorm:
                groups, eps, normalized = 1, norm.eps, _only_size(norm.normalized_shape)
            else:
                groups, eps, normalized = norm.num_groups, norm.eps, None
        else:
            norm_weight = None if found.norm_weight is None else inputs[found.norm_weight]
            norm_bias = None if found.norm_bias is None else inputs[found.norm_bias]
            groups, eps, normalized = found.groups, found.eps, found.normalized
        tensors = weight, bias, norm_weight, norm_bias
        if self.operands:
            tensors = *tensors, *[inputs[number] for number in self.operands]
        return tensors, (groups, eps, normalized)

    def _checked_chain(self, x, tensors, norm: tuple) -> tuple[Chain, tuple[Tensor | None, ...], Checked]:
        """The chain of these tensors, and the tensors with operands of one element as vectors. NotAChain if
        there is none."""
        if torch.compiler.is_compiling():  # which would compile for what an earlier call has kept
            checked = self._check(x, tensors)
        else:
            checked = self.checked
            if checked is None or not checked.holds(x, tensors):
                checked = self.checked = self._check(x, tensors)
        weight = tensors[0]
        if (
            not weight.is_contiguous()
            and not torch.compiler.is_compiling()  # which would compile for batches on one side of it
            and x.shape[0] < weight.shape[1]
        ):
            raise NotAChain(
                "the weight is stored as (in_features, out_features), and a copy of it for each call is "
                "worth it from a batch of in_features rows on"
            )
        return self.chain_of(x, norm, checked), checked.as_vectors(x, tensors), checked

    def chain_of(self, x, norm: tuple, checked: Checked) -> Chain:
        """The chain with the modules' present settings."""
        groups, eps, normalized = norm
        channels, roles = checked.channels, checked.roles
        key = (groups, eps, *self.settings_of_steps(), *roles)
        chain = recall(self.chains, key)
        if chain is None:
            chain = self._chain(groups, eps, roles)
            if not any(isinstance(value, Tensor) for value in key):
                keep(self.chains, key, chain, MOST_CHAINS)
        if not self.found.has_norm:
            return chain
        if type(groups) is not int or groups < 1 or channels % groups:
            raise NotAChain(f"num_groups is {groups}, which does not divide {channels} channels")
        if normalized is not None:
            if normalized != channels:
                raise NotAChain(f"LayerNorm is over {normalized} and not over the {channels} channels")
        elif groups == channels and x.shape[:1] == (1,):
            raise NotAChain("each group is one value, which torch refuses to normalise")
        return chain

    def _check(self, x, tensors) -> Checked:
        """Checks that a chain takes these tensors; raises NotAChain if not."""
        weight = tensors[0]
        check_linear(x, weight)
        channels = weight.shape[0]
        for name, vector in zip(("bias", "norm_weight", "norm_bias"), tensors[1:4], strict=True):
            if vector is not None:
                check_vector(name, vector, x, channels)
        roles = [as_operand(operand, x, channels)[0] for operand in tensors[4:]]
        return Checked(x, tensors, roles, [f"operand_{number}" for number in self.operands])

    def now(self) -> tuple[Chain, dict[str, Tensor | None]]:
        """The present chain and its parameters. ValueError if they make no chain."""
        values = [operator.attrgetter(node.target)(self.owner) for node in self.found.inputs[1:]]
        weight = self.found.linear.weight
        try:
            return self.chain_and_parameters(weight.new_empty(1, weight.shape[1]), *values)
        except NotAChain as reason:
            raise ValueError(str(reason)) from None

    def path_of(self, module: nn.Module) -> str:
        return next((name for name, part in self.owner.named_modules() if part is module), "a module")

    def _chain(self, groups, eps, roles) -> Chain:
        left = iter(roles)
        try:
            before, after = (
                tuple([step.at_call(left) for step in steps])
                for steps in (self.found.before, self.found.after)
            )
            return Chain(self.name, before, groups, after, _number(eps))
        except ValueError as error:
            raise NotAChain(str(error)) from None


def _rows_of(tensor: Tensor) -> Tensor:
    return tensor.flatten(0, -2) if tensor.dim() > 1 else tensor[None]


def _transposed(weight):
    if not isinstance(weight, Tensor) or weight.dim() != 2 or weight.layout != torch.strided:
        raise NotAChain("the weight is no matrix")
    return weight.t()


def _only_size(normalized_shape) -> int:
    if len(normalized_shape) != 1:
        raise NotAChain(f"LayerNorm is over {len(normalized_shape)} dimensions")
    return normalized_shape[0]
