"""Processes of Python that tests start: each has loaded nothing before."""

import signal
import subprocess
import sys
import threading
import time

from cudasim.building.places import SOURCES

ROOT = SOURCES.parent

# What a quick machine takes for a million rounds of an empty loop.
_QUICK = 0.04


def patience(seconds: float) -> float:
    """After how many seconds a process of a test's is taken to have no end: so many on a quick machine, and
    more as this one is slower at the moment. An emulated processor is some twenty times slower."""
    begin = time.perf_counter()
    for _ in range(100_000):
        pass
    return seconds * max(1.0, 10 * (time.perf_counter() - begin) / _QUICK)


def output_of(script: str, *arguments) -> str:
    """What a script prints, which is to end well."""
    command = [sys.executable, "-c", script, *map(str, arguments)]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    return result.stdout.strip()


def said_when_interrupted(script: str) -> list[str]:
    """The lines that a script prints which gets Ctrl-C half a second after each line that says "runs"."""
    # A job in the background begins with the signal ignored.
    catching = f"import signal\nsignal.signal(signal.SIGINT, signal.default_int_handler)\n{script}"
    process = subprocess.Popen([sys.executable, "-c", catching], cwd=ROOT, stdout=subprocess.PIPE, text=True)
    limit = threading.Timer(patience(120), process.kill)
    limit.start()
    said = []
    for line in process.stdout:
        said.append(line.strip())
        if said[-1] == "runs":
            threading.Timer(0.5, process.send_signal, (signal.SIGINT,)).start()
    limit.cancel()
    assert process.wait() == 0
    return said
