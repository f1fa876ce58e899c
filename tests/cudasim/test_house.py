"""cudasim stands alone: it imports nothing of the kit that stands on it, no torch, and it starts at once."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
from processes import output_of
from sources import broken_links, imported

from cudasim.building.places import SOURCES

FILES = [path for path in SOURCES.rglob("*.py") if "build" not in path.relative_to(SOURCES).parts]


def test_nothing_of_fgn_and_no_torch_is_imported():
    assert len(FILES) > 30
    assert {path.name: names for path in FILES if (names := imported(path) & {"fgn", "torch"})} == {}


def test_its_tests_import_nothing_of_fgn():
    tests = Path(__file__).parent
    files = [tests.parent / "conftest.py", *tests.rglob("*.py"), *(tests.parent / "helpers").glob("*.py")]
    assert len(files) > 20
    assert [path.name for path in files if "fgn" in imported(path)] == []


def test_the_sources_name_nothing_of_fgn():
    sources = [path for path in (SOURCES / "sim").rglob("*") if path.is_file()]
    assert len(sources) > 180
    assert [path.name for path in sources if re.search(r"(?<!tests/)\bfgn|cuda_c/", path.read_text())] == []


def test_the_headers_of_cpp_have_no_type_that_is_missing_on_arm64():
    """gcc 12 knows _Float16 in C++ on x86-64 alone; in C it does so on both."""
    headers = list((SOURCES / "sim" / "cpp").rglob("*.hpp"))
    assert len(headers) > 20
    assert [path.name for path in headers if re.search(r"\b(?:_Float16|__fp16)\b", path.read_text())] == []


def test_import_is_light():
    """It loads nothing but the standard library's own: what is used is loaded when it is used."""
    script = "import sys; before = set(sys.modules); import cudasim; print(*set(sys.modules) - before)"
    ran = subprocess.run([sys.executable, "-c", script], cwd=SOURCES.parent, capture_output=True, text=True)
    loaded = ran.stdout.split()
    assert {name for name in loaded if name.partition(".")[0] not in sys.stdlib_module_names} == {"cudasim"}
    assert len(loaded) < 20, loaded


NUMPY_ALONE = """
import sys
sys.modules["torch"] = None
import numpy as np
import cudasim

scale = cudasim.kernel('''
__constant__ float factor[1];
__global__ void scale(float *y, const float *x, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        y[i] = factor[0] * x[i];
}''')
del sys.modules["torch"]
x, y = np.arange(1000, dtype=np.float32), np.zeros(1000, np.float32)
scale.symbols["factor"][0] = 3
scale[4, 256](y, x, 1000)
assert (y == 3 * x).all() and "torch" not in sys.modules
assert cudasim.count(lambda: scale[4, 256](y, x, 1000)).kernel.tolist() == ["scale"]
try:
    scale[4, 256](y, x, 1001)
except cudasim.KernelFault as fault:
    assert fault.kind == "out of bounds" and fault.index == 1000
else:
    raise AssertionError
"""


def test_arrays_of_numpy_need_no_torch():
    output_of(NUMPY_ALONE)


def test_wrong_arrays_of_numpy():
    import numpy as np

    import cudasim

    kernel = cudasim.kernel("__global__ void k(float *y) { y[threadIdx.x] = 1; }")
    with pytest.raises(TypeError, match=r"k: y \(float \*\): expected a float32 tensor, got float64"):
        kernel[1, 1](np.zeros(4))
    with pytest.raises(ValueError, match=r"y: expected a contiguous tensor .*got strides"):
        kernel[1, 1](np.zeros((4, 4), np.float32).T)
    with pytest.raises(TypeError, match="y: expected an array of numbers"):
        kernel[1, 1](np.zeros(4, ">f4"))
    fixed = np.zeros(4, np.float32)
    fixed.flags.writeable = False
    with pytest.raises(ValueError, match="y: expected an array that may be written to"):
        kernel[1, 1](fixed)


def test_the_report_of_the_readme_is_what_is_said():
    import numpy as np

    import cudasim

    text = (SOURCES / "README.md").read_text()
    code = re.search(r"```python\n(.*?)```", text, re.S)[1]
    names = {"np": np, "cudasim": cudasim}
    with pytest.raises(cudasim.KernelFault) as caught:
        exec(code, names)
    assert caught.value.kind == "race"
    shown = " ".join(re.search(r"```\n(race in .*?)```", text, re.S)[1].split())
    # Which of the threads is told depends on the turns that they take.
    assert re.sub(r"\d+", "N", shown) == re.sub(r"\d+", "N", " ".join(str(caught.value).split()))


def test_every_link_of_the_pages_leads_to_a_file():
    assert broken_links(SOURCES) == set()


def test_only_a_tool_of_the_checker_uses_its_own_state():
    folder = SOURCES / "sim" / "counted"
    recorder = (folder / "recorder.h").read_text()
    tools = re.findall(r"^    struct \w+ \*?(\w+);$", recorder.split("struct order order;")[1], re.M)
    assert {"history", "requests", "places", "trace", "spinning", "l2"} <= set(tools)
    found = []
    for path in sorted(folder.glob("*.[ch]")):
        for number, line in enumerate(path.read_text().splitlines(), 1):
            for tool, member in re.findall(rf"->({'|'.join(tools)})\.(\w+)", line):
                if path.stem != tool and member != "is_on":
                    found.append(f"{path.name}:{number}: {line.strip()}")
    assert not found
