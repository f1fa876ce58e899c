import gc
import os

import hypothesis
import pytest
import torch

# No test opens a window, and every test draws the same examples in every run.
os.environ.setdefault("MPLBACKEND", "Agg")
# nvcc would read each of thousands of kernels too; test_judge.py has those that are about it.
os.environ.setdefault("CUDASIM_NVCC_JUDGE", "0")
hypothesis.settings.register_profile("fgn", deadline=None, derandomize=True, database=None)
hypothesis.settings.load_profile("fgn")

MACHINES = {"simulator": "cpu"} | ({"gpu": "cuda"} if torch.cuda.is_available() else {})


def pytest_configure(config):
    config.addinivalue_line("markers", "simulator: runs kernels on the simulator")
    config.addinivalue_line(
        "markers", "gpu: needs a GPU; `pytest -k gpu` runs these and tests of each device"
    )
    memory = "launches kernels with sizes, types, alignments or lifetimes of its own: for `make sanitize`"
    config.addinivalue_line("markers", f"memory: {memory}")


def pytest_generate_tests(metafunc):
    if "device" in metafunc.fixturenames:
        marks = [pytest.param(torch.device(kind), id=name) for name, kind in MACHINES.items()]
        metafunc.parametrize("device", marks)


def pytest_collection_modifyitems(items):
    for item in items:
        parameters = getattr(item, "callspec", None)
        if parameters and parameters.params.get("device") == torch.device("cpu"):
            item.add_marker("simulator")
        if item.get_closest_marker("gpu") and not torch.cuda.is_available():
            item.add_marker(pytest.mark.skip(reason="needs a GPU"))


def pytest_collection_finish():
    # Modules and tests stay to the end, so that no collection of garbage has to look at them again.
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True)
def no_grad():
    with torch.no_grad():
        yield
