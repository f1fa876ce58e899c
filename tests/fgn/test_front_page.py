"""What a stranger sees first: the picture and the race of README.md are what the kernels do, and a first
answer waits for no slow import."""

import subprocess
import sys
import xml.etree.ElementTree as xml

import front_page
import pytest

from fgn.native.places import ROOT

pytestmark = pytest.mark.simulator


def above_the_fold():
    return front_page.README.read_text().partition("## What else is here")[0]


def test_the_race_is_told_as_it_was():
    shown = above_the_fold().partition(front_page.BEGIN)[2].partition(front_page.END)[0]
    assert shown.strip() == front_page.race(), "run: python tools/front_page.py"


def test_the_picture_is_that_of_a_real_run():
    picture = front_page.picture()
    assert front_page.PICTURE.read_text().strip() == picture, "run: python tools/front_page.py"
    assert len(picture) < 400_000 and "512 sectors, in 16 requests" in picture and "64 sectors" in picture
    steps = [group for group in xml.fromstring(picture).iter() if group.tag.endswith("animate")]
    assert len(steps) == 16  # loads and stores


def test_the_first_lines_are_for_strangers():
    words = above_the_fold().lower()
    assert not {"commit", "seed", "geometric mean", "autotun"} & {word for word in words.split()}
    assert words.count("](docs/coalescing.svg)") == 1 and "notebooks/puzzles/01_threads.ipynb" in words


WRONG = """
import fgn, sys
from fgn.puzzles.catalogue import TASKS
from fgn.puzzles.judge import here, judge
twice = fgn.kernel("__global__ void twice(float *y, const float *x) { y[threadIdx.x] = 3 * x[threadIdx.x]; }")
verdict = judge(TASKS["map"], here(TASKS["map"], twice), lambda sizes: None)
assert verdict.kind == "wrong numbers", verdict
sys.exit(not {"sympy", "matplotlib"}.isdisjoint(sys.modules))
"""


def test_a_wrong_answer_comes_without_slow_imports():
    # torch.unravel_index() imports sympy, which takes longer than everything else of a check.
    assert subprocess.run([sys.executable, "-c", WRONG], cwd=ROOT).returncode == 0
