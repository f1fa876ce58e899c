"""Writes one version of a chain as one Python file: a `ModelNew` with its CUDA source, which needs no fgn.

Benchmarks of kernels take solutions in this form: a file with the class `ModelNew`, which has the reference's
constructor. The file runs nvcc itself, without ninja and torch's headers:
torch.utils.cpp_extension.load_inline makes one translation unit of all sources, and a version has several
with clashing names.
"""

from __future__ import annotations

import inspect
import re
from typing import NamedTuple

import torch
from torch import nn

import fgn
from fgn import modules
from fgn.chains import CHAINS, Shape, problem
from fgn.exporting import runtime
from fgn.exporting.sources import launcher, sources_of
from fgn.functional import plan_of
from fgn.fusing.parts import Step
from fgn.native.library import ffi, for_device, version_names
from fgn.plans import DEVICES
from fgn.precision import PRECISIONS, check_precision


class Exported(NamedTuple):
    """The module of a chain, and the arguments of its constructor at a shape, as Python text."""

    module: type[nn.Module]
    arguments: str


MODULES = {
    "gemm_groupnorm_hardtanh": Exported(
        modules.GemmGroupNormHardtanh, "[in_features, out_features, num_groups, -2.0, 2.0]"
    ),
    "gemm_biasadd_hardtanh_mish_groupnorm": Exported(
        modules.GemmBiasAddHardtanhMishGroupNorm, "[in_features, out_features, (out_features,), num_groups]"
    ),
    "matmul_groupnorm_leakyrelu_sum": Exported(
        modules.MatmulGroupNormLeakyReluSum, "[in_features, out_features, num_groups]"
    ),
}


def _check(chain: str, version: str, precision: str, shape: Shape):
    """Raises ValueError for a version or a precision that does not exist, or a pair that does not run on an
    H200."""
    check_precision(precision)
    if version not in version_names():
        raise ValueError(f"version: expected one of {', '.join(version_names())}, got {version!r}")
    described, shape = problem(chain, shape)
    here = torch.device("cpu")
    # the file cannot multiply by torch's product
    if plan_of(described, shape, version, here, precision, DEVICES["H200"], can_multiply=False) is None:
        reason = ffi().string(for_device("cpu").load().fgn_last_error()).decode()
        raise ValueError(
            f"version: {version!r} does not run {chain} in {precision} at {tuple(shape)} on any GPU: {reason}"
        )


def _step(step: Step, kind: str, paths: dict, inputs: list[str]) -> str:
    """The Python text of a step, which reads the step's constants from the model at each call."""
    words = [kind.upper(), *map(repr, step.constants)]
    words += [f"{paths[step.module]}.{name}" for name in step.attributes]
    if step.operand is not None:
        words.append(f"channel={inputs[step.operand]}")
    return f"Step({', '.join(words)})"


def _model(chain: str) -> tuple[str, list[str]]:
    """The text of `ModelNew`, and the kinds of operators in it."""
    cls = MODULES[chain].module
    source = inspect.getsource(cls.__mro__[2])  # the reference, with the constructor that it shares
    constructor = source[: source.index("    def forward")].rstrip()
    constructor = re.sub(r'class \w+\(nn\.Module\):\n( +""")', r"class ModelNew(nn.Module):\n\1", constructor)
    features = inspect.signature(cls.__mro__[2].__init__).parameters
    given = {name: 8 for name in features if "features" in name or "size" in name}
    given |= {name: value for name, value in (("bias_shape", (8,)), ("num_groups", 2)) if name in features}
    given |= {
        name: value for name, value in (("hardtanh_min", -2.0), ("hardtanh_max", 2.0)) if name in features
    }
    module = cls(**given)
    found = module.fused_forward().current().parts[0].found
    paths = {part: f"self.{name}" for name, part in module.named_modules() if name}
    inputs = [f"self.{node.target}" for node in found.inputs]
    described = CHAINS[chain]
    lines = []
    for name, steps, operators in (
        ("before", found.before, described.before),
        ("after", found.after, described.after),
    ):
        texts = [_step(step, row.kind, paths, inputs) for step, row in zip(steps, operators, strict=True)]
        one_line = f"        {name} = [{', '.join(texts)}]"
        in_lines = "".join(f"            {text},\n" for text in texts)
        lines.append(one_line if len(one_line) < 100 else f"        {name} = [\n{in_lines}        ]")
    call = f"self.kernels(x, {paths[found.linear]}, before, {paths[found.norm]}, after)"
    text = "\n".join(
        [
            constructor,
            "        self.kernels = Kernels(DTYPE, PRECISION)",
            "",
            "    def forward(self, x):",
            *lines,
            f"        return {call}",
        ]
    )
    return text, list(dict.fromkeys(row.kind.upper() for row in described.before + described.after))


def _quoted(text: str) -> str:
    """A Python literal that shows the text unchanged."""
    if "'''" in text or "\r" in text or text.endswith("\\"):
        return repr(text)
    return f"r'''{text}'''"


def export(chain: str, version: str, precision: str = "ieee", shape=None) -> str:
    """The text of a Python file with this version of the chain as `ModelNew`.

    chain: a name in `fgn.chains.CHAINS`; version: a name from `fgn.versions()`; precision: one of
    `fgn.precision.PRECISIONS`. shape: (batch, in_features, out_features[, groups]) of its `get_inputs()` and
    `get_init_inputs()`; None for the benchmark's. The model itself takes every shape that the version takes.
    ValueError if no GPU runs this combination.

    The file needs PyTorch, nvcc and a GPU. Its model has a forward and no gradients.
    """
    if chain not in CHAINS:
        raise ValueError(f"chain: expected one of {', '.join(CHAINS)}, got {chain!r}")
    if chain not in MODULES:
        raise ValueError(f"chain: {chain!r} has no drop-in module; expected one of {', '.join(MODULES)}")
    shape = problem(chain, shape, "cuda")[1]
    _check(chain, version, precision, shape)
    model, used = _model(chain)
    imports, code = inspect.getsource(runtime).split("SOURCES: dict[str, str] = {}\n")
    imports = imports.split('"""\n', 1)[1].strip().removeprefix("from __future__ import annotations").strip()
    files = sources_of(version) | {"launcher.cu": launcher(version)}
    dtype, c_name = PRECISIONS[precision]
    header = for_device("cpu").load()  # its constants are those of fgn.h
    numbers = "\n".join(f"{kind} = {getattr(header, f'FGN_{kind}')}" for kind in used)
    texts = "\n".join(f'SOURCES["{name}"] = {_quoted(text)}\n' for name, text in files.items())
    return f'''\
"""{chain} in {precision}, by the version "{version}" of fgn {fgn.__version__}.

ModelNew has the constructor, the parameters and the state_dict of the reference, and a forward without
gradients. Needed are PyTorch, nvcc and a GPU. SOURCES, below, is compiled at the first call. The hooks of
submodules are not called; what they are set to is read at every call. MIT license.
"""

{imports}

DTYPE, PRECISION = {dtype}, {getattr(header, c_name)}  # of x and the weight; {c_name}

# fgn_pointwise_kind of fgn.h
{numbers}

batch_size, in_features, out_features, num_groups = {", ".join(map(str, shape))}


{model}


def get_inputs():
    return [torch.rand(batch_size, in_features, dtype=DTYPE)]


def get_init_inputs():
    return {MODULES[chain].arguments}


{code.strip()}


# ---- The sources: each header before the files that include it ----

SOURCES = {{}}

{texts.rstrip()}
'''
