"""Times, errors, the floor, the machine and what it does at its best, and the records of them."""

from fgn.measure.benchmark import COMPILED, EAGER, F_LINEAR, RECORDED_SHAPES, RIVALS, time_call
from fgn.measure.floors import Floor, floor, least_work
from fgn.measure.machine import Machine, machine_here, measure_machine
from fgn.measure.records import Record, read, recorded
from fgn.measure.software import environment

__all__ = [
    "COMPILED",
    "EAGER",
    "F_LINEAR",
    "RECORDED_SHAPES",
    "RIVALS",
    "Floor",
    "Machine",
    "Record",
    "environment",
    "floor",
    "least_work",
    "machine_here",
    "measure_machine",
    "read",
    "recorded",
    "time_call",
]
