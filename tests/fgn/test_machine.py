"""The measured ceilings: the kernels do as much as is said, and on a GPU the numbers fit each other."""

import pytest
import torch

import fgn
from cudasim.counting import metrics
from fgn.measure import machine as machines
from fgn.profiling import records as profile_records


@pytest.mark.parametrize(
    "name, counter, each",
    [
        ("l2", metrics.GLOBAL_SECTORS["ld"], 32),
        ("l1", metrics.GLOBAL_SECTORS["ld"], 32),
        ("shared", metrics.SHARED_WAVEFRONTS["ld"], 128),
    ],
)
def test_the_kernels_read_as_much_as_is_said(name, counter, each):
    said = []

    def run():
        call, work = machines.calls(torch.device("cpu"))[name]
        said.append(work)
        call()

    counted = fgn.count(run)
    assert said == [each * counted[counter].sum()]
    assert counted[metrics.BANK_CONFLICTS["ld"]].sum() == 0


def test_the_launches_are_as_many_as_is_said():
    launches = fgn.count(lambda: machines.calls(torch.device("cpu"))["launch"][0]())
    assert len(launches) == machines.calls(torch.device("cpu"))["launch"][1]


def test_recorded_ceilings(tmp_path):
    machine = profile_records.read("h200").machine
    machines.write(machine, tmp_path, date="today")
    assert machines.read(tmp_path) == machine
    assert_they_fit_each_other(machine)


def assert_they_fit_each_other(machine):
    assert machine.dram_bytes_per_second < machine.l2_bytes_per_second < machine.l1_bytes_per_second
    # L1 and shared memory are one memory, and as wide.
    assert 1 <= machine.shared_bytes_per_second / machine.l1_bytes_per_second < 2
    assert machine.product_operations_per_second["tf32"] < machine.product_operations_per_second["bf16"]
    assert machine.launch_seconds < 1e-4


@pytest.mark.gpu
def test_measured_ceilings():
    assert_they_fit_each_other(machines.measure_machine("cuda", seconds=0.1))
