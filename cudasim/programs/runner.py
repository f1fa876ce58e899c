"""The process in which a program runs: `python -m cudasim.programs.runner mode program.so name arguments`.

Faults are reported on the standard error when they are found, each with its lines. A checked program with a
fault ends with code 1, unless it ends with another error code itself.
"""

from __future__ import annotations

import os
import signal
import sys
import warnings

import cffi

from cudasim.building.library import COUNTED_SIMULATOR, SIMULATOR
from cudasim.counting.faults import fault_of, warn

_DECLARATIONS = """
int main(int count, char **arguments);
void exit(int status);
int on_exit(void (*function)(int status, void *), void *);
int fflush(void *);
extern void (*sim_program_tell)(void);
unsigned sim_program_told(void);
void sim_program_tell_leaks(void);
"""


def _say(sentence: str):
    print(f"cudasim: {sentence}", file=sys.stderr, flush=True)


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

    @interface.callback("void()")
    def tell():
        _say(str(fault_of(library)))

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
    program.on_exit(at_exit, interface.NULL)
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
    if launches.empty:
        print("no launch", file=sys.stderr)
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
