"""The gallery: every planted bug is found and named, and nothing is found in the right kernels."""

import difflib
import subprocess
import sys

import pytest
import torch

import fgn
from cudasim.building.compilers import find_c_compiler, version_of
from cudasim.counting.faults import KINDS, KernelFault
from fgn.bugs import gallery
from fgn.bugs.gallery import BUGS, COMPARISON, DATA, KERNELS, RIGHT
from fgn.bugs.planted import FOLDER, broken_file
from fgn.native.places import ROOT

MOST_CHANGED_LINES = 16

# Data that only one chain has operators for, or whose kernels are told a stride.
ONLY_FOR = dict.fromkeys(("wide_limits", "far_rows"), "gemm_biasadd_hardtanh_mish_groupnorm")
RIGHT_CASES = [(chain, data) for data in DATA for chain in KERNELS if ONLY_FOR.get(data, chain) == chain]


@pytest.mark.parametrize("name", BUGS)
def test_each_bug_is_found_and_named(name):
    if name == "rows_not_aligned" and version_of(find_c_compiler())[0] == "clang":
        pytest.skip("clang takes float4 apart, and its parts are aligned (docs/limits.md)")
    bug = BUGS[name]
    finding = gallery.run(name)
    assert finding.found_by == bug.found_by, str(finding)
    if bug.found_by == COMPARISON:
        assert bug.shown in str(finding)
        return
    fault = finding.fault
    assert isinstance(fault, KernelFault) and fault.kind in KINDS.values()
    assert fault.kernel in KERNELS[bug.chain]
    if bug.found_by == "invalid launch":
        assert fault.thread is None
        return
    in_kernel = bug.file.endswith(".cu")
    text = bug.broken.text if in_kernel else (RIGHT / bug.right).with_suffix(".cu").read_text()
    lines = text.splitlines()
    at = [n for n, text in enumerate(lines, 1) if bug.shown in text] if bug.shown else [None]
    assert len(at) == 1 and at[0] in (fault.line, fault.other_line), str(fault)
    assert fault.file == (bug.file if in_kernel else f"{fault.kernel}.cu")
    assert fault.block is not None and fault.thread is not None
    if "race" in bug.found_by:
        assert (fault.other_block, fault.other_thread) != (fault.block, fault.thread)
        assert None not in (fault.other_block, fault.other_thread, fault.other_line)


@pytest.mark.parametrize("chain, data", RIGHT_CASES)
def test_nothing_is_found_in_the_right_kernels(chain, data):
    finding = gallery.run(None, chain, data)
    assert finding.found_by is None, str(finding)


# Each works until it meets the data of its row in the table.
HIDDEN = (
    "variance_from_squares",
    "index_overflows_32_bits",
    "rows_not_aligned",
    "shared_array_too_small",
    "block_too_large",
    "batch_in_grid_y",
    "mish_overflows",
    "hardtanh_drops_nan",
)


@pytest.mark.parametrize("name", HIDDEN)
def test_some_bugs_hide_from_ordinary_data(name):
    finding = gallery.run(name, data="ordinary")
    assert finding.found_by is None, str(finding)


def test_a_session_goes_on_after_every_fault():
    x, weight = torch.rand(8, 16), torch.rand(8, 16)
    for name in ("no_guard_for_columns", "barrier_in_branch", "shuffle_mask_too_small", "block_too_large"):
        assert gallery.run(name).fault is not None
        torch.testing.assert_close(fgn.functional.linear(x, weight, version="naive"), x @ weight.T)


def test_the_table_has_every_file():
    assert set(BUGS) == {path.stem for path in FOLDER.glob("*.diff")}
    assert all(bug.right in bug.files and bug.broken.name == bug.file for bug in BUGS.values())
    assert {path.stem for path in RIGHT.glob("*.cu")} == {name for pair in KERNELS.values() for name in pair}


@pytest.mark.parametrize("name", BUGS)
def test_a_bug_is_a_small_change_with_a_story(name):
    bug, changed = BUGS[name], []
    for right, broken in bug.files.items():
        lines = list(difflib.ndiff((RIGHT / right).read_text().splitlines(), broken.text.splitlines()))
        changed += [line for line in lines if line[0] in "+-" and line[2:].strip()]
        new = [number for number, line in enumerate((x for x in lines if x[0] in " +"), 1) if line[0] == "+"]
        assert broken.changed.issuperset(new)
    assert 1 <= len(changed) <= MOST_CHANGED_LINES
    story = gallery.story(name)
    assert all(f"\n\n{words}: " in story for words in ("Why people make it", "What one sees", "Found by"))
    shown = str(gallery.diff(name))
    assert all(line[2:] in shown for line in changed)
    assert story.splitlines()[0] not in str(gallery.source(name))


def test_a_diff_that_does_not_fit_is_refused():
    with pytest.raises(ValueError, match=r"x\.cu: expected 'c' in line 2, got 'b'"):
        broken_file("a\nb\n", "x.cu", "@@ -1,2 +1,1 @@\n a\n-c\n")


def test_unknown_names():
    with pytest.raises(ValueError, match=r"bug: expected one of statistics_across_batch, .*, got 'nothing'"):
        gallery.run("nothing")


# A read of shared memory before the write is a race if a write comes, and uninitialised if none does. Which
# of the two it is, the next barrier tells, or the end of the block.
UNWRITTEN = {
    "at the next barrier": (
        "int v = word[threadIdx.x ^ 1]; __syncthreads(); y[threadIdx.x] = v;",
        "uninitialised",
    ),
    "at the end": ("y[threadIdx.x] = word[threadIdx.x ^ 1];", "uninitialised"),
    "as an index": ("y[word[threadIdx.x ^ 1]] = 1.0f;", "uninitialised"),
    "in a loop": ("while (word[3] != 5 && threadIdx.x < 40) {}", "uninitialised"),
    "before the write": ("int v = word[40]; word[threadIdx.x] = v;", "race"),
    "before the write, in order": (
        "int v = word[1]; __syncthreads(); word[threadIdx.x] = v;",
        "uninitialised",
    ),
    "by atomics": (
        "atomicAdd((int *)&word[0], 1); __syncthreads(); y[threadIdx.x] = word[0];",
        "uninitialised",
    ),
}


@pytest.mark.parametrize("case", UNWRITTEN)
def test_reads_of_what_is_not_yet_written(case):
    text, kind = UNWRITTEN[case]
    unwritten = fgn.kernel(
        "__global__ void unwritten(float *y) {\n    volatile __shared__ int word[64];\n"
        f"    if (threadIdx.x > 64)\n        word[0] = y[0];\n    {text}\n}}\n"
    )
    with pytest.raises(KernelFault) as caught:
        fgn.check(lambda: unwritten[1, 64](torch.zeros(64)))
    assert (caught.value.kind, caught.value.line) == (kind, 5)
    assert caught.value.block == (0, 0, 0)


def test_command_line():
    command = [sys.executable, "-m", "fgn", "bugs", "unbiased_variance"]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    for words in (gallery.story("unbiased_variance"), str(gallery.diff("unbiased_variance")), "n − 1 = 23"):
        assert words in result.stdout
