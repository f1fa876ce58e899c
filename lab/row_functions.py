"""Functions of rows on a GPU, one launch each: after other kernels, and after itself.

    python lab/row_functions.py --record lab/records/row_functions.csv
    python lab/row_functions.py --show lab/records/row_functions.csv

In a model a launch follows other kernels, so its instructions and its input come from memory: `after_others`
is the time between two events around one call, after a softmax of a product and a cleared gigabyte; two
events with nothing between them are about 2 of its microseconds. `after_itself` is a call's share of a graph
of twenty calls. Medians of 25, in microseconds.
"""

from __future__ import annotations

import argparse
import statistics
from pathlib import Path

import pandas as pd
import torch
from recorded import measured_now

from fgn.operators import Pointwise
from fgn.rows import Rows, rows_forward

ADD, TWICE = Pointwise("add_tensor", tensor="other"), Pointwise("multiply", 2.0)
LEAKY, GELU, MISH = Pointwise("leaky_relu", 0.01), Pointwise("gelu"), Pointwise("mish")
SIGMOID, SILU, HARDTANH = Pointwise("sigmoid"), Pointwise("silu"), Pointwise("hardtanh", -10.0, 10.0)
B, F = torch.bfloat16, torch.float32
CASES = (
    ("sum(sigmoid(v))", Rows("sum", (SIGMOID,)), 1000, 5120, B),
    ("sum(v / 2)", Rows("sum", (Pointwise("divide", 2.0),)), 64, 200, B),
    ("mean", Rows("mean"), 128, 4096, B),
    ("max", Rows("max"), 4096, 512, B),
    ("gelu(mean of 16)", Rows("mean", (), (GELU,), 16), 4096, 1536, B),
    ("max of 2", Rows("max", (), (), 2), 128, 2048, B),
    ("mish(logsumexp(clamp(2 v)))", Rows("logsumexp", (TWICE, HARDTANH), (MISH,)), 512, 5120, B),
    ("gelu(gelu(leaky(logsumexp)))", Rows("logsumexp", (), (LEAKY, GELU, GELU)), 512, 256, B),
    ("softmax(gelu(v))", Rows("softmax", (GELU,)), 512, 768, B),
    ("softmax", Rows("softmax"), 1000, 128, B),
    ("softmax", Rows("softmax"), 4096, 2048, B),
    ("softmax", Rows("softmax"), 8192, 8192, B),
    ("softmax", Rows("softmax"), 1024, 512, F),
    ("softmax", Rows("softmax"), 8192, 8192, F),
    ("logsumexp", Rows("logsumexp"), 16384, 4096, F),
    ("rms_norm", Rows("rms_norm", eps=1e-5), 512, 4096, B),
    ("layer_norm(v + other), the sum", Rows("layer_norm", (ADD,), eps=1e-5, keeps=True), 8192, 1024, B),
    ("2 sigmoid(v) + other", Rows("values", (SIGMOID, TWICE, ADD)), 512, 3072, B),
    ("silu", Rows("values", (SILU,)), 8192, 4096, B),
)  # fmt: skip


def _between_events(before, call) -> float:
    pairs = []
    for _ in range(25):
        before()
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        call()
        end.record()
        pairs.append((begin, end))
    torch.cuda.synchronize()
    return 1000 * statistics.median(begin.elapsed_time(end) for begin, end in pairs)


def time_all() -> pd.DataFrame:
    cleared = torch.empty(1 << 30, dtype=torch.uint8, device="cuda")
    square = torch.randn(512, 512, device="cuda")

    def other_kernels():
        cleared.zero_()
        torch.softmax(square @ square, -1)
        cleared[: 1 << 28].zero_()

    rows = []
    for name, function, batch, features, dtype in CASES:
        v, other = (torch.randn(batch, features, device="cuda", dtype=dtype) for _ in range(2))
        operands = {"other": other} if "other" in function.operands else None

        def call(function=function, v=v, operands=operands):
            return rows_forward(function, v, operands)

        call()
        cold = _between_events(other_kernels, call)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            for _ in range(20):
                call()
        warm = _between_events(torch.cuda.synchronize, graph.replay) / 20
        row = {"function": name, "batch": batch, "features": features, "dtype": str(dtype)[6:]}
        rows.append(row | {"after_others": round(cold, 1), "after_itself": round(warm, 1)})
    table = pd.DataFrame(rows)
    table["gpu"] = torch.cuda.get_device_name()
    table["date"], table["commit"] = measured_now()
    return table


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--record", type=Path)
    parser.add_argument("--show", type=Path)
    arguments = parser.parse_args()
    table = pd.read_csv(arguments.show) if arguments.show else time_all()
    print(table.to_string(index=False))
    if arguments.record:
        table.to_csv(arguments.record, index=False)


if __name__ == "__main__":
    main()
