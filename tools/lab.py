"""Opens the notebooks in JupyterLab, trusted, with fgn's settings: python tools/lab.py [JupyterLab's options]

A notebook that is not trusted shows neither its controls nor its players until it has run.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import nbformat
from nbformat.sign import NotebookNotary

ROOT = Path(__file__).resolve().parent.parent
CONFIGURATION = ROOT / "tools" / "jupyter_server_config.py"


def trust(folder: Path):
    """Signs the notebooks below a folder, as `jupyter trust` does. The files stay as they are."""
    notary = NotebookNotary()
    for path in sorted(folder.rglob("*.ipynb")):
        if ".ipynb_checkpoints" not in path.parts:
            notary.sign(nbformat.read(path, as_version=4))


def main():
    trust(ROOT / "notebooks")
    lab = [sys.executable, "-m", "jupyterlab", f"--config={CONFIGURATION}", *sys.argv[1:]]
    os.execv(sys.executable, lab)


if __name__ == "__main__":
    main()
