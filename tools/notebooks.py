"""Runs notebooks, and saves them such that a run changes nothing in git where nothing has changed.

python tools/notebooks.py                      runs all of them into build/notebooks/
python tools/notebooks.py --save [NAME ...]    runs them and saves their outputs in notebooks/

What is saved has no times of execution, no state of widgets, no progress bars and no addresses of objects;
cells count from 1, a cell keeps its identifier, and the notebook its kernel and its language as they were
saved. Pictures have a palette, which takes a third of the bytes. A cell that has no slide type gets one, so
that `jupyter nbconvert --to slides` makes a talk of it; a teacher's own is kept. Cells with the tag
`measured` show times of this machine, which are never twice the same: as long as the code of their notebook
is what it was, they keep the outputs that were saved before. Nobody is there to be asked, so guesses are the
recorded ones; cells that show them have the tag `asked`.

JupyterLab saves the same way when it is started by `make lab` (tools/jupyter_server_config.py), the puzzles
too: running a notebook and saving it changes nothing in git unless its cells have changed, or one ends with
an error. Then all that it shows is saved.
"""

from __future__ import annotations

import argparse
import base64
import functools
import os
import re
import sys
from pathlib import Path

import nbformat
from nbclient import NotebookClient

ROOT = Path(__file__).resolve().parent.parent
FOLDER, BUILD = ROOT / "notebooks", ROOT / "build" / "notebooks"
SECONDS = 600

ADDRESS = re.compile(r" at 0x[0-9a-f]+")
PICTURE = re.compile(r"(?<=data:image/png;base64,)[A-Za-z0-9+/=]+")
HEADING = re.compile(r"^##? ", re.MULTILINE)
UNSAVED = ("execution", "widgets")


MEASURED, ASKED = "measured", "asked"


def has_tag(cell, *tags: str) -> bool:
    return any(tag in cell.metadata.get("tags", ()) for tag in tags)


def code_of(notebook) -> list[str]:
    return [cell.source for cell in notebook.cells if cell.cell_type == "code"]


def is_progress(output) -> bool:
    """Whether an output is a progress bar: text on stderr that overwrites its line, or a widget."""
    if output.output_type == "stream":
        return output.name == "stderr" and "\r" in output.text
    return "application/vnd.jupyter.widget-view+json" in output.get("data", {})


def joined(outputs: list) -> list:
    """The outputs, with pieces of one stream that follow each other as one: in how many pieces a text comes
    depends on the time that it took."""
    result = []
    for output in outputs:
        last = result[-1] if result else None
        if last and output.output_type == last.output_type == "stream" and output.name == last.name:
            last.text += output.text
        else:
            result.append(output)
    return result


def add_slide_types(notebook):
    """Gives each cell without a slide type one: a heading begins a slide, the first code cell, which only
    imports, is left out, and each code cell closes a slide of its own with the text above it."""
    is_closed, has_code = True, False
    for cell in notebook.cells:
        is_code = cell.cell_type == "code"
        if not is_code and HEADING.search(cell.source):
            kind = "slide"
        elif is_code and not has_code:
            kind = "skip"
        else:
            kind = "subslide" if is_closed else "-"
        if kind != "skip":
            is_closed = is_code
        has_code |= is_code
        cell.metadata.setdefault("slideshow", {}).setdefault("slide_type", kind)


@functools.lru_cache(maxsize=256)
def smaller(picture: str) -> str:
    """A PNG picture in base64 with a palette, in one line."""
    from fgn.plot.style import with_palette

    return base64.b64encode(with_palette(base64.b64decode(picture))).decode()


def clean(notebook):
    """Removes what differs between two runs that give the same results."""
    add_slide_types(notebook)
    notebook.metadata.pop("widgets", None)
    count = 0
    for cell in notebook.cells:
        for name in UNSAVED:
            cell.metadata.pop(name, None)
        if cell.cell_type != "code":
            continue
        count += 1
        cell.execution_count = count
        kept = joined([output for output in cell.outputs if not is_progress(output)])
        for output in kept:
            if output.output_type == "execute_result":
                output.execution_count = count
            output.get("metadata", {}).clear()
            if output.output_type == "stream":
                output.text = ADDRESS.sub("", output.text)
            for kind, value in output.get("data", {}).items():
                if kind == "image/png":
                    output.data[kind] = smaller(value)
                elif kind.startswith("text/") and isinstance(value, str):
                    output.data[kind] = PICTURE.sub(lambda found: smaller(found[0]), ADDRESS.sub("", value))
        cell.outputs = kept


def run(path: Path):
    """The notebook with the outputs of a run; CellExecutionError where a cell fails."""
    notebook = nbformat.read(path, as_version=4)
    metadata = notebook.metadata.copy()
    client = NotebookClient(
        notebook,
        timeout=SECONDS,
        record_timing=False,
        resources={"metadata": {"path": str(FOLDER)}},
        # Each kernel would warn that this process talks to it without encryption, on this machine alone.
        extra_arguments=["--log-level=ERROR"],
    )
    client.execute()
    notebook.metadata = metadata
    clean(notebook)
    return notebook


def keep_saved(notebook, saved, *tags: str):
    """Gives the cells with one of these tags the outputs that they had, if all code is what it was."""
    if code_of(notebook) != code_of(saved):
        return
    for new, old in zip(notebook.cells, saved.cells, strict=True):
        if has_tag(new, *tags) and old.get("outputs"):
            new.outputs = old.outputs


def keep_all_saved(notebook, saved):
    """Gives all cells the outputs that they had: versions of libraries and processors differ, and a reader
    who has changed nothing has nothing to save. An error is something: then all outputs are new."""
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", ())]
    if any(output.output_type == "error" for output in outputs):
        return
    for new, old in zip(notebook.cells, saved.cells, strict=True):
        if new.cell_type == "code":
            new.outputs, new.execution_count = old.outputs, old.execution_count


def before_saving(model, path: str, contents_manager, **_):
    """A hook of Jupyter's: a notebook of this folder, or of the puzzles, is saved as `--save` would save it.
    Where its code is what it was, so is the file."""
    target = Path(contents_manager.get_os_path(path)) if hasattr(contents_manager, "get_os_path") else None
    if model["type"] != "notebook" or target is None or not target.is_file():
        return
    if target.parent not in (FOLDER, FOLDER / "puzzles"):
        return
    notebook = nbformat.from_dict(model["content"])
    saved = nbformat.read(target, as_version=4)
    clean(notebook)
    if code_of(notebook) == code_of(saved) and len(notebook.cells) == len(saved.cells):
        keep_all_saved(notebook, saved)
    for name in ("kernelspec", "language_info"):
        if name in saved.metadata:
            notebook.metadata[name] = saved.metadata[name]
    model["content"] = notebook


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("names", nargs="*", help="beginnings of file names; by default all")
    parser.add_argument("--save", action="store_true", help="into notebooks/, not into build/notebooks/")
    arguments = parser.parse_args()
    os.environ["FGN_GUESSES"] = "recorded"
    for path in sorted(FOLDER.glob("*.ipynb")):
        if arguments.names and not path.name.startswith(tuple(arguments.names)):
            continue
        print(path.name, file=sys.stderr)
        notebook = run(path)
        target = path if arguments.save else BUILD / path.name
        if arguments.save:
            saved = nbformat.read(path, as_version=4)
            clean(saved)
            keep_saved(notebook, saved, MEASURED)
        target.parent.mkdir(parents=True, exist_ok=True)
        nbformat.write(notebook, target)


if __name__ == "__main__":
    main()
