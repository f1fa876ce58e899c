"""tools/record.py: each part once for the same code and GPU; one that fails among others; the time it has."""

import argparse
import json
import math
import os

import record

from fgn.commands import describe


def parts(folder, *names):
    """Parts that write down that they ran, and by which commit. One called "bad" ends with an error."""
    text = "import os, sys; print(sys.argv[1], os.environ['FGN_COMMIT'], file=open(sys.argv[2], 'a'))"
    ended = "; sys.exit(sys.argv[1] == 'bad')"
    return {name: ["-c", text + ended, name, str(folder / "ran")] for name in names}


def ran(folder):
    return [line.split() for line in (folder / "ran").read_text().splitlines()]


def test_a_part_is_recorded_once_for_a_gpu_and_the_code(tmp_path):
    three = parts(tmp_path, "ladder", "bad", "training")
    assert record.record(tmp_path, three, "GPU 1", "a" * 40, math.inf) == ["bad"]
    assert ran(tmp_path) == [[name, "a" * 40] for name in three]
    said = json.loads((tmp_path / record.DONE).read_text())
    assert set(said["parts"]) == {"ladder", "training"} and said["date"].startswith("20")
    assert (said["device"], said["commit"]) == ("GPU 1", "a" * 40)  # as every record says them
    assert record.record(tmp_path, three, "GPU 1", "a" * 40, math.inf) == ["bad"]  # which alone runs again
    assert ran(tmp_path)[3:] == [["bad", "a" * 40]]
    assert record.record(tmp_path, parts(tmp_path, "ladder"), "GPU 2", "a" * 40, math.inf) == []
    assert record.record(tmp_path, parts(tmp_path, "ladder"), "GPU 2", "b" * 40, math.inf) == []
    assert ran(tmp_path)[4:] == [["ladder", "a" * 40], ["ladder", "b" * 40]]


def test_no_part_begins_after_the_time(tmp_path, capsys):
    assert record.record(tmp_path, parts(tmp_path, "ladder"), "GPU 1", "a" * 40, -math.inf) == []
    assert "ladder: left for the next run" in capsys.readouterr().out
    assert not (tmp_path / "ran").exists() and not (tmp_path / record.DONE).exists()


def test_the_parts_are_commands_of_the_project(tmp_path, monkeypatch):
    """Each begins with a file that is there or a module that can run, and names the folder."""
    monkeypatch.setattr(record.torch.cuda, "get_device_capability", lambda: (9, 0))
    found = record.parts(tmp_path, 2, 0.5)
    assert {
        "ladder",
        "precisions",
        "sweep 1",
        "training",
        "launches",
        "Hopper ladder",
        "parallel step",
    } <= set(found)
    for command in found.values():
        assert any(str(tmp_path) in argument for argument in command)
        assert command[0] == "-m" or os.path.isfile(command[0])
    assert "Hopper ladder" in found
    monkeypatch.setattr(record.torch.cuda, "get_device_capability", lambda: (8, 0))
    assert "Hopper ladder" not in record.parts(tmp_path, 1, 0.5)


def test_the_options_of_the_parts_are_known(tmp_path, monkeypatch):
    monkeypatch.setattr(record.torch.cuda, "get_device_capability", lambda: (9, 0))
    parser = argparse.ArgumentParser(exit_on_error=False)
    commands = parser.add_subparsers()
    describe(lambda function: commands.add_parser(function.__name__))
    of_fgn = [
        command[2:] for command in record.parts(tmp_path, 1, 0.5).values() if command[:2] == ["-m", "fgn"]
    ]
    assert len(of_fgn) >= 8
    for command in of_fgn:
        assert parser.parse_args(command).record == tmp_path
