"""A process beside the notebook's, in which puzzles are checked.

A learner's kernel may divide an integer by zero, recurse for ever or never end. That ends the helper's
process, but not the notebook's. `Helper.check()` sends it a puzzle's name and a kernel, and waits for the
verdict, for a limited time; the next check replaces a process that has ended.
"""

from __future__ import annotations

import ctypes
import os
import resource
import signal
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import suppress
from dataclasses import replace
from multiprocessing.connection import Connection, Pipe
from pathlib import Path

from cudasim.building.library import COUNTED_SIMULATOR
from cudasim.counting.counted import running_places
from cudasim.live.kernels import Kernel
from fgn.puzzles.catalogue import find
from fgn.puzzles.loops import words_of_loop
from fgn.puzzles.verdict import CRASHED, ENDLESS, STOPPED, Verdict

_SECONDS_TO_START = 120.0  # in which torch is imported
_TIMES_AT_MOST = 8  # the seconds of a kernel, on a machine that does something else
_SECONDS_TO_TELL = 60.0  # in which a process says where its kernel is; without a word it is given up
# fgn's own folder, so that the process imports the same fgn.
PACKAGES = Path(__file__).resolve().parents[2]
_MOST_FILE_BYTES = 256 << 20  # of what a kernel prints; what the compiler makes of a header is a third of it
_MOST_SHOWN_BYTES = 1 << 16
_SAYING = {
    signal.SIGFPE: "an integer was divided by 0, most likely",
    signal.SIGSEGV: "the stack was used up, by an array or a recursion, most likely",
    signal.SIGXFSZ: f"it printed more than {_MOST_FILE_BYTES >> 20} MiB",
}

_READY, _CASE, _VERDICT = "ready", "case", "verdict"


# ------------------------------------------------------------------------------------------------------------
# In the helper's process


def _end_with(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(1.0)
    os._exit(1)


class _Limit:
    """The time limit of a kernel for each size. A kernel that takes longer is reported with its loop, and the
    process ends: nothing else stops the kernel reliably.

    The seconds are also those of the processor: on a busy machine, or while the compiler runs, a kernel
    without a loop uses no processor time. A kernel that only waits is also ended, after a few times as
    long."""

    def __init__(self, connection: Connection, title: str, kernel: Kernel, seconds: float):
        self._connection, self._title, self._kernel, self._seconds = connection, title, kernel, seconds
        self._timer = threading.Timer(0.0, lambda: None)
        self._case = 0

    def begins(self, sizes: str) -> None:
        self.ends()
        self._connection.send((_CASE, sizes))
        self._begin, self._begin_of_own = time.monotonic(), time.process_time()
        self._wait(self._seconds, sizes, self._case)

    def ends(self) -> None:
        self._case += 1
        self._timer.cancel()

    def _wait(self, seconds: float, sizes: str, case: int) -> None:
        self._timer = threading.Timer(seconds, self._is_over, (sizes, case))
        self._timer.daemon = True
        self._timer.start()

    def _is_over(self, sizes: str, case: int) -> None:
        if case != self._case:
            return
        left = self._seconds - (time.process_time() - self._begin_of_own)
        if left > 0 and time.monotonic() - self._begin < _TIMES_AT_MOST * self._seconds:
            self._wait(max(left, 0.2), sizes, case)
            return
        lines = {place.line for place in running_places() if place.file == self._kernel.file}
        sentence = f"not done after {self._seconds:g} seconds, for {sizes}"
        self._connection.send(
            (_VERDICT, Verdict(self._title, ENDLESS, sentence, words_of_loop(self._kernel.source, lines)))
        )
        os._exit(1)


def _request(received: tuple) -> tuple:
    """The task, the kernel and the seconds of a request. A user's folder is read each time, because its files
    may have changed."""
    from fgn.puzzles import catalogue, definition

    name, folder, kernel, seconds = received
    if folder != definition.FOLDER:
        catalogue.add(folder)
    return catalogue.TASKS[name], kernel, seconds


def serve(descriptor: int, parent: int) -> None:
    """The helper's main loop: a verdict for each request, until the other end is closed."""
    from fgn.puzzles.judge import here, judge

    threading.Thread(target=_end_with, args=(parent,), daemon=True).start()
    resource.setrlimit(resource.RLIMIT_FSIZE, (_MOST_FILE_BYTES, _MOST_FILE_BYTES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    signal.signal(signal.SIGINT, signal.default_int_handler)
    connection = Connection(descriptor)
    printed = tempfile.TemporaryFile()  # noqa: SIM115, it lives as long as the process
    os.dup2(printed.fileno(), 1)
    c_library = ctypes.CDLL(None)
    connection.send((_READY, ""))
    while True:
        try:
            task, kernel, seconds = _request(connection.recv())
        except EOFError:
            return
        os.truncate(printed.fileno(), 0)
        os.lseek(1, 0, os.SEEK_SET)
        limit = _Limit(connection, task.title, kernel, seconds)
        try:
            verdict = judge(task, here(task, kernel), limit.begins)
            limit.ends()
            c_library.fflush(None)
            text = os.pread(printed.fileno(), _MOST_SHOWN_BYTES, 0).decode(errors="replace")
            connection.send((_VERDICT, replace(verdict, printed=text)))
        except KeyboardInterrupt:
            return


# ------------------------------------------------------------------------------------------------------------
# In the notebook's process


class Helper:
    """The helper's process, which the first check or `get_ready()` starts. It makes one check at a time."""

    def __init__(self):
        self._is_ready = False
        self._process: subprocess.Popen | None = None
        self._connection: Connection | None = None
        self._lock = threading.Lock()

    def get_ready(self) -> None:
        """Starts the process without waiting for it, if nothing has to be built first: it imports torch while
        the reader reads."""
        if self._process is None and COUNTED_SIMULATOR.find() and self._lock.acquire(blocking=False):
            try:
                self._start()
            finally:
                self._lock.release()

    def _start(self) -> None:
        ours, theirs = Pipe()
        program = f"from fgn.puzzles.helper import serve; serve({theirs.fileno()}, {os.getpid()})"
        paths = [str(PACKAGES), os.environ.get("PYTHONPATH", "")]
        self._process = subprocess.Popen(
            [sys.executable, "-c", program],
            env={
                **os.environ,
                "PYTHONPATH": os.pathsep.join(filter(None, paths)),
                "PYTHONWARNINGS": "ignore",
            },
            pass_fds=[theirs.fileno()],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,  # the stop button interrupts the notebook's process, which ends this one
        )
        theirs.close()
        self._connection, self._is_ready = ours, False

    def _wait_until_ready(self) -> None:
        with suppress(EOFError, OSError):
            if self._connection.poll(_SECONDS_TO_START) and self._connection.recv()[0] == _READY:
                self._is_ready = True
                return
        status = self.close()
        raise RuntimeError(f"the process that checks puzzles did not start (exit status {status})")

    def close(self) -> int | None:
        """Ends the process. Returns its exit status."""
        if self._process is None:
            return None
        process, self._process = self._process, None
        process.kill()
        status = process.wait()
        self._connection.close()
        return status

    def check(self, name: str, title: str, kernel: Kernel, seconds: float) -> Verdict:
        """The verdict about a kernel for the puzzle of this name. seconds: the limit for each size.

        The stop button ends the check, and the verdict tells that.
        """
        with self._lock:
            try:
                if self._process is None or self._process.poll() is not None:
                    self.close()
                    COUNTED_SIMULATOR.build()  # in the notebook's process, which can show a progress bar
                    self._start()
                if not self._is_ready:
                    self._wait_until_ready()
                return self._check(name, title, kernel, seconds)
            except KeyboardInterrupt:
                self.close()
                return Verdict(title, STOPPED, "stopped before there was an answer")

    def _check(self, name: str, title: str, kernel: Kernel, seconds: float) -> Verdict:
        sizes, allowed = "", _SECONDS_TO_START  # in which the kernel is compiled
        try:
            self._connection.send((name, find(name).folder, kernel, seconds))
            while self._connection.poll(allowed):
                kind, content = self._connection.recv()
                if kind == _VERDICT:
                    if content.kind == ENDLESS:
                        self.close()
                    return content
                sizes, allowed = content, _TIMES_AT_MOST * seconds + _SECONDS_TO_TELL
        except (EOFError, OSError):
            return self._crashed(title, sizes)
        self.close()
        sentence = f"not done after {seconds:g} seconds, for {sizes or 'no size yet'}"
        return Verdict(title, ENDLESS, sentence, ("there may be a loop without an end",))

    def _crashed(self, title: str, sizes: str) -> Verdict:
        status = self._process.wait()
        self.close()
        number = signal.Signals(-status) if status < 0 else None
        details = [
            f"its process ended by {number.name}" if number else f"its process ended with status {status}"
        ]
        details += [_SAYING[number]] if number in _SAYING else []
        return Verdict(title, CRASHED, f"ended its process, for {sizes}", tuple(details))
