"""Records what `profiles/` has of a GPU, all at one commit, and goes on where an earlier run ended:

    python tools/record.py                       # on the GPU that is here: profiles/h200, profiles/h100, ...
    python tools/record.py --seconds 600         # begins no part after ten minutes; run it again for the rest
    python tools/record.py profiles/mine --parts ladder "sweep 1"

Each part is a command of the project that writes its own files into the folder, and says in them when and of
which commit. What is done is in the folder's recorded.json: a part that was recorded by the present code on a
GPU of the same name is not recorded again. A part that fails is said at the end, and the others are made. The
last step writes the pages' tables and the pictures from the files.

No code may be uncommitted, since a record names the commit of the code that made it. In a copy of the project
without git, FGN_COMMIT names it.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import torch

from fgn.measure.software import when_recorded
from fgn.native.places import ROOT
from fgn.profiling.recording import PROFILES, folder_of

DONE = "recorded.json"
# A commit of nothing else leaves what is recorded as new as it was.
CODE = ("cuda_c", "fgn", "cudasim", "tools")
SEEDS = (1, 2, 3, 4, 5)


def parts(folder: Path, gpus: int, seconds: float) -> dict[str, list[str]]:
    """The command of each part, in the order in which they are recorded: what is read most comes first.
    seconds: how long each subject is timed."""
    processes = str(min(os.cpu_count() or 1, 16))
    tool, into = f"{ROOT}/tools/", str(folder)
    timed = ["-m", "fgn", "bench", "--seconds", str(seconds), "--record", into]
    steps = [f"{tool}training_steps.py", "--processes", processes, "--record", into, "--seeds"]
    found = {"ladder": [*timed, "--all"], "precisions": [*timed, "--precisions"]}
    for seed in SEEDS:
        of_seed = ["-m", "fgn", "bench", "--sweep", str(seed), "--compile-first", processes]
        found[f"sweep {seed}"] = [*of_seed, "--record", into]
    found["training"] = [*steps, *map(str, SEEDS[:3]), "--large"]
    found["launches"] = ["-m", "fgn", "profile", "--record", into]
    found["counters"] = [f"{tool}hardware_counters.py", into]
    found["counters of hopper"] = [f"{tool}cpp_counters.py", into, "--hopper"]
    found["counters of C++"] = [f"{tool}cpp_counters.py", into]
    if torch.cuda.get_device_capability() == (9, 0):
        found["Hopper ladder"] = [f"{tool}hopper_steps.py", "--folder", into, "--seconds", str(seconds)]
    for name, options in (("forward", []), ("step", ["--train"])) if gpus > 1 else ():
        run = ["-m", "torch.distributed.run", "--nproc-per-node", "2", f"{tool}parallel.py", *options]
        found[f"parallel {name}"] = [*run, "--record", f"{into}/parallel_{name}.csv"]
    return found


def _git(*arguments: str) -> subprocess.CompletedProcess:
    return subprocess.run(["git", "-C", str(ROOT), *arguments, "--", *CODE], capture_output=True, text=True)


def code_now() -> str | None:
    """The commit of the code that is here, or None where code is uncommitted or no commit is known."""
    if (ROOT / ".git").exists():
        changed = _git("status", "--porcelain")
        commit = _git("log", "-1", "--format=%H")
        return commit.stdout.strip() if not (changed.returncode or changed.stdout) else None
    return os.environ.get("FGN_COMMIT")


def done(folder: Path, device: str, commit: str) -> dict[str, dict]:
    """The parts that were recorded on such a GPU by the code of this commit."""
    file = folder / DONE
    before = json.loads(file.read_text()) if file.exists() else {}
    is_same = (before.get("device"), before.get("commit")) == (device, commit)
    return before["parts"] if is_same else {}


def record(folder: Path, chosen: dict[str, list[str]], device: str, commit: str, end: float) -> list[str]:
    """Runs the parts that are not done; returns the names of those that failed."""
    failed = []
    folder.mkdir(parents=True, exist_ok=True)
    environment = os.environ | {"FGN_COMMIT": commit}
    for name, command in chosen.items():
        before = done(folder, device, commit)
        if name in before:
            print(f"{name}: recorded on {before[name]['date'][:10]}", flush=True)
        elif time.monotonic() > end:
            print(f"{name}: left for the next run", flush=True)
        else:
            print(f"{name}: {' '.join(command)}", flush=True)
            begin = time.monotonic()
            if subprocess.run([sys.executable, *command], cwd=ROOT, env=environment).returncode:
                failed.append(name)
                continue
            when = when_recorded() | {"commit": commit, "device": device}
            one = {"date": when["date"], "seconds": round(time.monotonic() - begin, 1)}
            text = json.dumps(when | {"parts": before | {name: one}}, indent=2)
            (folder / DONE).write_text(text + "\n")
    return failed


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument(
        "folder", type=Path, nargs="?", help="by default the folder of profiles/ for this GPU"
    )
    parser.add_argument("--parts", nargs="+", metavar="PART", help="some of them; an unknown one names all")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="begin no part after so many")
    parser.add_argument(
        "--each", type=float, default=1.0, help="seconds for each time (default: %(default)s)"
    )
    parser.add_argument(
        "--no-pages", action="store_true", help="leave the pages' tables and pictures as they are"
    )
    arguments = parser.parse_args()
    if not torch.cuda.is_available():
        parser.exit(2, "expected a GPU\n")
    commit = code_now()
    if commit is None:
        parser.exit(
            2, f"expected that {', '.join(CODE)} are as committed, so that a record can name the commit\n"
        )
    device = torch.cuda.get_device_name()
    folder = (arguments.folder or PROFILES / folder_of(device)).resolve()
    known = parts(folder, torch.cuda.device_count(), arguments.each)
    unknown = [name for name in arguments.parts or () if name not in known]
    if unknown:
        parser.exit(2, f"--parts: expected some of {', '.join(known)}, got {unknown[0]}\n")
    if shutil.which("ncu") is None:
        print("ncu is not here: launches and counters will fail", flush=True)
    chosen = {name: known[name] for name in arguments.parts or known}
    failed = record(folder, chosen, device, commit, time.monotonic() + arguments.seconds)
    if not arguments.no_pages and (folder / "benchmark.csv").exists():
        pages = [[f"{ROOT}/tools/readme.py"]]
        pages.append(["-m", "fgn", "plot", "--gpu", folder.name, "--to", str(folder)])
        failed += [
            " ".join(page) for page in pages if subprocess.run([sys.executable, *page], cwd=ROOT).returncode
        ]
    if failed:
        sys.exit(f"failed: {', '.join(failed)}")


if __name__ == "__main__":
    main()
