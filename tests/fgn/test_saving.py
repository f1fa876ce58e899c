"""Running a notebook in JupyterLab and saving it changes nothing in git unless its cells have changed."""

import copy
from types import SimpleNamespace

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output

import notebooks as saving
from fgn.native.places import ROOT


def saved_notebook():
    text = new_output("execute_result", {"text/plain": "1.25 ms"}, execution_count=1)
    measured = new_code_cell("time()", execution_count=1, outputs=[text], metadata={"tags": ["measured"]})
    plain = new_code_cell("1 + 1", execution_count=2, outputs=[new_output("stream", text="2")])
    notebook = new_notebook(cells=[new_markdown_cell("# Title"), measured, plain])
    notebook.metadata = nbformat.from_dict(
        {"kernelspec": {"name": "python3"}, "language_info": {"version": "3.11"}}
    )
    saving.add_slide_types(notebook)
    return notebook


def run_again(notebook):
    """As JupyterLab has it after another run: other times, other counts, widgets, a progress bar."""
    ran = copy.deepcopy(notebook)
    ran.metadata.kernelspec = nbformat.from_dict({"name": "venv", "display_name": "mine"})
    ran.metadata.widgets = {"state": {}}
    for count, cell in enumerate(ran.cells[1:], 7):
        cell.execution_count = count
        cell.metadata["execution"] = {"iopub.status.busy": "2030-01-01"}
    ran.cells[1].outputs[0].data["text/plain"] = "9.75 ms"
    ran.cells[1].outputs[0].execution_count = 7
    ran.cells[2].outputs.insert(0, new_output("stream", name="stderr", text="\r10 %\r20 %"))
    ran.cells[2].outputs.append(new_output("stream", text="<f at 0x7f00aa>"))
    return ran


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setattr(saving, "FOLDER", tmp_path)
    nbformat.write(saved_notebook(), tmp_path / "a.ipynb")
    return tmp_path


def save(folder, notebook, name="a.ipynb"):
    model = {"type": "notebook", "content": notebook}
    saving.before_saving(model, name, SimpleNamespace(get_os_path=lambda path: str(folder / path)))
    return model["content"]


def test_a_second_run_is_saved_as_the_first(folder):
    saved = nbformat.read(folder / "a.ipynb", as_version=4)
    again = run_again(saved)
    del again.cells[2].outputs[-1]
    assert save(folder, again) == saved


def test_where_code_has_changed_all_outputs_are_saved(folder):
    ran = run_again(nbformat.read(folder / "a.ipynb", as_version=4))
    ran.cells[2].source = "2 + 2"
    content = save(folder, ran)
    assert content.cells[1].outputs[0].data["text/plain"] == "9.75 ms"
    assert [output.text for output in content.cells[2].outputs] == ["2<f>"]
    assert content.metadata.kernelspec == {"name": "python3"}


def test_other_notebooks_are_saved_as_they_are(folder):
    ran = run_again(nbformat.read(folder / "a.ipynb", as_version=4))
    assert save(folder, ran, "mine.ipynb") is ran


def test_a_cell_closes_a_slide_with_the_text_above_it_and_a_teachers_own_slides_stay():
    cells = [
        new_markdown_cell("# Title"),
        new_code_cell("import fgn"),
        new_markdown_cell("Said before.\n\n## Heading"),
        new_code_cell("1 + 1"),
        new_code_cell("2 + 2"),
        new_markdown_cell("Why?"),
        new_markdown_cell("Because.", metadata={"slideshow": {"slide_type": "fragment"}}),
        new_code_cell("3 + 3"),
    ]
    notebook = new_notebook(cells=cells)
    saving.clean(notebook)
    kinds = [cell.metadata["slideshow"]["slide_type"] for cell in notebook.cells]
    assert kinds == ["slide", "skip", "slide", "-", "subslide", "subslide", "fragment", "-"]


@pytest.mark.parametrize("path", sorted((ROOT / "notebooks").glob("*.ipynb")), ids=lambda path: path.stem)
def test_what_is_committed_is_clean(path):
    notebook = nbformat.read(path, as_version=4)
    cleaned = copy.deepcopy(notebook)
    saving.clean(cleaned)
    assert cleaned == notebook
    assert notebook.metadata.kernelspec.name == "python3"
    assert str(ROOT) not in path.read_text()
