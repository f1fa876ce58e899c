"""CUDA's runtime: what docs/runtime.md says is there is there, and the rest is refused by name."""

import re
import subprocess
from pathlib import Path

import pytest

import cudasim
from cudasim.building.library import BuildError
from cudasim.building.toolchains import find_nvcc
from cudasim.programs.building import Program
from cudasim.programs.runtime_names import sections_of, table

DOCS = (Path(cudasim.__file__).parent / "docs" / "runtime.md").read_text()


def names_in(column: int) -> list[str]:
    rows = [line.split("|") for line in DOCS.splitlines() if line.startswith("| ") and "`cuda" in line]
    return [name for row in rows for name in re.findall(r"`(cuda\w+)`", row[column])]


def test_each_function_that_the_docs_have_is_there(tmp_path):
    """A using-declaration compiles for a function, a template and an object, whatever its parameters."""
    lines = [f"#ifndef {name}\nusing ::{name};\n#endif" for name in names_in(2)]
    (tmp_path / "names.cu").write_text("namespace there {\n" + "\n".join(lines) + "\n}\nint main() {}\n")
    assert len(lines) > 240
    Program((tmp_path / "names.cu",)).object_of(tmp_path / "names.cu")


def test_the_docs_have_every_function_of_the_toolkits_header(tmp_path):
    if (nvcc := find_nvcc()) is None:
        pytest.skip("there is no nvcc, whose header has the names")
    (tmp_path / "empty.cu").write_text("")
    depends = subprocess.run([nvcc, "-M", tmp_path / "empty.cu"], capture_output=True, text=True).stdout
    text = Path(re.search(r"\S+/cuda_runtime_api\.h", depends)[0]).read_text()
    if not re.search(r"#define CUDART_VERSION\s+13000\b", text):
        pytest.skip("the table is of CUDA 13.0")
    assert table(text) in DOCS
    known = {*names_in(2), *names_in(3)}
    assert known == {name for names in sections_of(text).values() for name in names}


def test_what_is_refused_is_told_by_name_all_at_once(tmp_path):
    (tmp_path / "a.cu").write_text(
        "#include <cuda_runtime.h>\n"
        "// cudaLogsCurrent\n"
        "int share(void *x) {\n"
        "    cudaIpcMemHandle_t handle;\n"
        "    return cudaIpcGetMemHandle(&handle, x);\n"
        "}\n"
    )
    (tmp_path / "b.cu").write_text(
        "#include <cuda_runtime.h>\nint main() {\n    cudaGraphicsResource *r;\n"
        "    return cudaGraphicsMapResources(1, &r, 0);\n}\n"
    )
    with pytest.raises(BuildError) as error:
        Program((tmp_path / "a.cu", tmp_path / "b.cu")).library("run")
    said = [line.split(" is not there: ")[0] for line in str(error.value).splitlines()]
    assert said == [
        "error: a.cu:4: cudaIpcMemHandle_t",
        "error: a.cu:5: cudaIpcGetMemHandle",
        "error: b.cu:3: cudaGraphicsResource",
        "error: b.cu:4: cudaGraphicsMapResources",
    ]
