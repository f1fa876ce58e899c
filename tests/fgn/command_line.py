"""The command line as tests call it: `python -m fgn` in a process of its own, or its main() in this one."""

import subprocess
import sys

import pytest

from fgn.__main__ import main
from fgn.native.library import COUNTED_SIMULATOR
from fgn.native.places import ROOT


def run(*arguments):
    return subprocess.run([sys.executable, "-m", "fgn", *arguments], cwd=ROOT, capture_output=True, text=True)


def printed(arguments, monkeypatch, capsys) -> str:
    """What a command prints that succeeds, run in this process."""
    capsys.readouterr()
    monkeypatch.setattr(sys, "argv", ["fgn", *arguments])
    main()
    return capsys.readouterr().out


def refusal(arguments, monkeypatch, capsys) -> str:
    """The one line that a refused command says. A process of its own would say the same, later."""
    COUNTED_SIMULATOR.build()
    capsys.readouterr()  # what was said of building it
    monkeypatch.setattr(sys, "argv", ["fgn", *arguments])
    with pytest.raises(SystemExit) as caught:
        main()
    code = caught.value.code
    # Python shows an exit code that is a string, and then exits with 1.
    said = capsys.readouterr().err + (f"{code}\n" if isinstance(code, str) else "")
    assert code != 0 and said.count("\n") == 1 and said.endswith("\n")
    return said.strip()
