"""The process in which a program runs: `python -m cudasim.programs.runner mode program.so name arguments`.

Faults are reported on the standard error when they are found, each with its lines. A checked program with a
fault ends with code 1, unless it ends with another error code itself.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
import warnings

import cffi

from cudasim.building.library import COUNTED_SIMULATOR, SIMULATOR, ffi
from cudasim.counting.counted import running_places
from cudasim.counting.faults import fault_of, warn
from cudasim.counting.places import UNKNOWN, is_of_library, place_of, string_of

_DECLARATIONS = """
int main(int count, char **arguments);
void exit(int status);
int on_exit(void (*function)(int status, void *), void *);
int fflush(void *);
extern void (*sim_program_tell)(const char *sentence, bool launched);
extern void (*sim_program_tell_crash)(const char *sentence, void **frames, int count);
void sim_program_catches_crashes(void);
unsigned sim_program_told(void);
void sim_program_tell_leaks(void);
uint64_t sim_program_runs(const char **kernel, const char **launched_in, int *launched_at);
"""
_LONG = 12.0  # seconds of a kernel, after which it is told; with what it takes to see where it is, within 15


def _say(sentence: str):
    print(f"cudasim: {sentence}", file=sys.stderr, flush=True)


def _tell_long_kernels(simulator, interface, counted: bool):
    """Reports once where a long-running kernel is: it may be in an endless loop."""
    kernel, file = interface.new("const char **"), interface.new("const char **")
    line = interface.new("int *")
    number, since, told = 0, 0.0, 0
    while True:
        time.sleep(0.5)
        now = simulator.sim_program_runs(kernel, file, line)
        if now != number:
            number, since = now, time.monotonic()
        if not number or number == told or time.monotonic() - since < _LONG:
            continue
        told = number
        places = running_places() if counted else ()
        if simulator.sim_program_runs(kernel, file, line) != number:
            continue
        name, launched = (interface.string(of[0]).decode(errors="replace") for of in (kernel, file))
        where = "" if counted else "; `check` tells where it is"
        if known := [place for place in places if place != UNKNOWN and not is_of_library(place.file)]:
            lines = {place.line for place in known}
            where = f"; it is at {known[0].file}:{min(lines)}" + (
                f" to {max(lines)}" if len(lines) > 1 else ""
            )
        _say(f"{name}, launched at {launched}:{line[0]}, is not done after {_LONG:.0f} seconds{where}")


def run(mode: str, path: str, arguments: list[str], table: str | None):
    """Runs the program in this process, and ends it."""
    library = (SIMULATOR if mode == "run" else COUNTED_SIMULATOR).load()
    counts = mode in ("count", "predict")
    interface = cffi.FFI()
    interface.cdef(_DECLARATIONS)
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    program = interface.dlopen(path)
    if not hasattr(program, "main"):
        _say("the program has no main()")
        os._exit(1)
    simulator = program  # it has the simulator's names as well, which it is linked with
    if mode != "run":
        library.counted_clear()
        library.counted_only_check(not counts)
    if mode == "predict":
        from cudasim.predicting.of_programs import BLOCK_L1_BYTES

        library.counted_sample(BLOCK_L1_BYTES)

    @interface.callback("void(const char *, bool)")
    def tell(sentence, launched):
        if launched:
            _say(str(fault_of(library)))
        else:
            _say(interface.string(sentence).decode(errors="replace"))

    @interface.callback("void(const char *, void **, int)")
    def tell_crash(sentence, frames, count):
        for frame in (int(interface.cast("uintptr_t", frames[i])) for i in range(count)):
            of = string_of(library.sim_library_of(frame, ffi().new("unsigned long long *")))
            place = place_of(library, frame) if of == path else UNKNOWN
            if place != UNKNOWN and not is_of_library(place.file):
                where = f"{place}: "
                break
        else:
            where = ""
        _say(where + interface.string(sentence).decode(errors="replace"))

    @interface.callback("void(int, void *)")
    def at_exit(status, unused):
        if mode == "check":
            if status == 0:
                simulator.sim_program_tell_leaks()
            with warnings.catch_warnings(record=True) as found:
                warnings.simplefilter("always")
                warn(library)
            for warning in found:
                _say(f"warning: {warning.message}")
        if mode == "predict":
            _predict(library, table)
        elif counts:
            _show(library, table)
        if mode == "check" and status == 0 and simulator.sim_program_told():
            program.fflush(interface.NULL)
            os._exit(1)

    simulator.sim_program_tell = tell
    simulator.sim_program_tell_crash = tell_crash
    simulator.sim_program_catches_crashes()
    program.on_exit(at_exit, interface.NULL)
    watcher = (simulator, interface, mode != "run")
    threading.Thread(target=_tell_long_kernels, args=watcher, daemon=True).start()
    kept = [interface.new("char[]", os.fsencode(argument)) for argument in arguments]
    pointers = interface.new("char *[]", [*kept, interface.NULL])
    program.exit(program.main(len(kept), pointers))


def _show(library, table: str | None):
    from cudasim.counting.counted import _launches
    from cudasim.counting.counts import table_of

    launches = table_of(_launches(library))
    if table:
        launches.to_csv(table, index=False)
        return
    launches = launches.loc[:, (launches != 0).any()]  # without what no launch has asked for
    few = 8
    print((launches.T if len(launches) <= few else launches).to_string(), file=sys.stderr)


def _predict(library, asked: str):
    from cudasim.counting.counted import _launches
    from cudasim.predicting.of_programs import show

    try:
        show(_launches(library), asked)
    except (RuntimeError, ValueError) as error:  # nvcc refuses the source, say
        _say(f"predict: {error}")


if __name__ == "__main__":
    run(sys.argv[1], sys.argv[2], sys.argv[4:], sys.argv[3] or None)
