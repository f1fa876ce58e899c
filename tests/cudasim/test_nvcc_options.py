"""nvcc's options as `cudasim build` and `cudasim-nvcc` take them."""

import shutil
import subprocess
import sys

import pytest

from cudasim.programs.nvcc_options import spelled

MEANING = {
    "-O3 -O 3 --optimize=2 -m64 -G -lineinfo -t4 -t 4 --threads=2 -v": [],
    "-arch sm_90 -arch=native -gencode arch=compute_90,code=sm_90 -code=sm_90": [],
    "-ftz true --fmad=false -prec-div=true -use_fast_math --prec-sqrt false -rdc true": [],
    "-Xptxas -v,-O3 --ptxas-options=-v -Xcudafe --diag_suppress=1 -diag-suppress 20012": [],
    "-ccbin g++ --compiler-bindir=/usr/bin/g++ -dlto -w --disable-warnings -MMD": [],
    "-lcudart -l cublas --library=cudart_static --library m -lgsl": ["-l=m", "-l=gsl"],
    "-Ia -I b --include-path=c -isystem d -isystem=e": ["-I=a", "-I=b", "-I=c", "-I=d", "-I=e"],
    "-DN=3 -D M --define-macro=K=4 -UN -U M": ["-D=N=3", "-D=M", "-D=K=4", "-U=N", "-U=M"],
    "--std c++17 -std=c++20": ["-std=c++17", "-std=c++20"],
    "--device-c --compile -shared -lib --output-file=x": ["-dc", "-c", "-shared", "-lib", "-o=x"],
    "-Xcompiler -fopenmp,-Wall --compiler-options=-O3": ["-Xcompiler=-fopenmp,-Wall", "-Xcompiler=-O3"],
    "-x cu --x=cu --pre-include a.h": ["-x=cu", "-x=cu", "-include=a.h"],
    "a.cu --gpu H100 --made-up": ["a.cu", "--gpu", "H100", "--made-up"],
}


@pytest.mark.parametrize("given", MEANING)
def test_options_that_mean_something_on_a_cpu_remain(given):
    assert list(spelled(given.split())) == MEANING[given]


def test_a_file_of_options_is_read(tmp_path):
    (tmp_path / "more.txt").write_text("-DN=3 -O3 '-DNAME=\"a b\"'\n")
    assert list(spelled(["-optf", str(tmp_path / "more.txt")])) == ["-D=N=3", '-D=NAME="a b"']


@pytest.mark.skipif(shutil.which("ar") is None, reason="there is no ar here")
def test_libraries_and_sources_of_cuda_by_another_name(tmp_path):
    """A .c file that is CUDA C++ by -x cu, in a static and in a shared library."""
    (tmp_path / "add.c").write_text(
        "#include <chrono>\ntemplate <class T> __global__ void add(T *x) { *x += N; }\n"
        "int added(int i) {\n    int *x;\n    cudaMallocManaged(&x, 4);\n    *x = i;\n    add<<<1, 1>>>(x);\n"
        "    cudaDeviceSynchronize();\n    i = *x;\n    cudaFree(x);\n    return i;\n}\n"
    )
    (tmp_path / "main.cu").write_text(
        '#include <cstdio>\nint added(int i);\nint main() { printf("%d\\n", added(M)); }\n'
    )

    def nvcc(*given):
        call = (sys.executable, "-c", "import sys; from cudasim.__main__ import nvcc; sys.exit(nvcc())")
        ran = subprocess.run([*call, *given], cwd=tmp_path, capture_output=True, text=True)
        assert ran.returncode == 0, ran.stderr

    def says(program) -> str:
        return subprocess.run([tmp_path / program], capture_output=True, text=True).stdout

    nvcc("--x", "cu", "-D", "N=3", "-UM", "--device-c", "add.c", "--output-file", "add.o")
    nvcc("-lib", "add.o", "-o", "libadd.a")
    nvcc("-DM=4", "--std", "c++17", "main.cu", "libadd.a", "-o", "app", "-Xlinker", "-O1")
    assert says("app") == "7\n"
    nvcc("-shared", "-Xcompiler", "-fPIC", "add.o", "-o", "libmore.so")
    (tmp_path / "m.h").write_text("#define M 5\n")
    link = ("-L.", "-lmore", "-Xlinker", f"-rpath={tmp_path}", "-o", "app")
    nvcc("-include", "m.h", "main.cu", *link)
    assert says("app") == "8\n"
