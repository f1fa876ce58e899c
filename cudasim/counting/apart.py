"""Runs strangers' kernels in a separate process, which the caller does not trust.

`Apart` starts the process and exchanges JSON and bytes with it, and only parses them: nothing that a kernel
does can make it run code here. The process gets a source, a launch as text, arrays and sizes; it never sees
the right results. The functions that a source's library calls are checked before it is loaded.
"""

from __future__ import annotations

import json
import os
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection, Pipe
from pathlib import Path

import numpy as np

from cudasim.building.library import COUNTED_SIMULATOR, BuildError
from cudasim.counting.counted import check, recording, running_places
from cudasim.counting.counts import count, count_lines, count_warps
from cudasim.counting.faults import KernelFault
from cudasim.live.kernels import kernel

PACKAGES = Path(__file__).resolve().parents[2]
_SECONDS_TO_START, _SECONDS_TO_BUILD = 120.0, 120.0
_SECONDS_TO_TELL = 60.0  # in which a process says where its kernel is
_MOST_FILE_BYTES = 256 << 20
_ALIGNMENT = 256

# What a kernel's library may call: the simulator, the compiler's own calls, and functions of a number.
_ALLOWED = re.compile(
    r"(?:sim_|__tsan_|__ubsan_handle_|__sanitizer_cov_|_ITM_)\w+"
    r"|__cxa_finalize|__gmon_start__|__tls_get_addr|__assert_fail|__stack_chk_fail|mem(?:cpy|set|move)"
    r"|(?:a?(?:cos|sin|tan)h?|atan2|sincos|cbrt|ceil|floor|trunc|round|rint|nearbyint|ll?rint|ll?round|copysign"
    r"|erfc?|exp(?:10|2|m1)?|log(?:10|2|1p|b)?|fabs|fdim|fma|fmax|fmin|fmod|frexp|hypot|ilogb|ldexp|modf|nan"
    r"|j[01n]|y[01n]|lgamma|tgamma|nextafter|pow|remainder|remquo|scalbl?n|sqrt)f?"
)


# Words that hide accesses from the simulator, and what could compose these words from pieces.
_HIDES = re.compile(r"\w*(?:sanitize|instrument)\w*|##|%:%:")


class Refused(ValueError):
    """A source whose compiled code would call a function that no kernel needs."""


class Stopped(RuntimeError):
    """The process ended, or was ended. lines: the kernel's place, if the process did not end by itself.

    status: the exit status of a process that ended; None for one that took too long.
    """

    def __init__(self, words: str, status: int | None = None, lines: tuple[int, ...] = ()):
        super().__init__(words)
        self.status, self.lines = status, lines


@dataclass(frozen=True)
class Counts:
    """The sum of a call's launches. totals: columns of `count()`. lines: those of `count_lines()`, a dict for
    each line. busiest: the most requests of one warp."""

    launches: int
    totals: dict[str, float]
    lines: list[dict]
    busiest: float


def tiles(total: int, size: int) -> int:
    """The number of tiles of `size` that cover `total`."""
    return -(-total // size)


def launch(expression: str, kernels: Mapping[str, object], names: Mapping[str, object]) -> None:
    """Evaluates a Python expression that launches kernels by these names; it also has `tiles()`."""
    eval(expression, {"__builtins__": {}}, {**kernels, "tiles": tiles, **names})


def counts_of(call) -> Counts:
    table, warps = count(call), count_warps(call)
    numbers = table.drop(columns=["kernel", "grid", "block"]).sum() if len(table) else {}
    asked = [column for column in warps if "requests" in column or "inst_executed" in column]
    return Counts(
        len(table),
        {column: float(value) for column, value in numbers.items()},
        count_lines(call).to_dict("records"),
        float(warps[asked].sum(axis=1).max()) if len(warps) else 0.0,
    )


# ------------------------------------------------------------------------------------------------------------
# In the process


def foreign_calls(library: Path) -> list[str]:
    """The functions that a library would call although no kernel needs them. RuntimeError without `nm`."""
    nm = shutil.which("nm") or shutil.which("llvm-nm")
    if nm is None:
        raise RuntimeError("nm (of binutils) is not here: it tells what a kernel's library would call")
    command = [nm, "-D", "--undefined-only", str(library)]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    called = (line.split()[-1].partition("@")[0] for line in said.splitlines() if line.strip())
    names = {name.removeprefix("__wrap_") for name in called}  # the simulator's own of what a program calls
    return sorted(name for name in names if not _ALLOWED.fullmatch(name))


def refuse_hiding(source: str) -> None:
    """Raises Refused for a source that could make the compiler hide its accesses."""
    joined = re.sub(r"\\[ \t\r]*\n", "", source)
    if found := _HIDES.search(joined):
        raise Refused(f"{found[0]} is in the source, and may hide accesses from what counts them")


def as_allocated(dtype, shape: Sequence[int], data: bytes) -> np.ndarray:
    """An array of these bytes, aligned as by cudaMalloc(), because a request's sectors depend on that."""
    memory = np.empty(len(data) + _ALIGNMENT, np.uint8)
    first = -memory.ctypes.data % _ALIGNMENT
    aligned = memory[first : first + len(data)]
    aligned[:] = np.frombuffer(data, np.uint8)
    return aligned.view(dtype).reshape(shape)


def _serve_one(connection: Connection) -> None:
    asked = json.loads(connection.recv_bytes())
    kernels = {name: kernel(asked["source"], name, asked["file"]) for name in asked["kernels"]}
    for built in kernels.values():
        for only_checks in (True, False):
            with recording(only_checks=only_checks):
                library, _ = built.compiled()
            if calls := foreign_calls(library):
                raise Refused(f"the kernel calls {', '.join(calls[:5])}, which no kernel of a puzzle does")
    connection.send_bytes(json.dumps({"is": "built"}).encode())
    while True:
        asked = json.loads(connection.recv_bytes())
        arrays = {
            name: as_allocated(dtype, shape, connection.recv_bytes())
            for name, dtype, shape in asked["arrays"]
        }
        over = threading.Timer(asked["seconds"], _is_over, (connection, built.file))
        over.daemon = True
        over.start()
        names = {**arrays, **asked["sizes"]}

        def call(expression=asked["launch"], names=names):
            launch(expression, kernels, names)

        if asked["is"] == "count":
            answer = {"is": "counted", "counts": vars(counts_of(call))}
        else:
            check(call)
            answer = {"is": "done"}
        over.cancel()
        connection.send_bytes(json.dumps(answer).encode())
        for array in arrays.values():
            connection.send_bytes(array.tobytes())


def _is_over(connection: Connection, file: str) -> None:
    lines = sorted({place.line for place in running_places() if place.file == file})
    connection.send_bytes(json.dumps({"is": "endless", "lines": lines}).encode())
    os._exit(1)


def serve(descriptor: int) -> None:
    """The process's work: one source, and launches as they are requested."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (_MOST_FILE_BYTES, _MOST_FILE_BYTES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    connection = Connection(descriptor)
    connection.send_bytes(json.dumps({"is": "ready"}).encode())
    try:
        _serve_one(connection)
    except (EOFError, BrokenPipeError):
        return
    except KernelFault as fault:
        fields = {name: value for name, value in vars(fault).items() if value is not None}
        answer = {"is": "fault", "says": str(fault), "fields": fields}
    except BuildError as error:
        answer = {"is": "not built", "says": str(error)}
    except Refused as error:
        answer = {"is": "refused", "says": str(error)}
    except (TypeError, ValueError, RuntimeError) as error:
        answer = {"is": "not launched", "says": str(error)}
    connection.send_bytes(json.dumps(answer).encode())


# ------------------------------------------------------------------------------------------------------------
# In the process that asks


class Apart:
    """A kernel in a separate process. `check()` and `counts()` raise what the functions of these names raise,
    Refused, and Stopped if the process is gone.

    source, name: of the kernel, as for `cudasim.kernel()`. more: further kernels of the source, which the
    launch calls too. seconds: the most that a launch may take.
    """

    def __init__(self, source: str, name: str, seconds: float, more: Sequence[str] = ()):
        self.source, self.names, self.seconds = source, [name, *more], seconds
        self.file = f"{name}.cu"
        self._process: subprocess.Popen | None = None
        self._folder: tempfile.TemporaryDirectory | None = None

    def __enter__(self) -> Apart:
        COUNTED_SIMULATOR.build()
        self._connection, theirs = Pipe()
        self._folder = tempfile.TemporaryDirectory()
        program = f"from cudasim.counting.apart import serve; serve({theirs.fileno()})"
        self._process = subprocess.Popen(
            [sys.executable, "-c", program],
            env=os.environ | {"PYTHONPATH": str(PACKAGES), "PYTHONWARNINGS": "ignore"},
            cwd=self._folder.name,
            pass_fds=[theirs.fileno()],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        theirs.close()
        self._heard(_SECONDS_TO_START)
        return self

    def __exit__(self, *_) -> None:
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)  # and what it has started
        self._process.wait()
        self._connection.close()
        self._folder.cleanup()

    def _heard(self, seconds: float) -> dict:
        """Returns the process's next answer, or raises the exception that it means."""
        try:
            if not self._connection.poll(seconds):
                raise Stopped(f"no answer in {seconds:g} seconds")
            answer = dict(json.loads(self._connection.recv_bytes()))
        except (EOFError, OSError):
            raise Stopped("the process ended", self._ended()) from None
        except (ValueError, TypeError) as error:
            raise Stopped(f"the process says what is no answer: {error}") from None
        what, said = answer.get("is"), str(answer.get("says", ""))
        if what == "fault":
            raise KernelFault(said, **answer["fields"])
        if what == "endless":
            raise Stopped(f"not done after {self.seconds:g} seconds", None, tuple(map(int, answer["lines"])))
        if what in _ERRORS:
            raise _ERRORS[what](said)
        return answer

    def _ended(self) -> int | None:
        """The exit status of a process that has closed its end."""
        with suppress(subprocess.TimeoutExpired):
            return self._process.wait(_SECONDS_TO_TELL)
        return None

    def build(self) -> None:
        """Compiles the kernel and checks which functions it would call."""
        refuse_hiding(self.source)
        self._connection.send_bytes(
            json.dumps({"source": self.source, "kernels": self.names, "file": self.file}).encode()
        )
        self._heard(_SECONDS_TO_BUILD)

    def _asked(self, what: str, expression: str, arrays: Mapping[str, np.ndarray], sizes) -> dict:
        described = [(name, array.dtype.str, array.shape) for name, array in arrays.items()]
        asked = {
            "is": what,
            "launch": expression,
            "arrays": described,
            "sizes": sizes,
            "seconds": self.seconds,
        }
        try:
            self._connection.send_bytes(json.dumps(asked).encode())
            for array in arrays.values():
                self._connection.send_bytes(array.tobytes())
        except OSError:
            raise Stopped("the process ended", self._ended()) from None
        answer = self._heard(self.seconds + _SECONDS_TO_TELL)
        try:
            for array in arrays.values():
                array[...] = np.frombuffer(self._connection.recv_bytes(), array.dtype).reshape(array.shape)
        except (EOFError, OSError, ValueError) as error:
            raise Stopped(f"the process did not give the arrays back: {error}") from None
        return answer

    def check(self, expression: str, arrays: Mapping[str, np.ndarray], sizes: Mapping[str, int]) -> None:
        """Launches the kernel under every check; the arrays have its results."""
        self._asked("check", expression, arrays, dict(sizes))

    def counts(self, expression: str, arrays: Mapping[str, np.ndarray], sizes: Mapping[str, int]) -> Counts:
        """The counts of the launches."""
        return Counts(**self._asked("count", expression, arrays, dict(sizes))["counts"])


_ERRORS = {"not built": BuildError, "refused": Refused, "not launched": ValueError}
