"""How long five kernels take on the simulator, plain and checked, beside the same loops in C at -O3, and
what a barrier costs.

    python lab/against_c.py                                     prints a table
    python lab/against_c.py --record lab/records/against_c.csv  adds its rows there

Times are those of the processor, the shortest of a few, on one thread. A checked launch takes hundreds of
times as long, so it has fewer elements, and is compared for each element. To measure another version of the
simulator, name its clone in $PYTHONPATH, and its commit by --commit.
"""

from __future__ import annotations

import argparse
import csv
import os
import subprocess
import sys
import tempfile
from datetime import UTC, datetime
from pathlib import Path

from recorded import measured_now

_HERE = Path(__file__).parent
# The width of a square of floats, plain and checked (the reduction sums all of its elements), and the work in
# it, in what a time is divided by.
_MEASURES = {
    "reduction": (2048, 256, lambda n: n**2),
    "saxpy": (2048, 512, lambda n: n**2),
    "three": (2048, 512, lambda n: n**2),
    "stencil": (2048, 512, lambda n: n**2),
    "product": (256, 64, lambda n: n**3),
    "barriers": (16384, 2048, lambda n: 100 * n),  # threads
}
_COLUMNS = ("measure", "how", "nanoseconds", "times_c", "date", "commit")


def _seconds(folder: str, *command: str) -> float:
    environment = {**os.environ, "CUDASIM_THREADS": "1"}
    ran = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=True)
    return float(ran.stdout.split()[-1])


def rows(times: int, commit: str) -> list[tuple]:
    """Nanoseconds for each element, multiply-add, or thread and barrier."""
    date, found = datetime.now(UTC).isoformat(timespec="seconds"), []
    with tempfile.TemporaryDirectory() as folder:
        in_c, source = f"{folder}/in_c", str(_HERE.resolve() / "against_c.cu")
        compiler = os.environ.get("CC", "cc")
        subprocess.run([compiler, "-O3", "-march=native", str(_HERE / "against_c.c"), "-o", in_c], check=True)
        for name, (width, checked_width, work) in _MEASURES.items():
            c = (
                0
                if name == "barriers"
                else _seconds(folder, in_c, name, str(width), str(20 * times)) / work(width)
            )
            for how, size, often in (("run", width, times), ("check", checked_width, 3)):
                cudasim = (sys.executable, "-m", "cudasim", how, source, "--")
                each = _seconds(folder, *cudasim, name, str(size), str(often)) / work(size)
                ratio = f"{each / c:.4g}" if c else ""
                found.append((name, how, f"{each * 1e9:.4g}", ratio, date, commit))
    return found


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--times", type=int, default=10)
    parser.add_argument("--record", type=Path)
    parser.add_argument("--commit", default="")
    given = parser.parse_args()
    made = rows(given.times, given.commit or measured_now()[1])
    for name, how, nanoseconds, ratio, *_ in made:
        print(f"{name:10} {how:6} {nanoseconds:>8} ns{f', {ratio} times C' if ratio else ''}")
    if given.record:
        is_new = not given.record.exists()
        with given.record.open("a", newline="") as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerows([_COLUMNS, *made] if is_new else made)


if __name__ == "__main__":
    main()
