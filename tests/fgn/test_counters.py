"""The counted simulator: what ncu counts on an H200, no false alarms, and bad accesses that are stopped."""

import random

import pytest
import torch
from random_launches import random_call, simulated_versions

import fgn
from cudasim.counting import counted, counts
from fgn.chains import CHAINS, Shape, problem, random_inputs
from fgn.functional import PRODUCT, run_chain
from fgn.native.library import COUNTED_SIMULATOR, version_names
from fgn.structs import chain_struct, pointer, raise_for

REQUESTS = "l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum"
SECTORS = "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum"

# x W^T at 64 x 512 -> 512, without a bias: requests and sectors of global loads, by ncu on an H200.
BY_NCU = {"naive": (1_048_576, 17_301_504), "shared_tile": (32_768, 131_072)}

MANY_TILES = Shape(1100, 12, 1104, 138)
SHAPES = (Shape(5, 33, 70, 7), Shape(40, 300, 144, 3), MANY_TILES, Shape(3, 8, 4096, 2))

# Only blocks of these go on to another tile, or to other rows. Of all other versions a tenth of the rows is
# launches of the same kernels, with as many kinds of blocks.
WITH_MANY_TILES = ("hopper", "library")


@pytest.mark.parametrize("version", BY_NCU)
def test_global_loads_are_those_that_ncu_counts(version):
    x, weight = torch.rand(64, 512), torch.rand(512, 512)
    (launch,) = counts.count(lambda: fgn.functional.linear(x, weight, None, version)).to_dict("records")
    assert (launch[REQUESTS], launch[SECTORS]) == BY_NCU[version]


@pytest.mark.parametrize("version", version_names())
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_no_false_alarms(version, shape):
    if shape == MANY_TILES and version not in WITH_MANY_TILES:
        shape = shape._replace(batch=110)
    chain, shape = problem("gemm_biasadd_hardtanh_mish_groupnorm", shape)
    x, parameters = random_inputs(chain, shape)
    if not fgn.versions(chain, shape, "cpu").set_index("name").supported[version]:
        pytest.skip(f"{version} does not run {shape}")
    expected = run_chain(chain, x, parameters, version)
    results = []
    counted.check(lambda: results.append(run_chain(chain, x, parameters, version)))
    # another compilation may contract other products and sums
    torch.testing.assert_close(results[0], expected)


def test_a_read_out_of_bounds_is_stopped_and_told():
    chain, shape = problem(CHAINS["gemm_groupnorm_hardtanh"], Shape(4, 32, 32, 2))
    x, parameters = random_inputs(chain, shape)
    library = COUNTED_SIMULATOR.load()
    y, weight = torch.empty(4, 32), parameters["weight"]

    def beyond():
        # The kernel is told of one row of x more than it is allowed to read.
        counted.allow(x=x[:3], weight=weight, y=y)
        product = chain_struct(library, PRODUCT, Shape(4, 32, 32, 0), "ieee", {"weight": weight})
        nowhere = fgn.native.library.ffi().NULL
        status = library.fgn_forward(0, product, pointer(x), pointer(y), nowhere, 0, nowhere)
        raise_for(library, status)

    with pytest.raises(fgn.KernelFault) as caught:
        counted.check(beyond)
    fault = caught.value
    assert (fault.kind, fault.kernel, fault.index) == ("out of bounds", "naive_gemm_kernel", 3 * 32)
    assert fault.file.endswith("gemm_1_naive.cu") and fault.line is not None
    assert fgn.functional.linear(x, weight, None, "naive").isfinite().all()


@pytest.mark.parametrize("version", simulated_versions())
def test_random_calls_raise_no_alarm(version):
    generator = random.Random(version)
    for _ in range(10):
        random_call(generator, version)


@pytest.mark.parametrize("version", ["naive", "shared_tile", "fused"])
def test_warps_add_up_to_their_launch(version):
    chain, shape = problem("gemm_biasadd_hardtanh_mish_groupnorm", Shape(70, 40, 96, 6))
    x, parameters = random_inputs(chain, shape)

    def call():
        return run_chain(chain, x, parameters, version)

    launches, warps = counts.count(call), counts.count_warps(call)
    metrics = [name for name in warps if ".sum" in name]
    assert set(metrics) <= set(launches.columns)
    assert not warps.duplicated(["launch", "block", "warp"]).any()
    for number, launch in launches.iterrows():
        own = warps[warps.launch == number]
        blocks = launch.grid[0] * launch.grid[1] * launch.grid[2]
        assert own.block.max() < blocks and own.warp.max() < -(-launch.block[0] * launch.block[1] // 32)
        assert (own[metrics].sum() == launch[metrics]).all()
    # the first launch gives every warp of the first block something to do
    assert (warps[(warps.launch == 0) & (warps.block == 0)][metrics].sum(axis=1) > 0).all()
    assert counts.count_lines(call).shape[0] > 0 and len(counts._run(call)[0].warps) == 0
