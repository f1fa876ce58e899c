"""What a reader does, in JupyterLab and a browser: opens a notebook, runs all cells, drags the sliders, makes
a guess, solves a puzzle, stops a kernel that never ends. Needs chromium (apt-get install chromium).

`make test` runs the first notebook, a puzzle and the stop button; `make browser` runs all notebooks of the
course as well, which takes minutes. What a notebook shows is right or wrong at any speed, and wrong fails. A
server, a browser or a page that is not ready in time is tried again with a new one. If none of them is ready,
`make test` skips the test and says what was late, because the machine may be busy; `make browser` fails.
"""

import contextlib
import os
import re
import shutil
import socket
import subprocess
import sys
import time
import urllib.request

import nbformat
import pytest

from fgn.native.library import COUNTED_SIMULATOR, SIMULATOR
from fgn.native.places import ROOT
from fgn.puzzles.catalogue import TASKS

CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome")
pytest.importorskip("jupyterlab", reason="JupyterLab is not installed")
sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
pytestmark = pytest.mark.skipif(
    CHROMIUM is None, reason="no chromium here: the notebooks are not tried in a browser"
)

ALL_NOTEBOOKS = os.environ.get("FGN_BROWSER") == "all"
STARTS = 3  # of a server, a browser, a page
SECONDS = 120  # for one thing that a busy machine does slowly; nothing waits longer than it takes
ENOUGH = 100  # a test that has taken so many seconds does not begin anew
DRAGS = 3  # a picture that comes late moves the slider away from the mouse
NOTEBOOKS = sorted(path.name for path in (ROOT / "notebooks").glob("*.ipynb"))
FIRST = NOTEBOOKS[0]
FOREVER = """%%cuda
__global__ void forever(float *y) {
    while (y[threadIdx.x] >= 0.0f)
        y[threadIdx.x] += 1.0f;
}"""
# The first launch compiles the kernel and ends at once.
STOP = (
    "import fgn, torch\n%load_ext fgn",
    FOREVER,
    "forever[1, 32](-torch.ones(32))",
    "print('it', 'runs')\nforever[1, 32](torch.zeros(32))",
    "print('still', 'alive')",
)
ENDLESS, AFTERWARDS = 3, 4  # the last two cells


class Late(Exception):
    """Something was not ready in time."""


what_was_late: list[str] = []  # the tests after it do not wait for the same again


def too_late(error):
    """What is late says nothing about the notebooks, unless somebody asked for this test alone."""
    if ALL_NOTEBOOKS:
        raise error
    what_was_late.append(f"not ready in time on this machine: {error}".split("\n")[0])
    pytest.skip(what_was_late[0])


def notebook_of(*cells):
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
    notebook.metadata["kernelspec"] = {"name": "python3", "display_name": "Python 3", "language": "python"}
    return notebook


def free_port():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


def begin_anew(folder):
    """Notebooks as they come with the repository, and no answers."""
    unsaved = shutil.ignore_patterns(".ipynb_checkpoints")
    shutil.copytree(ROOT / "notebooks", folder / "notebooks", ignore=unsaved, dirs_exist_ok=True)
    nbformat.write(notebook_of(*STOP), folder / "notebooks" / "stop.ipynb")
    for name in ("guesses.json", "puzzles.json"):
        (folder / name).unlink(missing_ok=True)


def write_settings(folder):
    """JupyterLab's settings."""
    settings = {
        # All cells are in the page, not only those that are in view.
        "notebook-extension/tracker": '{"windowingMode": "none"}',
    }
    for name, content in settings.items():
        path = folder / "settings" / "@jupyterlab" / f"{name}.jupyterlab-settings"
        path.parent.mkdir(parents=True)
        path.write_text(content)


@contextlib.contextmanager
def server(folder):
    """JupyterLab as `make lab` starts it, on a port of its own; its address."""
    port = free_port()
    address = f"http://127.0.0.1:{port}"
    environment = os.environ | {
        "JUPYTERLAB_SETTINGS_DIR": str(folder / "settings"),
        "JUPYTER_DATA_DIR": str(folder / "data"),
        "JUPYTER_CONFIG_DIR": str(folder / "config"),
        "JUPYTER_RUNTIME_DIR": str(folder / "runtime"),
        "FGN_GUESSES": str(folder / "guesses.json"),
        "FGN_PUZZLES": str(folder / "puzzles.json"),
    }
    options = [
        "--no-browser",
        f"--port={port}",
        "--ServerApp.port_retries=0",  # where somebody else has taken the port, the server ends
        "--IdentityProvider.token=",
        f"--ServerApp.root_dir={folder}",
        "--LabApp.expose_app_in_browser=True",
    ]
    command = [sys.executable, str(ROOT / "tools" / "lab.py"), *options]
    with (folder / "log").open("w") as log:
        process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT, env=environment)
    try:
        end = time.monotonic() + SECONDS
        while process.poll() is None and time.monotonic() < end:
            with contextlib.suppress(OSError):
                urllib.request.urlopen(f"{address}/api", timeout=10).read()
                if process.poll() is None:
                    break
            time.sleep(0.5)
        else:
            said = (folder / "log").read_text().strip().splitlines() or ["it said nothing"]
            raise Late(f"JupyterLab did not start: {said[-1]}")
        yield address
    finally:
        process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(20)
        process.kill()
        process.wait()


@contextlib.contextmanager
def started(start, *arguments):
    """What `start(*arguments)` gives on entry, tried anew where it is late."""
    with contextlib.ExitStack() as stack:
        for left in reversed(range(STARTS)):
            try:
                thing = stack.enter_context(start(*arguments))
                break
            except (Late, sync_api.Error) as error:
                if not left:
                    too_late(error)
        yield thing


@pytest.fixture(scope="module")
def lab(tmp_path_factory):
    folder = tmp_path_factory.mktemp("lab")
    # No test waits for a compiler.
    for library in (SIMULATOR, COUNTED_SIMULATOR):
        library.build()
    write_settings(folder)
    begin_anew(folder)
    with started(server, folder) as address:
        yield address, folder


@contextlib.contextmanager
def chromium(playwright):
    options = ["--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu"]
    browser = playwright.chromium.launch(executable_path=CHROMIUM, args=options, timeout=1000 * SECONDS)
    yield browser
    browser.close()


@pytest.fixture(scope="module")
def browser():
    with sync_api.sync_playwright() as playwright, started(chromium, playwright) as browser:
        yield browser


# What JupyterLab itself knows. A page looks ready before it is: "Run All Cells" is lost where the kernel is
# not connected yet.
CONNECTED = """() => {
    const panel = window.jupyterapp?.shell.currentWidget, session = panel?.sessionContext;
    const isConnected = session?.session?.kernel?.connectionStatus === 'connected';
    return Boolean(panel?.content?.widgets?.length && session.isReady && isConnected);
}"""
IDLE = """() => {
    const panel = jupyterapp.shell.currentWidget, {kernel} = panel.sessionContext.session;
    const waits = cell => cell.inputArea?.promptNode?.textContent.includes('*');
    return kernel.status === 'idle' && !panel.content.widgets.some(waits);
}"""
# The errors that cells show, by their names, and those that a control's output shows.
ERRORS = """() => {
    const {widgets, node} = jupyterapp.shell.currentWidget.content;
    const outputs = widgets.flatMap(cell => cell.model.outputs?.toJSON() ?? []);
    const ofCells = outputs.filter(output => output.output_type === 'error').map(output => output.ename);
    const ofControls = Array.from(node.querySelectorAll('.widget-output'), output => output.textContent);
    return ofCells.concat(ofControls.filter(text => text.includes('Traceback')));
}"""
# What a cell shows as text, whether it has been drawn yet or not.
TEXT = """number => jupyterapp.shell.currentWidget.content.widgets[number].model.outputs.toJSON()
    .map(({text, data, ename}) => ename ?? text ?? data['text/plain'] ?? '').flat().join('')"""


def try_out(browser, lab, name, what_a_reader_does):
    """Opens a notebook in a new page and does what a reader does there; where that is late, once more."""
    if what_was_late:
        pytest.skip(what_was_late[0])
    address, folder = lab
    begin = time.monotonic()
    for left in reversed(range(STARTS)):
        begin_anew(folder)
        try:
            with contextlib.closing(browser.new_page(viewport={"width": 1366, "height": 768})) as page:
                page.set_default_timeout(1000 * SECONDS)
                page.goto(f"{address}/lab/tree/notebooks/{name}?reset")
                page.wait_for_function(CONNECTED)
                try:
                    what_a_reader_does(page)
                finally:
                    page.evaluate("() => { jupyterapp.shell.currentWidget.sessionContext.shutdown(); }")
            return
        except sync_api.Error as error:
            if not left or time.monotonic() - begin > ENOUGH:
                too_late(error)


def start(page, name):
    """Starts one of JupyterLab's commands, as its menu would."""
    page.evaluate(
        """name => {
            window.isDone = false;
            jupyterapp.commands.execute(name).finally(() => { window.isDone = true; });
        }""",
        name,
    )


def finish(page):
    """Waits until the command is done and the kernel has nothing more to do."""
    page.wait_for_function("() => window.isDone")
    page.wait_for_function(IDLE)


def run_all(page):
    """Runs all cells. No cell fails."""
    start(page, "notebook:run-all-cells")
    finish(page)
    assert page.evaluate(ERRORS) == []


def select(page, number):
    """A click into a cell's text."""
    text = page.locator(".jp-Cell").nth(number).locator(".cm-content")
    text.click()
    is_active = "number => jupyterapp.shell.currentWidget.content.activeCellIndex === number"
    page.wait_for_function(is_active, arg=number)
    return text


def run_cell(page, number):
    select(page, number)
    start(page, "notebook:run-cell")
    finish(page)


def shown(locator):
    """The locator, when it can be seen."""
    locator.wait_for()
    return locator


def drag(page, slider):
    """Drags a slider from one end to the other, as a hand would."""
    slider.scroll_into_view_if_needed()
    box = slider.bounding_box()
    middle = box["y"] + box["height"] / 2
    for start, end in ((box["width"] - 8, 2), (8, box["width"] - 2)):
        page.mouse.move(box["x"] + start, middle)
        page.mouse.down()
        page.mouse.move(box["x"] + end, middle, steps=4)
        page.mouse.up()


def drag_every_slider(page):
    """Of the players and of the controls. Returns how many there are."""
    players = page.locator(".fgn-player")
    for number in range(players.count()):
        player = players.nth(number)
        at_its_end = re.compile(r"^step (\d+) of \1$")
        for _ in range(DRAGS):
            drag(page, player.locator("input.fgn-step"))
            if at_its_end.match(player.locator("output").inner_text()):
                break
        shown(player.locator("output", has_text=at_its_end))
    controls = page.locator(".jp-OutputArea .noUi-target")
    for number in range(controls.count()):
        drag(page, controls.nth(number))
    # What has been dragged is drawn anew when the kernel has answered, which may be a moment later.
    page.wait_for_timeout(1000)
    page.wait_for_function(IDLE)
    assert page.evaluate(ERRORS) == []
    return players.count() + controls.count()


def test_run_all_catch_a_race_drag_a_slider_make_a_guess(browser, lab):
    def read(page):
        run_all(page)
        shown(page.locator(".jp-OutputArea", has_text="race in row_sum").first)
        assert drag_every_slider(page) > 0
        assert page.locator(".Toastify__toast").count() == 0, "a message covers what a cell shows"
        told = page.locator(".jp-OutputArea", has_text="of 3 points")
        assert told.count() == 0, "an answer is in view before it has been asked for"
        field = page.get_by_placeholder("a number")
        for text, answer in (
            ("many", page.get_by_text("expected a number, got 'many'")),
            ("32", told.first),
        ):
            field.scroll_into_view_if_needed()
            field.fill(text)
            page.get_by_text("That is my guess").click()
            shown(answer)
        assert "3 of 3 points" in told.first.inner_text()

    try_out(browser, lab, FIRST, read)


def test_solve_a_puzzle(browser, lab):
    task = next(iter(TASKS.values()))

    def solve(page):
        run_all(page)
        answer = next(
            number
            for number, cell in enumerate(page.locator(".jp-Cell").all())
            if f"__global__ void {task.kernel}(" in (cell.text_content() or "")
        )
        check = answer + 1
        assert f"✗ {task.title}" in page.evaluate(TEXT, check)
        text = select(page, answer)
        page.keyboard.press("ControlOrMeta+A")
        page.keyboard.insert_text(f"%%cuda\n{task.solution()}")
        shown(text.filter(has_text=task.solution().splitlines()[-2].strip()))
        run_cell(page, answer)
        run_cell(page, check)
        assert f"✓ {task.title}" in page.evaluate(TEXT, check)

    try_out(browser, lab, "puzzles/01_threads.ipynb", solve)


def test_stop_a_kernel_that_never_ends(browser, lab):
    def stop(page):
        start(page, "notebook:run-all-cells")
        shown(page.locator(".jp-Cell").nth(ENDLESS).locator(".jp-OutputArea", has_text="it runs"))
        page.locator("[data-command='notebook:interrupt-kernel']").first.click()
        finish(page)
        assert page.evaluate(ERRORS) == ["KeyboardInterrupt"]
        run_cell(page, AFTERWARDS)
        assert "still alive" in page.evaluate(TEXT, AFTERWARDS)

    try_out(browser, lab, "stop.ipynb", stop)


@pytest.mark.skipif(not ALL_NOTEBOOKS, reason="`make browser` runs all notebooks in a browser")
@pytest.mark.parametrize("name", NOTEBOOKS[1:])
def test_all_cells_and_all_sliders(browser, lab, name):
    def read(page):
        run_all(page)
        drag_every_slider(page)

    try_out(browser, lab, name, read)
