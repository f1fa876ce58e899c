"""The plan of a call is what is launched and written, on this machine and for GPUs that are not here."""

import random
from dataclasses import replace

import numpy as np
import pytest
import torch

import fgn
from fgn.chains import CHAINS, Chain, Pointwise, Shape, random_inputs
from fgn.functional import PRODUCT, plan_of, run_chain
from fgn.measure import records
from fgn.native.library import ffi, for_device, version_names
from fgn.native.prepared import freeze
from fgn.native.source import find
from fgn.plans import DEVICES, Device, plan
from fgn.precision import PRECISIONS
from fgn.structs import chain_struct, pointer

CPU = torch.device("cpu")
VERSIONS = version_names()
EVERY_SHAPE = [
    *[Shape(*sizes) for sizes in ((1, 1, 1, 1), (3, 20, 512, 4), (33, 100, 1536, 512), (130, 40, 300, 3))],
    *[Shape(*sizes) for sizes in ((257, 260, 384, 3), (2049, 8, 96, 6), (64, 4096, 128, 1))],
]
GUARD = 256


def random_problems(count: int, seed: int) -> list[tuple[Chain, Shape]]:
    """Chains of this project, and shapes without a pattern."""
    generator = random.Random(seed)
    found = []
    for _ in range(count):
        groups = generator.choice((1, 2, 3, 5, 8))
        size = generator.choice((1, 4, 7, 8, 16, 24, 32, 64, 130))
        shape = Shape(generator.randint(1, 150), generator.randint(1, 150), groups * size, groups)
        found.append((replace(CHAINS[generator.choice(sorted(CHAINS))], groups=groups), shape))
    return [*found, (PRODUCT, Shape(70, 33, 90, 0))]


def runs_here(chain: Chain, shape: Shape, version: str, precision: str):
    """The plan on the simulator, or None where the version does not run this."""
    try:
        return plan(chain, shape, version, precision, "cpu")
    except ValueError:
        return None


@pytest.mark.parametrize("version", VERSIONS)
def test_what_is_planned_is_what_is_launched(version):
    """Kernels, grids, blocks and shared memory, in order; and the bytes of y and of the workspace."""
    seen = 0
    for chain, shape in random_problems(6, seed=VERSIONS.index(version)):
        for precision in random.Random(seen).sample(sorted(PRECISIONS), 2):
            planned = runs_here(chain, shape, version, precision)
            if planned is None:
                continue
            x, parameters = random_inputs(chain, shape, dtype=PRECISIONS[precision].dtype)
            freeze(parameters["weight"])

            def call(chain=chain, x=x, parameters=parameters, precision=precision):
                return run_chain(chain, x, parameters, version, precision=precision)

            call()  # what is prepared of the weight is launched once
            frame = fgn.count(call)
            assert list(frame.kernel) == [launch.kernel for launch in planned.launches], (chain, shape)
            for row, launch in zip(frame.to_dict("records"), planned.launches, strict=True):
                assert tuple(row["grid"]) == launch.grid and tuple(row["block"]) == launch.block, launch
                if launch.stands_by:
                    continue
                # Each byte once: a kernel may ask for it again, but never for less.
                assert row["unique_sectors_written"] * 32 >= launch.bytes_written, launch
                stored = row["smsp__sass_data_bytes_mem_global_op_st.sum"]
                assert stored >= launch.bytes_written, launch
            seen += 1
    if seen == 0:
        pytest.skip(f"{version} runs none of these on the simulator")


@pytest.mark.parametrize("version", VERSIONS)
def test_the_workspace_is_as_large_as_planned_and_nothing_else_is_written(version):
    """Guards of a known pattern around y and the workspace, which begin poisoned."""
    library = for_device("cpu").load()
    seen = 0
    for chain, shape in random_problems(8, seed=7):
        for precision in PRECISIONS:
            c_plan = plan_of(chain, shape, version, CPU, precision)
            if c_plan is None:
                continue
            dtype = PRECISIONS[precision].dtype
            x, parameters = random_inputs(chain, shape, dtype=dtype)
            own = ("weight", "bias") if c_plan.product_bytes > 0 else ("weight",)  # torch's product has both
            parameters = {
                name: value if name in own or value is None else value.float()
                for name, value in parameters.items()
            }
            c_chain = chain_struct(library, chain, shape, precision, parameters, frozen=True)
            y_bytes = shape.batch * shape.out_features * dtype.itemsize
            memory = {}
            for name, size in (
                ("y", y_bytes),
                ("workspace", c_plan.workspace_bytes),
                ("prepared", c_plan.prepared_bytes),
            ):
                memory[name] = torch.full((GUARD + size + GUARD,), 0xFF, dtype=torch.uint8)
            if c_plan.product_bytes > 0:
                v = torch.nn.functional.linear(x, parameters["weight"], parameters.get("bias"))
                memory["workspace"][GUARD:-GUARD] = v.view(torch.uint8).flatten()
            at = {name: pointer(tensor[GUARD:]) for name, tensor in memory.items()}
            c_chain.prepared = at["prepared"]
            assert library.fgn_prepare(c_plan, c_chain, at["prepared"], ffi().NULL) == library.FGN_OK
            arguments = (c_chain, pointer(x), at["y"], at["workspace"])
            if c_plan.workspace_bytes > 0:
                status = library.fgn_run(c_plan, *arguments, c_plan.workspace_bytes - 1, ffi().NULL)
                assert status == library.FGN_WORKSPACE_TOO_SMALL
            status = library.fgn_run(c_plan, *arguments, c_plan.workspace_bytes, ffi().NULL)
            assert status == library.FGN_OK, ffi().string(library.fgn_last_error())
            for name, tensor in memory.items():
                assert (tensor[:GUARD] == 0xFF).all() and (tensor[-GUARD:] == 0xFF).all(), (name, shape)
            y = memory["y"][GUARD : GUARD + y_bytes].view(dtype).reshape(shape.batch, shape.out_features)
            expected = run_chain(chain, x, parameters, version, precision=precision)
            assert torch.equal(y, expected), (chain.name, shape, precision)
            seen += 1
    if seen == 0:
        pytest.skip(f"{version} runs none of these on the simulator")


@pytest.mark.parametrize("name", DEVICES)
def test_plans_for_gpus_that_are_not_here(name):
    """What every launch of any GPU has to be, and what each GPU has of its own."""
    device, kinds = DEVICES[name], set()
    for chain, shape in [
        *[(replace(chain, groups=at.groups), at) for chain in CHAINS.values() for at in EVERY_SHAPE],
        (replace(CHAINS["gemm_groupnorm_hardtanh"], groups=32), Shape(1024, 8192, 8192, 32)),
    ]:
        for version in VERSIONS:
            for precision in PRECISIONS:
                try:
                    planned = plan(chain, shape, version, precision, name)
                except ValueError as error:
                    assert f"version: {version} needs " in str(error)
                    continue
                kinds.add(version)
                check_launches(planned, chain, shape, device)
    assert ("hopper" in kinds) == (device.major == 9)
    assert all(version.startswith("hopper") for version in set(VERSIONS) - kinds)


def check_launches(planned, chain, shape, device):
    whole = [launch for launch in planned.launches if not launch.stands_by]
    assert planned.device == device and whole[-1].writes_y
    assert sum(launch.is_product for launch in whole) == (0 if planned.version == "library" else 1)
    # Every operator is applied once, in its order.
    kinds = [kind for launch in whole for kind in launch.operators]
    steps = [step.kind for step in (*chain.before, *chain.after)]
    assert [kind for kind in kinds if kind not in ("norm", "statistics", "normalise")] == steps
    assert kinds.count("norm") + kinds.count("normalise") == (1 if chain.groups else 0)
    most_shared = 227 << 10 if device.major == 9 else 163 << 10 if device == DEVICES["A100"] else 99 << 10
    for launch in planned.launches:
        assert 1 <= launch.threads <= 1024 and launch.shared_bytes <= most_shared
        assert 1 <= launch.grid[0] < 2**31 and 1 <= launch.grid[1] < 2**16 and 1 <= launch.grid[2] < 2**16
        assert launch.cluster == 1 or (device.major == 9 and launch.grid[0] % launch.cluster == 0)
        assert 0 <= launch.bytes_kept <= launch.bytes_read and launch.bytes_written > 0
    if planned.version == "library":
        check_product_of_torch(planned, chain, shape)
        return
    product = planned.product
    assert planned.product_bytes == 0
    covered = product.tiles * product.tile_rows * product.tile_columns
    assert covered >= shape.batch * shape.out_features
    assert product.steps * product.step_k * product.tiles >= shape.in_features
    assert product.operations % (2 * shape.batch * shape.in_features * shape.out_features) == 0


def check_product_of_torch(planned, chain, shape):
    assert planned.product is None and len(planned.launches) == 1
    outputs = shape.batch * shape.out_features
    assert planned.workspace_bytes == planned.product_bytes
    assert planned.product_bytes in (2 * outputs, 4 * outputs)
    launch = planned.launches[0]
    assert launch.bytes_kept == launch.bytes_written == planned.product_bytes <= launch.bytes_read
    before, after = ([step.kind for step in steps] for steps in (chain.before, chain.after))
    assert launch.operators == (*before, "norm", *after)


def test_the_number_of_multiprocessors_decides_how_few_rows_splits_k():
    chain, shape = CHAINS["gemm_groupnorm_hardtanh"], Shape(4, 16384, 512, 16)
    one, many = (plan(chain, shape, "few_rows", "bf16", Device(8, 0, number)).product for number in (1, 108))
    assert one.grid[2] == 1 < many.grid[2]


def test_a_plan_is_only_run_for_the_chain_and_the_device_that_it_is_for():
    library = for_device("cpu").load()
    chain, shape = replace(CHAINS["gemm_groupnorm_hardtanh"], groups=4), Shape(3, 8, 16, 4)
    x, parameters = random_inputs(chain, shape)
    y = torch.zeros(3, 16)

    def run(c_plan, described=chain, sizes=shape, given=x):
        c_chain = chain_struct(library, described, sizes, "ieee", parameters, frozen=True)
        status = library.fgn_run(c_plan, c_chain, pointer(given), pointer(y), ffi().NULL, 0, ffi().NULL)
        return status, ffi().string(library.fgn_last_error()).decode()

    c_plan = plan_of(chain, shape, "fused", CPU)
    assert run(c_plan)[0] == library.FGN_OK
    for other in (
        {"sizes": shape._replace(batch=2)},
        {"described": replace(chain, after=())},
        {"described": replace(chain, after=(Pointwise("mish"),))},
        {"described": replace(chain, groups=2)},
    ):
        status, message = run(c_plan, **other)
        assert status == library.FGN_INVALID_ARGUMENT and "plan" in message, other
    elsewhere = plan_of(chain, shape, "fused", CPU, planned_for=DEVICES["H200"])
    status, message = run(elsewhere)
    assert status == library.FGN_NOT_SUPPORTED and "compute capability 9.0" in message
    # A matrix of float32 that does not begin at a float.
    shifted = torch.zeros(3 * 8 * 4 + 1, dtype=torch.uint8)[1:]
    status, message = run(c_plan, given=shifted)
    assert status == library.FGN_INVALID_ARGUMENT and message.startswith("x is ")
    assert "multiple of 4" in message


@pytest.mark.parametrize("precision", PRECISIONS)
def test_hopper_splits_k_where_tiles_are_few(precision):
    """One tile in four of those that fill an H200: k is split, and a second launch ends the chain."""
    chain = replace(CHAINS["gemm_biasadd_hardtanh_mish_groupnorm"], groups=1)
    shape = Shape(512, 8192, 1024, 1)
    planned = plan(chain, shape, "hopper", precision, "H200")
    names = ("hopper", "few_rows_end")
    product, end = (launch for launch in planned.launches if launch.kernel.startswith(names))
    splits = product.bytes_written / (4 * shape.batch * shape.out_features)
    assert splits >= 2 and splits.is_integer() and not product.writes_y and end.writes_y
    assert end.words[0] == "sums" and planned.workspace_bytes >= product.bytes_written
    full = plan(replace(chain, groups=64), Shape(16384, 512, 2048, 64), "hopper", precision, "H200")
    assert full.product.writes_y


def test_the_default_is_near_the_fastest_version_that_was_recorded():
    """At the recorded problems: where the default takes torch's product, the recorded tables have no time."""
    times = records.read("h200").precisions
    times = times[(times.part == "chain") & times.subject.isin(VERSIONS)]
    sizes = ["chain", *Shape._fields, "precision"]
    slower = []
    for (name, *shape, precision), rows in times.groupby(sizes):
        took = rows.set_index("subject").median_ms
        shape = Shape(*shape)
        default = plan(replace(CHAINS[name], groups=shape.groups), shape, None, precision, "H200").version
        if default in took.index:
            slower.append(took[default] / took.min())
    assert len(slower) >= 40
    assert max(slower) <= 1.1
    assert np.exp(np.mean(np.log(slower))) <= 1.01


@pytest.mark.parametrize("card", DEVICES)
@pytest.mark.parametrize("precision", PRECISIONS)
def test_an_empty_batch_is_planned_for_every_card(card, precision):
    for groups in (1, 4, 64):
        chain = replace(CHAINS["gemm_groupnorm_hardtanh"], groups=groups)
        for version in (None, *VERSIONS):
            planned_for = DEVICES[card]
            planned = plan_of(chain, Shape(0, 40, 1024, groups), version, CPU, precision, planned_for)
            assert planned is None or planned.launch_count == 0


def test_a_residual_on_hopper_is_added_by_a_second_launch():
    chain = fgn.chains.Chain("residual", (), 4, (Pointwise("add_tensor", tensor="skip"),))
    planned = plan(chain, Shape(4096, 256, 512, 4), "hopper", "bf16", "H200")
    assert [launch.writes_y for launch in planned.launches] == [False, True]


def test_versions_of_the_ladder_run_the_kernels_that_they_show():
    """On every shape, however few its tiles: the kernel of a version is in the file that it names."""
    for shape in (Shape(3, 20, 48, 4), Shape(16, 64, 512, 4), Shape(300, 64, 2048, 32)):
        chain = replace(CHAINS["gemm_groupnorm_hardtanh"], groups=shape.groups)
        for row in fgn.native.library.version_table():
            try:
                planned = plan(chain, shape, row["name"], "ieee", "cpu")
            except ValueError:
                continue
            launch, file = planned.product, row["gemm"]
            if launch is None:  # the product is torch's
                launch, file = planned.launches[0], row["norm"]
            files = [find(file), *find(file).parent.glob("kernel_*.cu")]  # hopper has one for each precision
            assert any(f"{launch.kernel}(" in path.read_text() for path in files), row["name"]


def test_the_table_is_the_only_place_that_knows_the_rungs():
    """A rung's file defines it, and versions.cu has a line for it: from there it is planned and run."""
    text = find("versions.cu").read_text()
    lines = [line.split("(")[1].split("_rung")[0] for line in text.splitlines() if "    rung(" in line]
    assert lines == VERSIONS
    others = [path for path in find("versions.cu").parent.rglob("*.cu") if path.name not in ("versions.cu",)]
    for name in VERSIONS:
        where = [path.name for path in others if f"RUNG {name}_rung =" in path.read_text()]
        assert len(where) == 1, (name, where)
    api = find("api.cu").read_text()
    assert not any(f"{name}_rung" in api for name in VERSIONS)
