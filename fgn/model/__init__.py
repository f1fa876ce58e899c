"""A model of fusion: predicted times of every version, what binds them, what fusing an operator buys."""

from fgn.model.costs import Card, card, costs_table
from fgn.model.predictions import (
    BEST,
    CHANNELS_OF_GROUP,
    FUSED,
    best_version,
    by_precision,
    check,
    compared,
    errors,
    fusion_map,
    operators,
    predict,
    recorded_ratios,
    recorded_rows,
    versions,
)

__all__ = [
    "BEST",
    "CHANNELS_OF_GROUP",
    "FUSED",
    "Card",
    "best_version",
    "by_precision",
    "card",
    "check",
    "compared",
    "costs_table",
    "errors",
    "fusion_map",
    "operators",
    "predict",
    "recorded_ratios",
    "recorded_rows",
    "versions",
]
