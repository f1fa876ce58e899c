"""How torch's transforms treat fgn's operators: vmap, forward-mode derivatives, counting of operations.

`fgn.torch_operators` has the operators, and `fgn.functional` uses this module only for calls that are not
ordinary.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch._functorch.pyfunctorch import retrieve_all_functorch_interpreters
from torch.autograd import forward_ad
from torch.utils.flop_counter import register_flop_formula


def run_when_compiled(function):
    """Marks a function that torch.compile runs at compile time, and whose result becomes a constant.

    It does the same as torch.compiler.assume_constant_result(), which imports torch.compile's machinery: that
    takes longer than the rest of `import fgn`, and fails without a folder for temporary files.
    """
    function._dynamo_marked_constant = True
    return function


def operator_of_a_chain(name: str):
    """Registers a function with torch.library. Its list `channels` may be None, which means empty:
    AOTInductor passes an empty list of tensors as None, and fails for an operator that does not accept that,
    in torch 2.11 by ending the process."""

    def register(function):
        schema = torch.library.infer_schema(function, mutates_args=())
        schema = schema.replace("Tensor[] channels", "Tensor[]? channels")
        return torch.library.custom_op(name, function, mutates_args=(), schema=schema)

    return register


def is_transformed() -> bool:
    """Whether the call is inside a transform of torch.func (grad, vjp or vmap) that torch.compile does not
    trace."""
    return not torch.compiler.is_compiling() and torch._C._functorch.peek_interpreter_stack() is not None


def refuse_forward_mode(*tensors):
    """Raises RuntimeError if a tensor carries a forward-mode derivative, which the operators would ignore."""
    if forward_ad._current_level < 0:
        return
    interpreters = retrieve_all_functorch_interpreters()
    dual = any(
        isinstance(tensor, Tensor)
        and (
            torch._C._functorch.is_functorch_wrapped_tensor(tensor)
            if interpreters
            else forward_ad.unpack_dual(tensor).tangent is not None
        )
        for tensor in tensors
    )
    if dual:
        raise RuntimeError("fgn has no forward-mode derivatives (torch.func.jvp, dual tensors, jacfwd)")


def _rows(tensor: Tensor, dim: int) -> Tensor:
    """Turns (batch, ...) with a further dimension into rows, the further dimension first."""
    return tensor.movedim(dim, 0).flatten(0, 1)


def register(chain_operator, linear_operator, norm_operator):
    """Registers vmap and the count of operations of the three operators."""

    @torch.library.register_vmap("fgn::chain_forward")
    def _(info, dims, x, weight, bias, norm_weight, norm_bias, operands, before, after, *rest):
        operands = operands or []
        names = [part.partition(":")[2] for part in (before + " " + after).split() if ":" in part]
        whole = [
            operand.dim() - (dim is not None) == 2 for operand, dim in zip(operands, dims[5], strict=True)
        ]
        assert len(names) == len(operands)
        vectors_batched = any(dim is not None for dim in dims[1:5]) or any(
            dim is not None and not tensor for dim, tensor in zip(dims[5], whole, strict=True)
        )
        if dims[0] is None or vectors_batched:
            return _one_by_one(
                chain_operator,
                info,
                dims,
                x,
                weight,
                bias,
                norm_weight,
                norm_bias,
                operands,
                before,
                after,
                *rest,
            )
        flat = []
        for operand, dim, tensor in zip(operands, dims[5], whole, strict=True):
            if tensor and dim is None:
                operand, dim = operand.expand(info.batch_size, *operand.shape), 0
            flat.append(_rows(operand, dim) if tensor else operand)
        y = chain_operator(
            _rows(x, dims[0]), weight, bias, norm_weight, norm_bias, flat, before, after, *rest
        )
        return y.unflatten(0, (info.batch_size, -1)), 0

    @torch.library.register_vmap("fgn::linear")
    def _(info, dims, x, weight, bias, *rest):
        if dims[0] is None or dims[1] is not None or dims[2] is not None:
            return _one_by_one(linear_operator, info, dims, x, weight, bias, *rest)
        y = linear_operator(_rows(x, dims[0]), weight, bias, *rest)
        return y.unflatten(0, (info.batch_size, -1)), 0

    @torch.library.register_vmap("fgn::group_norm")
    def _(info, dims, x, groups, weight, bias, *rest):
        if dims[0] is None or dims[2] is not None or dims[3] is not None:
            return _one_by_one(norm_operator, info, dims, x, groups, weight, bias, *rest)
        y = norm_operator(_rows(x, dims[0]), groups, weight, bias, *rest)
        return y.unflatten(0, (info.batch_size, -1)), 0

    @register_flop_formula([torch.ops.fgn.chain_forward, torch.ops.fgn.linear])
    def _(x_shape, weight_shape, *others, out_shape=None, **keywords):
        return 2 * x_shape[0] * x_shape[1] * weight_shape[0]


def register_training(keeping_operator, backward_operator, norm_backward_operator):
    """Registers vmap of the operators of training."""

    @torch.library.register_vmap("fgn::chain_keeping")
    def _(info, dims, x, *others):
        shared = [*dims[1:5], *(dims[5] or ())]
        if dims[0] is None or any(dim is not None for dim in shared):
            return _one_by_one(keeping_operator, info, dims, x, *others)
        results = keeping_operator(_rows(x, dims[0]), *others)
        return tuple(result.unflatten(0, (info.batch_size, -1)) for result in results), (0, 0, 0)

    @torch.library.register_vmap("fgn::chain_backward")
    def _(info, dims, *arguments):
        return _one_by_one(backward_operator, info, dims, *arguments)

    @torch.library.register_vmap("fgn::group_norm_backward")
    def _(info, dims, *arguments):
        return _one_by_one(norm_backward_operator, info, dims, *arguments)


def _one_by_one(run, info, dims, *arguments):
    """Makes one call for each index of the further dimension, if parameters have that dimension."""

    def at(argument, dim, index):
        if isinstance(argument, (list, tuple)):
            return [at(part, of_part, index) for part, of_part in zip(argument, dim, strict=True)]
        return argument if dim is None else argument.select(dim, index)

    results = []
    for index in range(info.batch_size):
        results.append(run(*(at(part, dim, index) for part, dim in zip(arguments, dims, strict=True))))
    if isinstance(results[0], Tensor):
        return torch.stack(results), 0
    stacked = [torch.stack(one) for one in zip(*results, strict=True)]
    return type(results[0])(stacked), type(results[0])([0] * len(stacked))
