"""Opens the notebooks in JupyterLab, trusted, with fgn's settings: python tools/lab.py [JupyterLab's options]

A notebook that is not trusted shows neither its controls nor its players until it has run. What the notebooks
run on is built while their reader reads; a cell that comes too early waits for it.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import nbformat
from nbformat.sign import NotebookNotary

ROOT = Path(__file__).resolve().parent.parent
CONFIGURATION = ROOT / "tools" / "jupyter_server_config.py"


# Kernels of a reader's own run on the simulator that counts, so it is built first; then checks, counts and
# the player of fgn's kernels. What is missing, the first cell that needs it says.
BUILD = """
from fgn.__main__ import main
from fgn.native.library import COUNTED_SIMULATOR
for need in COUNTED_SIMULATOR.needs:
    need.build()
COUNTED_SIMULATOR.build()
main()
"""


def trust(folder: Path):
    """Signs the notebooks below a folder, as `jupyter trust` does. The files stay as they are."""
    notary = NotebookNotary()
    for path in sorted(folder.rglob("*.ipynb")):
        if ".ipynb_checkpoints" not in path.parts:
            notary.sign(nbformat.read(path, as_version=4))


def main():
    trust(ROOT / "notebooks")
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    subprocess.Popen([sys.executable, "-c", BUILD, "build"], cwd=ROOT, start_new_session=True, **quiet)
    lab = [sys.executable, "-m", "jupyterlab", f"--config={CONFIGURATION}", *sys.argv[1:]]
    # There Jupyter finds labconfig/, whose settings hold until a reader changes them: a question about news
    # would cover what a cell shows.
    folders = [str(CONFIGURATION.parent), os.environ.get("JUPYTER_CONFIG_PATH")]
    os.execve(
        sys.executable, lab, os.environ | {"JUPYTER_CONFIG_PATH": os.pathsep.join(filter(None, folders))}
    )


if __name__ == "__main__":
    main()
