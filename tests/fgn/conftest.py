import pytest
import torch

pytest.register_assert_rewrite("accuracy")


@pytest.fixture(autouse=True)
def version_of_this_device(request):
    """Skips what is about a version that this device does not run."""
    from accuracy import versions_on

    parameters = getattr(getattr(request.node, "callspec", None), "params", {})
    version, device = parameters.get("version"), parameters.get("device")
    if version and device and version not in versions_on(device):
        pytest.skip(f"{version} does not run on {device}")


@pytest.fixture
def equal_calls():
    """Asks torch for equal results of equal calls: on a GPU all calls of a kind then have the same kernel."""
    torch.use_deterministic_algorithms(True, warn_only=True)
    yield
    torch.use_deterministic_algorithms(False)
