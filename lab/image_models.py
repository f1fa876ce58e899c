"""Networks for images with GroupNorms: how many of them fgn.fuse() takes, and whether results stay the same.

    python lab/image_models.py --record lab/records/image_models.csv

Diffusion networks and decoders of the diffusers library in small configurations, and networks of timm, with
random weights, in evaluation on the simulator: each is called once as it is, and twice fused, on the same
input. calls: of GroupNorms in one call of the model; taken: the launches of fgn's in their place.
"""

from __future__ import annotations

import argparse
import csv
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

import torch
from torch import nn

import fgn
from fgn.fusing import maps_part
from fgn.measure.software import when_recorded

OF_TIMM = (
    *("resnetv2_50x1_bit", "resnetv2_50d_gn", "resnet50_gn", "efficientnet_b0_gn", "vit_small_r26_s32_224"),
    *("vit_tiny_r_s16_p8_224", "poolformer_s12", "poolformerv2_s12"),
)
COLUMNS = ("library", "model", "modules", "calls", "taken", "error", "date", "commit")
SMALL = {"block_out_channels": (32, 64), "layers_per_block": 1, "norm_num_groups": 8}
CONDITION = {"cross_attention_dim": 16, "attention_head_dim": 4}


def blocks(kind: str, dimensions: str = "2D") -> dict:
    return {
        "down_block_types": (f"{kind}DownBlock{dimensions}", f"DownBlock{dimensions}"),
        "up_block_types": (f"UpBlock{dimensions}", f"{kind}UpBlock{dimensions}"),
    }


def of_diffusers() -> Iterator[tuple[str, nn.Module, Callable]]:
    """(name, model, a function that calls a model)."""
    import diffusers

    def image(model, *others, size=8, channels=3):
        return model(torch.randn(1, channels, size, size), *others).sample

    def decoder(model):
        return image(model, size=12)

    yield "UNet2DModel", diffusers.UNet2DModel(**SMALL, **blocks("Attn")), lambda m: image(m, 7)
    resampling = {
        "down_block_types": ("ResnetDownsampleBlock2D", "DownBlock2D"),
        "up_block_types": ("UpBlock2D", "ResnetUpsampleBlock2D"),
    }
    scaled = diffusers.UNet2DModel(resnet_time_scale_shift="scale_shift", **SMALL, **resampling)
    yield "UNet2DModel, scale_shift", scaled, lambda m: image(m, 7)
    conditioned = diffusers.UNet2DConditionModel(**SMALL, **CONDITION, **blocks("CrossAttn"))
    yield "UNet2DConditionModel", conditioned, lambda m: image(m, 7, torch.randn(1, 5, 16), channels=4)
    of_space = diffusers.UNet3DConditionModel(**SMALL, **CONDITION, **blocks("CrossAttn", "3D"))
    yield (
        "UNet3DConditionModel",
        of_space,
        lambda m: m(torch.randn(1, 4, 3, 8, 8), 7, torch.randn(1, 5, 16)).sample,
    )
    both = {
        "block_out_channels": (32, 32),
        "down_block_types": ("DownEncoderBlock2D",) * 2,
        "up_block_types": ("UpDecoderBlock2D",) * 2,
    }
    yield "AutoencoderKL", diffusers.AutoencoderKL(norm_num_groups=8, **both), decoder
    asymmetric = {"down_block_out_channels": (32,), "up_block_out_channels": (32,)}
    yield (
        "AsymmetricAutoencoderKL",
        diffusers.AsymmetricAutoencoderKL(norm_num_groups=8, **asymmetric),
        decoder,
    )
    quantised = {"block_out_channels": (32,), "num_vq_embeddings": 16}
    yield "VQModel", diffusers.VQModel(norm_num_groups=8, **quantised), decoder


def of_timm() -> Iterator[tuple[str, nn.Module, Callable]]:
    import timm

    for name in OF_TIMM:
        size = 224 if name.startswith("vit") else 64
        yield name, timm.create_model(name), lambda m, size=size: m(torch.randn(1, 3, size, size))


def row(library: str, name: str, model: nn.Module, call: Callable) -> dict:
    model.eval()
    calls = []
    for part in model.modules():
        if isinstance(part, nn.GroupNorm):
            part.register_forward_hook(lambda *_: calls.append(1))
    torch.manual_seed(1)
    expected = call(model)
    for part in model.modules():
        part._forward_hooks.clear()
    fused, errors, taken, forward = fgn.fuse(model), [], [], maps_part.feature_maps_forward
    maps_part.feature_maps_forward = lambda *given: taken.append(1) or forward(*given)
    for _ in range(2):
        taken.clear()
        torch.manual_seed(1)
        errors.append(((call(fused) - expected).norm() / expected.norm()).item())
    maps_part.feature_maps_forward = forward
    modules = sum(isinstance(part, nn.GroupNorm) for part in model.modules())
    found = {"library": library, "model": name, "modules": modules, "calls": len(calls)}
    found |= {"taken": len(taken), "error": f"{max(errors):.1e}"} | when_recorded()
    print(found, flush=True)
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--record", type=Path, required=True)
    record = parser.parse_args().record
    torch.set_grad_enabled(False)
    torch.manual_seed(0)
    warnings.simplefilter("ignore")
    suites = {"diffusers": of_diffusers, "timm": of_timm}
    rows = [row(library, *one) for library, suite in suites.items() for one in suite()]
    with record.open("w", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS)
        writer.writeheader()
        writer.writerows(rows)


if __name__ == "__main__":
    main()
