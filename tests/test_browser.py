"""What a reader does, in JupyterLab and a browser: opens a notebook, runs all cells, drags the sliders, makes
a guess, solves a puzzle, stops a kernel that never ends. Needs chromium (apt-get install chromium).

`make browser` runs it, with all notebooks of the course; FGN_BROWSER=1 in the environment of pytest without
the ones that take minutes. `make test` leaves it out: on two cores that ten other programs used as well, one
of the tests was seen to fail.
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
sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
pytestmark = [
    pytest.mark.skipif(CHROMIUM is None, reason="no chromium here: the notebooks are not tried in a browser"),
    pytest.mark.skipif(
        not os.environ.get("FGN_BROWSER"), reason="`make browser` tries the notebooks in a browser"
    ),
]

DRAGS = 3  # a picture that comes late moves the slider away from the mouse
SECONDS = 120  # for what a busy machine does slowly; nothing waits longer than it takes
sync_api.expect.set_options(timeout=1000 * SECONDS)
NOTEBOOKS = sorted(path.name for path in (ROOT / "notebooks").glob("*.ipynb"))
FIRST = NOTEBOOKS[0]
FOREVER = """%%cuda
__global__ void forever(float *y) {
    while (y[threadIdx.x] >= 0.0f)
        y[threadIdx.x] += 1.0f;
}"""
STOP = (
    "import fgn, torch\n%load_ext fgn",
    FOREVER,
    "print('it', 'runs')\nforever[1, 32](torch.zeros(32))",
    "print('still', 'alive')",
)


def notebook_of(*cells):
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
    notebook.metadata["kernelspec"] = {"name": "python3", "display_name": "Python 3", "language": "python"}
    return notebook


def free_port():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


@pytest.fixture(scope="module")
def lab(tmp_path_factory):
    """JupyterLab as `make lab` starts it, on copies of the notebooks; its address."""
    folder = tmp_path_factory.mktemp("lab")
    # No test waits for a compiler.
    for library in (SIMULATOR, COUNTED_SIMULATOR):
        library.build()
    shutil.copytree(
        ROOT / "notebooks", folder / "notebooks", ignore=shutil.ignore_patterns(".ipynb_checkpoints")
    )
    nbformat.write(notebook_of(*STOP), folder / "notebooks" / "stop.ipynb")
    address = f"http://127.0.0.1:{free_port()}"
    environment = os.environ | {
        "JUPYTERLAB_SETTINGS_DIR": str(folder / "settings"),
        "JUPYTER_DATA_DIR": str(folder / "data"),
        "JUPYTER_CONFIG_DIR": str(folder / "config"),
        "FGN_GUESSES": str(folder / "guesses.json"),
        "FGN_PUZZLES": str(folder / "puzzles.json"),
    }
    # All cells are in the page, not only those that are in view.
    settings = folder / "settings" / "@jupyterlab" / "notebook-extension" / "tracker.jupyterlab-settings"
    settings.parent.mkdir(parents=True)
    settings.write_text('{"windowingMode": "none"}')
    options = [
        "--no-browser",
        f"--port={address.rpartition(':')[2]}",
        "--IdentityProvider.token=",
        f"--ServerApp.root_dir={folder}",
        "--LabApp.expose_app_in_browser=True",
    ]
    command = [sys.executable, str(ROOT / "tools" / "lab.py"), *options]
    with (folder / "log").open("w") as log:
        server = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT, env=environment)
    try:
        end = time.monotonic() + SECONDS
        while True:
            with contextlib.suppress(OSError):
                urllib.request.urlopen(f"{address}/api").read()
                break
            assert server.poll() is None and time.monotonic() < end, (folder / "log").read_text()
            time.sleep(0.5)
        yield address
    finally:
        server.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            server.wait(20)
        server.kill()


@pytest.fixture(scope="module")
def browser():
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=CHROMIUM, args=["--no-sandbox"], timeout=1000 * SECONDS
        )
        yield browser
        browser.close()


@pytest.fixture
def page(browser):
    page = browser.new_page(viewport={"width": 1366, "height": 768})
    page.set_default_timeout(1000 * SECONDS)
    yield page
    page.close()


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
# The errors that cells show, by their names.
ERRORS = """() => jupyterapp.shell.currentWidget.content.widgets
    .flatMap(cell => cell.model.outputs?.toJSON() ?? [])
    .filter(output => output.output_type === 'error').map(output => output.ename)"""


@contextlib.contextmanager
def opened(page, lab, name):
    page.goto(f"{lab}/lab/tree/notebooks/{name}?reset")
    page.wait_for_function(CONNECTED)
    try:
        yield
    finally:
        page.evaluate("() => jupyterapp.shell.currentWidget.sessionContext.shutdown()")


def command(page, name):
    """Starts one of JupyterLab's commands, as its menu would."""
    page.evaluate("name => { jupyterapp.commands.execute(name); }", name)


def cell(page, number):
    return page.locator(".jp-Cell").nth(number)


def run_all(page):
    """Runs all cells, and waits until they have run. No cell fails."""
    page.evaluate("() => jupyterapp.commands.execute('notebook:run-all-cells')")
    page.wait_for_function(IDLE)
    assert page.evaluate(ERRORS) == []


# A key that comes before the focus has moved to the next cell is lost, or runs the same cell again.
MOVED_ON = """before => {
    const notebook = jupyterapp.shell.currentWidget.content;
    return notebook.activeCellIndex > before && notebook.node.contains(document.activeElement);
}"""


def run_cell_and_go_on(page):
    """Shift+Enter, and the next cell has been selected."""
    before = page.evaluate("() => jupyterapp.shell.currentWidget.content.activeCellIndex")
    page.keyboard.press("Shift+Enter")
    page.wait_for_function(MOVED_ON, arg=before)


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
        sync_api.expect(player.locator("output")).to_have_text(at_its_end)
    controls = page.locator(".jp-OutputArea .noUi-target")
    for number in range(controls.count()):
        drag(page, controls.nth(number))
    page.wait_for_function(IDLE)
    assert page.evaluate(ERRORS) == []
    return players.count() + controls.count()


def test_run_all_catch_a_race_drag_a_slider_make_a_guess(page, lab):
    with opened(page, lab, FIRST):
        assert not page.locator("details[open]").count(), "an answer is in view before it has been asked for"
        run_all(page)
        sync_api.expect(page.locator(".jp-OutputArea", has_text="race in row_sum").first).to_be_visible()
        assert drag_every_slider(page) > 0
        told = page.locator(".jp-OutputArea", has_text="of 3 points")
        assert told.count() == 0
        field = page.get_by_placeholder("a number")
        field.scroll_into_view_if_needed()
        field.fill("many")
        page.get_by_text("That is my guess").click()
        sync_api.expect(page.get_by_text("expected a number, got 'many'")).to_be_visible()
        field.fill("32")
        page.get_by_text("That is my guess").click()
        sync_api.expect(told.first).to_contain_text("3 of 3 points")


def test_solve_a_puzzle(page, lab):
    task = next(iter(TASKS.values()))
    with opened(page, lab, "puzzles/1_threads.ipynb"):
        run_all(page)
        verdict = page.locator(".jp-OutputArea", has_text=f"{task.title}:").first
        sync_api.expect(verdict).to_contain_text(f"✗ {task.title}")
        answer = page.locator(".jp-CodeCell", has_text=f"__global__ void {task.kernel}(")
        answer.locator(".cm-content").click()
        page.keyboard.press("ControlOrMeta+A")
        page.keyboard.insert_text(f"%%cuda\n{task.solution()}")
        typed = task.solution().splitlines()[-2].strip()
        sync_api.expect(answer.locator(".cm-content")).to_contain_text(typed)
        run_cell_and_go_on(page)
        run_cell_and_go_on(page)
        sync_api.expect(verdict).to_contain_text(f"✓ {task.title}")


def test_stop_a_kernel_that_never_ends(page, lab):
    with opened(page, lab, "stop.ipynb"):
        command(page, "notebook:run-all-cells")
        sync_api.expect(cell(page, 2).locator(".jp-OutputArea")).to_contain_text("it runs")
        time.sleep(1)
        page.locator("[data-command='notebook:interrupt-kernel']").first.click()
        page.wait_for_function(IDLE)
        assert page.evaluate(ERRORS) == ["KeyboardInterrupt"]
        sync_api.expect(cell(page, 2).locator(".jp-OutputArea")).to_contain_text("KeyboardInterrupt")
        cell(page, 3).locator(".cm-content").click()
        page.keyboard.press("Shift+Enter")
        sync_api.expect(cell(page, 3).locator(".jp-OutputArea")).to_contain_text("still alive")


@pytest.mark.skipif(
    os.environ.get("FGN_BROWSER") != "all", reason="`make browser` runs all notebooks in a browser"
)
@pytest.mark.parametrize("name", NOTEBOOKS[1:])
def test_all_cells_and_all_sliders(page, lab, name):
    with opened(page, lab, name):
        run_all(page)
        drag_every_slider(page)
