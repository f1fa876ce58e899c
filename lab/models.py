"""Real models: how many of their Linears and norms fgn.fuse() takes, and whether the results stay the same.

    python lab/models.py --record lab/records/models.csv.xz [--only bert,gpt2]

Every text model of the transformers library that its AutoModel builds from a small configuration (32
features, two layers, random weights) runs in evaluation on the simulator, fused and not, on the same tokens.
A norm counts as taken where it is inside a part of the fused model, of a traced module or of promises.
`unread` are the modules whose forward() is not traced, `mostly` for which reason. Models that cannot be built
so small are counted too.
"""

from __future__ import annotations

import argparse
import csv
import lzma
import re
import warnings
from collections import Counter
from pathlib import Path

import torch
from torch import nn

import fgn
from fgn.fusing.recording import Noted, noting
from fgn.measure.software import recorded_environment

SMALL = {
    "hidden_size": 32,
    "d_model": 32,
    "n_embd": 32,
    "dim": 32,
    "embedding_size": 32,
    "word_embed_proj_dim": 32,
    "intermediate_size": 64,
    "ffn_dim": 64,
    "hidden_dim": 64,
    "encoder_ffn_dim": 64,
    "decoder_ffn_dim": 64,
    "d_ff": 64,
    "d_inner": 64,
    "num_hidden_layers": 2,
    "n_layer": 2,
    "n_layers": 2,
    "num_layers": 2,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "num_attention_heads": 4,
    "n_head": 4,
    "n_heads": 4,
    "num_heads": 4,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 4,
    "num_key_value_heads": 4,
    "head_dim": 8,
    "d_kv": 8,
    "vocab_size": 101,
    "max_position_embeddings": 64,
    "n_positions": 64,
    "num_experts": 2,
    "num_local_experts": 2,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
NORM = re.compile(r"Norm$")
NORMS_OF_STEPS = re.compile(r"\(\w*Norm\)|layer_norm|group_norm|rms_norm")
COLUMNS = (
    *("model", "outcome", "why", "linears", "taken", "norms", "norms_taken"),
    *("unread", "mostly", "error", "date", "commit"),
)


def models(only: list[str]):
    """(name, configuration) of the library's models."""
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING
    from transformers.models.auto.modeling_auto import MODEL_MAPPING

    for name in sorted(CONFIG_MAPPING):
        if only and name not in only:
            continue
        try:
            kind = CONFIG_MAPPING[name]
            if kind not in MODEL_MAPPING:
                continue
        except Exception:  # a dependency of this one model is not here
            continue
        if hasattr(kind(), "vocab_size"):
            yield name, kind


def built(kind) -> nn.Module:
    from transformers import AutoModel

    plain = kind()
    known = plain.to_dict()
    small = {key: value for key, value in SMALL.items() if isinstance(known.get(key), int)}
    with torch.device("meta"):
        model = AutoModel.from_config(kind(**small))
    if sum(value.numel() for value in model.parameters()) > 5_000_000:
        raise ValueError("its configuration makes no small model")
    torch.manual_seed(0)
    return AutoModel.from_config(kind(**small)).float().eval()


def counted(model: nn.Module, fused: nn.Module, noted: list[Noted]) -> dict:
    """noted: the products that were promised in one call."""
    explained = fgn.explain(fused)
    # Without the function's name and the line.
    reasons = Counter(re.sub(r"^\w+\.\w+ | \(.*", "", why) for _, why in explained.untraced)
    steps = [verdict.fused for verdict in explained.verdicts] + [one.steps for one in noted]
    steps = [one for one in steps if one is not None]
    return {
        "unread": reasons.total(),
        "mostly": reasons.most_common(1)[0][0] if reasons else "",
        "linears": sum(isinstance(part, nn.Linear) for part in model.modules()),
        "taken": len(steps),
        "norms": sum(bool(NORM.search(type(part).__name__)) for part in model.modules()),
        "norms_taken": sum(len(NORMS_OF_STEPS.findall(one)) for one in steps),
    }


def said(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"[:150].replace("\n", " ")


def tried(name: str, kind, recorded: dict) -> dict:
    row = dict.fromkeys(COLUMNS, "") | {"model": name, **recorded}
    try:
        model = built(kind)
        tokens = torch.randint(3, 100, (2, 9))
        given = {"input_ids": tokens}
        if getattr(model.config, "is_encoder_decoder", False):
            given["decoder_input_ids"] = tokens[:, :5]
        with torch.no_grad():
            expected = model(**given)[0]
    except Exception as error:
        return row | {"outcome": "not tried", "why": said(error)}
    try:
        with torch.no_grad():
            fused = fgn.fuse(model)
            for _ in range(3):  # planned, kept, repeated
                with noting() as noted:
                    found = fused(**given)[0]
    except Exception as error:
        return row | {"outcome": "fails", "why": said(error)}
    error = ((found - expected).norm() / expected.norm()).item()
    row |= {"outcome": "right" if error < 1e-4 else "wrong", "error": f"{error:.1e}"}
    return row | counted(model, fused, noted)


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--record", type=Path)
    parser.add_argument("--only", default="")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    environment = recorded_environment(torch.device("cpu"))
    recorded, rows = {key: environment[key] for key in ("date", "commit")}, []
    for name, kind in models([name for name in arguments.only.split(",") if name]):
        rows.append(tried(name, kind, recorded))
        print(*rows[-1].values(), sep=" | ", flush=True)
        if arguments.record:
            with lzma.open(arguments.record, "wt", newline="") as file:
                writer = csv.DictWriter(file, COLUMNS)
                writer.writeheader()
                writer.writerows(rows)
    ran = [row for row in rows if row["outcome"] in ("right", "wrong", "fails")]
    whole = [row for row in ran if row["outcome"] != "fails"]
    print(
        f"{len(rows)} models, {len(ran)} tried, {sum(row['outcome'] == 'right' for row in ran)} right;",
        *(f"{sum(row[key] for row in whole)} {key}" for key in ("linears", "taken", "norms", "norms_taken")),
    )


if __name__ == "__main__":
    main()
