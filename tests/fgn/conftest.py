import pytest

pytest.register_assert_rewrite("accuracy")


@pytest.fixture(autouse=True)
def version_of_this_device(request):
    """Skips what is about a version that this device does not run."""
    from accuracy import versions_on

    parameters = getattr(getattr(request.node, "callspec", None), "params", {})
    version, device = parameters.get("version"), parameters.get("device")
    if version and device and version not in versions_on(device):
        pytest.skip(f"{version} does not run on {device}")
