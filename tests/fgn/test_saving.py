"""Running a notebook in JupyterLab and saving it changes nothing in git unless its cells have changed."""

import base64
import copy
import io
from types import SimpleNamespace

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output
from PIL import Image

import notebooks as saving
from fgn.native.places import ROOT
from fgn.plot.style import with_palette


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


def test_a_run_that_shows_something_else_is_no_change_and_an_error_is(folder):
    saved = nbformat.read(folder / "a.ipynb", as_version=4)
    again = run_again(saved)
    again.cells[2].outputs = [new_output("stream", text="another version's")]
    assert save(folder, copy.deepcopy(again)) == saved
    again.cells[2].outputs = [new_output("error", ename="ValueError", evalue="", traceback=[])]
    assert save(folder, again).cells[2].outputs[0].output_type == "error"


def test_a_puzzle_that_nobody_has_changed_is_saved_as_it_was(folder):
    (folder / "puzzles").mkdir()
    puzzle = saved_notebook()
    puzzle.cells[2].outputs, puzzle.cells[2].execution_count = [], None  # an attempt's
    nbformat.write(puzzle, folder / "puzzles" / "b.ipynb")
    saved = nbformat.read(folder / "puzzles" / "b.ipynb", as_version=4)
    ran = copy.deepcopy(saved)
    ran.cells[2].outputs, ran.cells[2].execution_count = [new_output("stream", text="✗ Map: …")], 9
    assert save(folder, copy.deepcopy(ran), "puzzles/b.ipynb") == saved
    ran.cells[2].source = "puzzle.check()  # mine"
    assert save(folder, ran, "puzzles/b.ipynb").cells[2].outputs[0].text == "✗ Map: …"


def test_where_code_has_changed_all_outputs_are_saved(folder):
    ran = run_again(nbformat.read(folder / "a.ipynb", as_version=4))
    ran.cells[2].source = "2 + 2"
    content = save(folder, ran)
    assert content.cells[1].outputs[0].data["text/plain"] == "9.75 ms"
    assert [output.text for output in content.cells[2].outputs] == ["2<f>"]
    assert content.metadata.kernelspec == {"name": "python3"}


def png_of(mode: str, colour) -> bytes:
    data = io.BytesIO()
    picture = Image.effect_noise((64, 64), 20).convert(mode)
    picture.paste(colour, (0, 0, 32, 32))
    picture.save(data, "png")
    return data.getvalue()


def test_a_picture_is_saved_with_a_palette_wherever_it_is_shown(folder):
    png = base64.b64encode(png_of("RGBA", (200, 30, 60, 255))).decode()
    html = f'<p>guess</p><img src="data:image/png;base64,{png}">'
    ran = run_again(nbformat.read(folder / "a.ipynb", as_version=4))
    ran.cells[2].source = "2 + 2"
    ran.cells[2].outputs = [new_output("display_data", {"image/png": png + "\n", "text/html": html})]
    data = save(folder, ran).cells[2].outputs[0].data
    small = base64.b64decode(data["image/png"])
    shown = Image.open(io.BytesIO(small))
    assert len(small) < len(png) * 3 / 4 / 2 and shown.mode == "P"
    assert shown.convert("RGB").getpixel((5, 5)) == (200, 30, 60)
    assert data["text/html"] == html.replace(png, data["image/png"])
    again = data["image/png"]
    assert saving.smaller(again) == again


def test_a_picture_that_is_transparent_stays_as_it_is():
    png = png_of("RGBA", (200, 30, 60, 0))
    assert with_palette(png) == png


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
