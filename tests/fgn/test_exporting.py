"""One version as one file: it is whole, its structs are those of fgn.h, and it computes what fgn computes."""

import ast
import ctypes
import os
import subprocess
import sys
from contextlib import contextmanager

import pytest
import torch
from accuracy import assert_accurate

from cudasim.building.toolchains import find_nvcc
from fgn import chain_forward
from fgn.__main__ import main
from fgn.chains import CHAINS
from fgn.exporting import runtime
from fgn.exporting.one_file import MODULES, export
from fgn.exporting.sources import launcher, units_of
from fgn.native.library import SIMULATOR, ffi, version_names
from fgn.precision import PRECISIONS

CHAIN = "gemm_biasadd_hardtanh_mish_groupnorm"
SHAPE = (6, 64, 256, 32)

# A file has no other library to multiply with.
VERSIONS = [name for name in version_names() if name != "library"]


def precision_of(version: str) -> str:
    """The steps of the Hopper ladder multiply bfloat16 only."""
    return "bf16" if version.startswith("hopper_") else "ieee"


def namespace_of(text: str) -> dict:
    """What the file defines, after it ran as Python runs a file."""
    namespace = {"__name__": "model_new"}
    exec(compile(text, "model_new.py", "exec"), namespace)
    return namespace


def simulator_of(version: str, folder) -> str:
    """A library of the same files as the exported one, by the C compiler and with the simulator."""
    toolchain = SIMULATOR.toolchain()
    objects = {path.name.rsplit(".", 2)[0]: str(path) for path in SIMULATOR.objects()}
    (simulator,) = SIMULATOR.needs
    units = [unit.rsplit("/", 1)[-1].removesuffix(".cu") for unit in units_of(version)]
    source, library = folder / "launcher.cu", folder / f"lib{version}.so"
    source.write_text(launcher(version))
    subprocess.run(
        [
            *(toolchain.compiler, *toolchain.flags, f"-I{SIMULATOR.sources}", f"-I{simulator.sources}"),
            *(str(source), "-x", "none", *(objects[name] for name in units), *map(str, simulator.objects())),
            *("-o", str(library), "-Wl,--no-undefined", *toolchain.link_flags),
        ],
        check=True,
        capture_output=True,
        text=True,
    )
    return str(library)


def run_on_simulator(namespace: dict, version: str, folder):
    """Lets the models of an exported file take CPU tensors."""
    library = namespace["load"](simulator_of(version, folder))

    @contextmanager
    def on_device(device):
        yield library, None

    namespace["on_device"] = on_device


@pytest.mark.simulator
@pytest.mark.parametrize("version", VERSIONS)
def test_an_exported_file_computes_the_chain(version, tmp_path):
    precision = precision_of(version)
    namespace = namespace_of(export(CHAIN, version, precision, SHAPE))
    run_on_simulator(namespace, version, tmp_path)
    torch.manual_seed(0)
    model = namespace["ModelNew"](*namespace["get_init_inputs"]()).to(PRECISIONS[precision].dtype)
    (x,) = namespace["get_inputs"]()
    torch.nn.init.normal_(model.groupnorm.weight)
    torch.nn.init.normal_(model.groupnorm.bias)
    y = model(x)
    mine = MODULES[CHAIN].module(64, 256, (256,), 32, version=version).to(x.dtype)
    mine.load_state_dict(model.state_dict())
    chain, parameters = mine.chain, mine.chain_parameters()
    if precision == "ieee":
        assert_accurate(y, chain, x, parameters)
    assert torch.equal(y, chain_forward(chain, x, parameters, version, precision))
    # It is what the module is now.
    model.groupnorm.eps, model.hardtanh.max_val = 0.5, 0.25
    mine.groupnorm.eps, mine.hardtanh.max_val = 0.5, 0.25
    assert torch.equal(model(x), mine(x))
    with torch.no_grad():
        model.gemm.weight.mul_(2)
        mine.gemm.weight.mul_(2)
    assert torch.equal(model(x), mine(x))


@pytest.mark.parametrize("chain", CHAINS)
def test_an_exported_file_is_whole_and_has_the_parameters_of_the_reference(chain):
    text = export(chain, "fused")
    imported = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            imported |= {name.name.split(".")[0] for name in node.names}
        elif isinstance(node, ast.ImportFrom):
            imported.add(node.module.split(".")[0])
    assert imported - set(sys.stdlib_module_names) == {"torch"}
    namespace = namespace_of(text)
    assert namespace["batch_size"] == 1024 and namespace["out_features"] == 8192
    namespace |= {"in_features": 12, "out_features": 24, "num_groups": 4}
    torch.manual_seed(1)
    exec("model = ModelNew(*get_init_inputs())", namespace)
    model = namespace["model"]
    torch.manual_seed(1)
    exec("arguments = get_init_inputs()", namespace)
    reference = MODULES[chain].module.__mro__[2](*namespace["arguments"])
    assert list(model.state_dict()) == list(reference.state_dict())
    for name, value in reference.state_dict().items():
        assert torch.equal(model.state_dict()[name], value)
    with pytest.raises(RuntimeError, match="x: expected it on a CUDA device, got cpu"):
        model(torch.rand(2, 12))
    with pytest.raises(TypeError, match=r"x: expected dtype torch\.float32, got torch\.float64"):
        model(torch.rand(2, 12, dtype=torch.float64))
    with pytest.raises(ValueError, match=r"x: expected shape \(2, 12\), got \(2, 13\)"):
        model(torch.rand(2, 13))


def test_an_exported_model_refuses_to_be_differentiated(tmp_path):
    namespace = namespace_of(export(CHAIN, "naive", shape=SHAPE))
    run_on_simulator(namespace, "naive", tmp_path)
    model = namespace["ModelNew"](*namespace["get_init_inputs"]())
    with torch.enable_grad():
        y = model(*namespace["get_inputs"]())
        with pytest.raises(RuntimeError, match="ModelNew has a forward only"):
            y.sum().backward()


@pytest.mark.parametrize(
    "ours, name",
    [
        (runtime.CStep, "fgn_pointwise"),
        (runtime.CChain, "fgn_chain"),
        (runtime.CDevice, "fgn_device"),
        (runtime.CPlan, "fgn_plan"),
    ],
)
def test_the_structs_of_an_exported_file_are_those_of_the_header(ours, name):
    fields = [field for field, _ in ours._fields_]
    theirs = [field for field, _ in ffi().typeof(name).fields]
    assert theirs[: len(fields)] == fields
    assert [getattr(ours, field).offset for field in fields] == [ffi().offsetof(name, f) for f in fields]
    if ours is not runtime.CPlan:
        assert theirs == fields and ctypes.sizeof(ours) == ffi().sizeof(name)


def test_the_numbers_of_an_exported_file_are_those_of_the_header():
    library = SIMULATOR.load()
    assert runtime.MOST_STEPS == library.FGN_MAX_POINTWISE
    assert runtime.INVALID_ARGUMENT == library.FGN_INVALID_ARGUMENT
    assert runtime.NOT_SUPPORTED == library.FGN_NOT_SUPPORTED
    types = {torch.float32: "FLOAT32", torch.float16: "FLOAT16", torch.bfloat16: "BFLOAT16"}
    assert {dtype: getattr(library, f"FGN_{name}") for dtype, name in types.items()} == runtime.TYPES


@pytest.mark.parametrize(
    "arguments, message",
    [
        (("no_chain", "fused"), "chain: expected one of gemm_groupnorm_hardtanh, "),
        ((CHAIN, "no_version"), "version: expected one of naive, "),
        ((CHAIN, "fused", "fp8"), "precision: expected one of ieee, "),
        ((CHAIN, "fused", "bf16"), "version: 'fused' does not run .* in bf16 .*: .*float32"),
        (
            (CHAIN, "library"),
            "version: 'library' does not run .*: library needs a caller with a ",
        ),
        ((CHAIN, "hopper_2_tma"), "version: 'hopper_2_tma' does not run .*: .*bfloat16"),
        ((CHAIN, "fused", "ieee", (4, 8, 15, 4)), "shape: expected sizes with groups that divide"),
    ],
)
def test_what_cannot_be_exported_is_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        export(*arguments)


def test_the_command_writes_the_file_or_says_in_one_line_why_not(tmp_path, monkeypatch, capsys):
    to = tmp_path / "model_new.py"
    command = ["fgn", "export", "--chain", CHAIN, "--version", "naive"]
    monkeypatch.setattr(sys, "argv", [*command, "--shape", "6,64,256,32", "--to", str(to)])
    main()
    assert to.read_text() == export(CHAIN, "naive", shape=SHAPE)
    monkeypatch.setattr(sys, "argv", [*command, "--precision", "bf16"])
    with pytest.raises(SystemExit, match=r"^fgn: version: 'naive' does not run [^\n]*$"):
        main()
    monkeypatch.setattr(sys, "argv", command)
    main()
    assert capsys.readouterr() == (export(CHAIN, "naive"), "")


def test_nvcc_compiles_an_exported_file(tmp_path, monkeypatch):
    """In a folder of its own: neither fgn nor its sources are in reach. Compiled are the version's own file
    and the launcher; the others are those that every build of the GPU library compiles."""
    nvcc = find_nvcc()
    if nvcc is None:
        pytest.skip("needs nvcc")
    (tmp_path / "model_new.py").write_text(export(CHAIN, "naive", shape=SHAPE))
    program = """if True:
        import sys, model_new
        units = ("launcher.cu", "ladder/gemm_1_naive.cu")
        some = {name: text for name, text in model_new.SOURCES.items() if name[-2:] == ".h" or name in units}
        print(model_new.build(some, "80"))
        assert "fgn" not in sys.modules"""
    home = os.path.dirname(os.path.dirname(os.path.realpath(nvcc)))
    environment = os.environ | {"CUDA_HOME": home, "TORCH_EXTENSIONS_DIR": str(tmp_path / "extensions")}
    environment.pop("PYTHONPATH", None)
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, cwd=tmp_path, env=environment
    )
    assert done.returncode == 0, done.stderr
    (library,) = (tmp_path / "extensions").iterdir()
    assert str(library) == done.stdout.strip()
