"""fgn.explain(): what `fuse()` makes of a model, and what that saves."""

from __future__ import annotations

from torch import nn

from fgn.fusing.fuse import FusedForward, Verdict, candidates, fuse
from fgn.fusing.recording import Noted, noting


class Explanation:
    """What `explain()` found. verdicts: one for each Linear, in the order of calls; if the model was called,
    promises come last. untraced: (path, why) for the modules whose forward() cannot be traced. chains: if the
    model was called, what each chain saves on the GPU named `gpu`, a DataFrame (`fgn.fusing.gains.gains()`).
    Prints as a table."""

    def __init__(self, verdicts: list[Verdict], untraced: list[tuple[str, str]], chains=None, gpu=None):
        self.verdicts, self.untraced, self.chains, self.gpu = verdicts, untraced, chains, gpu

    @property
    def fused(self) -> list[Verdict]:
        """The Linears whose chains run as one call."""
        return [verdict for verdict in self.verdicts if verdict.fused]

    def __str__(self) -> str:
        lines = []
        for module, linear, fused, reason in self.verdicts:
            name = ".".join(filter(None, (module, linear)))
            if fused:
                lines.append(f"{name}: one call for {fused}; then {reason}")
            else:
                lines.append(f"{name}: left to torch, stopped by {reason}")
        lines += [f"{path or 'the model'}: left to torch, {reason}" for path, reason in self.untraced]
        if self.chains is not None and len(self.chains):
            sizes = ["linear", "times", "batch", "in_features", "out_features"]
            table = self.chains[[*sizes, "torch_launches", "launches"]].assign(
                torch_MB=self.chains.torch_bytes / 1e6, MB=self.chains.bytes / 1e6
            )
            table[f"saves us ({self.gpu})"] = self.chains.saved_us
            lines += ["", table.to_string(index=False, float_format="{:.3g}".format)]
        return "\n".join(lines) or "no Linear in it"

    __repr__ = __str__

    def plot(self):
        """A picture of the chains by torch and as one call: in ms if they were measured, else in bytes.
        ValueError if `explain()` got no inputs."""
        from fgn.plot.gains import gains  # matplotlib is loaded when it is used

        if self.chains is None:
            raise ValueError("inputs: expected those of the model, as in explain(model, x), got none")
        return gains(self.chains, self.gpu)


def _of_promises(model: nn.Module, noted: list[Noted]) -> list[Verdict]:
    """Verdicts on the model's products that were promises in a call."""
    names, verdicts = {id(value): path for path, value in model.named_parameters()}, []
    for weight, name, steps, reason in noted:
        module, _, linear = names.get(id(weight), name).removesuffix(".weight").rpartition(".")
        verdicts.append(Verdict(module, linear, steps, reason))
    return verdicts


def explain(model: nn.Module, *inputs, gpu: str = "H200") -> Explanation:
    """What `fuse()` makes of the model: each Linear, fused or not, and the first operator that stopped it.

    model: any nn.Module, fused or not. inputs: the model's; with them it is called once without gradients.
    Then `chains` gives what each chain saves in launches and bytes, and their time on the GPU named `gpu`
    (one of `cudasim.cards()`); on CUDA tensors both ways are also measured here. TypeError if it is no model,
    ValueError for a GPU without a card.
    """
    if not isinstance(model, nn.Module):
        raise TypeError(f"model: expected a torch.nn.Module, got {type(model).__name__}")
    if inputs:
        from cudasim.predicting.cards import card  # which a model without inputs does not need

        of_gpu, model = card(gpu), fuse(model)
    verdicts, untraced, parts, seen = [], [], {}, set()
    for path, module in candidates(model):
        if module in seen:
            continue
        own = getattr(module, "fused_forward", None)
        fused = FusedForward(module) if own is None else own()
        traced = fused.current()
        if traced is None:
            if any(isinstance(part, nn.Linear) for part in module.modules()) and type(module) not in (
                nn.ModuleList,
            ):
                untraced.append((path, fused.reason or "it changes too often"))
            continue
        seen |= set(traced.plan.hooked)
        verdicts += [Verdict(path, *verdict) for verdict in traced.verdicts]
        parts |= {".".join(filter(None, (path, part.name))): part for part in traced.parts}
    if not inputs:
        return Explanation(verdicts, untraced)
    from fgn.fusing.gains import gains  # which imports what measures

    with noting() as noted:
        chains = gains(model, inputs, of_gpu, parts)
    return Explanation(verdicts + _of_promises(model, noted), untraced, chains, of_gpu.name)
