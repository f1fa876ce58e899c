"""How the lab's tool for public programs finds small arguments, and judges what a program says."""

import pytest
from program_options import named_arguments, options, reduced_by_name
from programs import _BAD, _GOOD


def test_options_that_a_source_reads(tmp_path):
    source = tmp_path / "main.cu"
    source.write_text(
        r"""
int main(int argc, char **argv) {
    while ((opt = getopt(argc, argv, "w:n:t:")) >= 0)
        switch (opt) {
        case 'w': n_warmup = atoi(optarg); break;
        case 'n': n = (size_t)atol(optarg); break;
        case 't': n_gpu_threads = atoi(optarg); break;
        }
    for (int i = 1; i < argc; i++)
        if (strcmp(argv[i], "--nsteps") == 0)
            steps = strtoll(argv[++i], NULL, 10);
        else if (!std::string("--width").compare(argv[i]) || !std::string("-x").compare(argv[i]))
            parseInt(argv[++i], &width);
        else if (strcmp(argv[i], "-s") == 0)
            is_small = strcmp(argv[++i], "small") == 0;
}
"""
    )
    told = options([source])
    assert set(told.repeats) == {"-w", "--nsteps"} and set(told.sizes) == {"-n", "-x"}
    few = ["-w", "2", "--nsteps", "2"]
    assert told.added_to(["-s", "large"]) == ["-s", "small", *few]
    assert told.added_to(["-n", "9"], 64) == ["-n", "9", *few, "-x", "64"]
    source.write_text(
        "struct option all[] = {{\"verify\", 0, NULL, 'v'}, {\"size\", 1, NULL, 's'}}; getopt(argv)"
    )
    assert options([source]).added_to(["-s", "9"]) == ["-s", "9", "--verify"]


def test_arguments_by_the_names_that_the_usage_has(tmp_path):
    source = tmp_path / "main.cu"
    source.write_text(
        'printf("Usage: %s <repeat> <input length> ", argv[0]);\nprintf("<block size>\\n");\nint i;\n'
    )
    names = named_arguments([source])
    assert names == ["repeat", "input length", "block size"]
    assert reduced_by_name(["1000", "33554432", "256"], names, 512) == [["1", "512", "256"]]
    assert reduced_by_name(["1000"], names, 512) == reduced_by_name([], [], 512) == []


@pytest.mark.parametrize(
    ("said", "is_good", "is_bad"),
    [
        ("PASS", True, False),
        ("All results match. Starting benchmarks.", True, False),
        ("Verification checksum: 9 (Valid)", True, False),
        ("Verification checksum: 9 (WARNING - INVALID CHECKSUM!)", False, True),
        ("Device assert failed as expected, CUDA error message is: assert", False, False),
        ("Test failed!", False, True),
        ("failed: 0", False, False),
        ("max error: 1e-3", False, False),
    ],
)
def test_what_a_program_says(said, is_good, is_bad):
    assert (bool(_GOOD.search(said)), bool(_BAD.search(said))) == (is_good, is_bad)
