"""`python -m cudasim card --measure`: the microbenchmarks, and the card that is made of what they print."""

import re
import shutil
import subprocess
import sys
from collections import Counter
from dataclasses import replace

import pytest
from processes import patience

from cudasim.building.toolchains import find_cuda_tool, find_nvcc
from cudasim.predicting import measuring
from cudasim.predicting.cards import card, cards, of_device, plain_name

PRINTED = """name NVIDIA H100 80GB HBM3
capability 9.0
multiprocessors 132
memory_bytes 84929347584
warps 64
threads 2048
blocks 32
registers 65536
shared_bytes 233472
shared_per_block 232448
shared_reserved 1024
l2_bytes 52428800
dram_bytes_per_second 3.35232e+12
clock_hz 1.98e+09 1.97e+09 1.99e+09
lanes.fp32 127 128 126
latency.l1 33 34 90
dram_bytes_per_second_of_a_copy 3e+12 2.9e+12 3.1e+12
l2_bytes_per_second 5.94e+12 5.9e+12 6e+12
"""


def test_a_card_has_the_medians_and_says_where_each_figure_is_from(tmp_path):
    file = tmp_path / "mine.toml"
    file.write_text(measuring.toml_of(*measuring.figures_of(PRINTED)))
    mine, other = card(file), card("H100")
    assert mine.name == "H100 80GB HBM3" and mine.capability == (9, 0)
    assert mine.clock_hz == 1.98e9 and mine.lanes["fp32"] == 127 and mine.latency["l1"] == 34
    assert mine.l2_bytes_per_clock == pytest.approx(3000, rel=1e-3)
    assert mine.dram_bandwidth == pytest.approx(3e12, rel=1e-3)
    assert mine.sources["latency.l1"] == "measured: median of 3, from 33 to 90"
    assert "driver" in mine.sources["l2_bytes"]
    # What was not measured is another card's of the same capability.
    assert mine.tensor == other.tensor and mine.sources["tensor"].startswith("as ")
    table = measuring.beside(mine, other).set_index("figure")
    assert table.loc["lanes.fp32", "ratio"] == 127 / 128 and table.loc["lanes.fp32", "source"] == "measured"
    assert table.loc["tensor.fp16", "source"].startswith("as ")
    assert list(measuring.beside(other, other)) == ["figure", "measured", "card", "ratio", "source"]


def test_a_measured_card_stands_beside_the_one_of_its_name(monkeypatch):
    monkeypatch.setattr(measuring, "measure_card", lambda file: replace(card("H200"), clock_hz=1e9))
    assert "clock_hz" in measuring.measured_card(None)
    monkeypatch.setattr(measuring, "measure_card", lambda file: card("H200"))
    assert "no other card" in measuring.measured_card(None)


def test_a_device_has_the_card_with_the_longest_name_that_its_own_begins_with():
    assert of_device("NVIDIA H100 80GB HBM3") == card("H100") != of_device("NVIDIA H100 PCIe")
    assert of_device("NVIDIA A100-SXM4-80GB") == card("A100 80GB")
    assert of_device("NVIDIA GeForce RTX 4090") == card("RTX 4090")
    assert of_device("Voodoo 3") is None


@pytest.mark.parametrize("capability", [(1, 0), (7, 5), (8, 7), (99, 0)])
def test_a_gpu_without_a_card_has_the_nearest_capability_before_it(capability):
    like = measuring._like(capability)
    before = [card(name).capability for name in cards() if card(name).capability <= capability]
    assert like.capability == max(before, default=card(cards()[0]).capability)


def test_the_microbenchmarks_run_and_print_every_figure(tmp_path):
    """On the simulator, under every check: what they print has no meaning there, that they print it has."""
    sources = sorted(map(str, measuring.SOURCES.glob("*.cu")))
    command = [sys.executable, "-m", "cudasim", "check", *sources, "--", "brief"]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=patience(600))
    assert ran.returncode == 0 and "race" not in ran.stderr, ran.stderr
    figures, sources = measuring.figures_of(ran.stdout)
    measured = {key for key, source in sources.items() if source.startswith("measured")}
    for table, left in (("lanes", {"lsu", "uniform"}), ("latency", {"branch"})):
        assert {f"{table}.{name}" for name in figures[table]} - measured == {
            f"{table}.{name}" for name in left
        }
    assert {"clock_hz", "dram_efficiency", "l2_bytes_per_clock", "l1_bytes_per_clock"} <= measured
    assert {"shared_bytes_per_clock", "launch_seconds"} <= measured
    file = tmp_path / "simulated.toml"
    file.write_text(measuring.toml_of(figures, sources))
    assert plain_name(card(file).name) == plain_name(figures["name"])


WANTED = {
    "MultiplyAdd": "FFMA", "MultiplyAddDouble": "DFMA", "Logic": "LOP3", "MultiplyAddInteger": "IMAD",
    "Special": "MUFU", "Convert": "F2I", "ConvertDouble": "F2I", "Shift": "SHF", "CountBits": "POPC",
    "Shuffle": "SHFL", "Fragments": "HMMA",
}  # fmt: skip


@pytest.mark.skipif(
    find_nvcc() is None or find_cuda_tool("nvdisasm") is None, reason="there is no nvcc or no nvdisasm here"
)
def test_the_chains_are_the_instructions_that_their_names_say(tmp_path):
    """Nothing is left out by the compiler: 128 of each in a round, with one chain and
    with eight."""
    cubin = tmp_path / "instructions.cubin"
    command = [find_nvcc(), "-std=c++17", "-O3", "-arch=sm_90", "-cubin", "-o", str(cubin)]
    subprocess.run([*command, str(measuring.SOURCES / "instructions.cu")], check=True, capture_output=True)
    listing = subprocess.run(
        [find_cuda_tool("nvdisasm"), "-c", str(cubin)], check=True, capture_output=True, text=True
    ).stdout
    counts, kernel = {}, None
    for line in listing.splitlines():
        if found := re.match(r"\s*\.section\s+\.text\.\w*?chainsI\d+([A-Za-z]+)Li(\d)E", line):
            kernel = counts[found.groups()] = Counter()
        elif (found := re.match(r"\s*/\*[0-9a-f]{4,}\*/\s+([A-Z]\w+)", line)) and kernel is not None:
            kernel[found[1]] += 1
    for name, instruction in WANTED.items():
        for chains in ("1", "8"):
            # A few stand around the loop.
            assert 128 <= counts[name, chains][instruction] <= 140, (name, chains, counts[name, chains])


def test_without_a_gpu_it_says_so(monkeypatch, tmp_path, capsys):
    from cudasim.__main__ import main

    def fails():
        raise RuntimeError("the microbenchmarks ended with an error: no CUDA-capable device is detected")

    monkeypatch.setattr(measuring, "printed", fails)
    assert main(["card", "--measure", str(tmp_path / "mine.toml")]) == 1
    assert "no CUDA-capable device" in capsys.readouterr().err and not list(tmp_path.iterdir())


def has_gpu() -> bool:
    tool = shutil.which("nvidia-smi")
    return bool(tool) and subprocess.run([tool, "-L"], capture_output=True).returncode == 0


@pytest.mark.skipif(not has_gpu() or find_nvcc() is None, reason="there is no GPU or no nvcc here")
def test_the_gpu_that_is_there_is_measured(tmp_path):
    mine = measuring.measure_card(tmp_path / "mine.toml")
    assert mine.latency["shared"] < mine.latency["l2"] < mine.latency["dram"] < 5000
    assert 0.5 < mine.dram_efficiency < 1.05
    assert 0 < mine.lanes["special"] < mine.lanes["fp32"] <= 260
    assert mine.shared_bytes_per_clock >= 0.9 * mine.l1_bytes_per_clock
