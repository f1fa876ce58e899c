"""Programs of streams, drawn by a seeded script: what the simulator tells, beside a model of CUDA's order.

    python lab/streams.py 1 2 3 --gpus 2 --programs 40       # seeds

A program puts kernels, copies and fills of parts of six arrays into streams, and waits by events, streams,
devices and functions of the host's; host code reads and writes the managed and the pinned arrays between
them. It is drawn so that it is right; from every second one waits are taken away until the model says that it
is wrong. The model is written from the CUDA Runtime API, "Stream synchronization behavior", in sets of
operations. `cudasim check` should tell each race at its line and nothing else, and so should `cudasim run` of
the host's.
"""

from __future__ import annotations

import argparse
import copy
import os
import random
import re
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from cudasim.programs.building import Program, command

PARTS, PART = 4, 256  # of an array: parts, and each part's numbers
EVENTS = 8  # each is of the device that its number has as a remainder
MANY = 70  # streams of one program in seven
TRIES = 24  # of taking waits away, one more after every fourth
HEAD = """
#include <cstdlib>
#include <cstring>
#include <cuda_runtime.h>
__global__ void set(int *p) { p[threadIdx.x] = 1; }
__global__ void add(int *p, const int *q) { p[threadIdx.x] += q[threadIdx.x]; }
static cudaStream_t s[300];
static cudaEvent_t e[8];
static int *a[6];
static volatile int sink;
"""


class Stream(NamedTuple):
    name: str
    device: int
    is_blocking: bool


class Array(NamedTuple):
    name: str
    device: int | None  # None: pinned memory
    allocation: str


class Use(NamedTuple):
    array: Array
    part: int
    writes: bool


# The model gets each statement's effect, which says what is wrong: "race", "host", or nothing.
class Statement(NamedTuple):
    text: str
    effect: Callable[[Model], str | None]
    is_wait: bool = False


class Model:
    """Sets of operations: what comes before the next one of each stream, and before the host goes on."""

    def __init__(self, gpus: int):
        self.default = [Stream("0", device, True) for device in range(gpus)]
        self.before: dict[Stream, set[int]] = {stream: set() for stream in self.default}
        self.events: dict[int, set[int]] = {}
        self.host: set[int] = set()
        self.operations: list[list[Use]] = []

    def create(self, stream: Stream):
        self.before[stream] = set(self.before[self.default[stream.device]]) if stream.is_blocking else set()

    def goes_on(self, stream: Stream, operation: int | None = None, devices=frozenset()) -> set[int]:
        """What comes before the next command of the stream. A default stream waits for the blocking streams
        of its device, which wait for it; devices: all streams of these and it wait for each other."""
        is_default = stream in self.default
        others = [
            of
            for of in self.before
            if of.device in devices or (is_default and of.is_blocking and of.device == stream.device)
        ]
        known = self.host.union(self.before[stream], *(self.before[of] for of in others))
        after = known if operation is None else known | {operation}
        for of in (stream, *others):
            self.before[of] |= after
        return known

    def operates(self, stream: Stream, uses: list[Use], is_copy: bool) -> str | None:
        homes = {use.array.device for use in uses} - {None} if is_copy and stream in self.default else set()
        known = self.goes_on(
            stream, len(self.operations), homes | {stream.device} if homes - {stream.device} else ()
        )
        races = any(
            one.array == other.array and one.part == other.part and (one.writes or other.writes)
            for number, others in enumerate(self.operations)
            if number not in known
            for one in uses
            for other in others
        )
        self.operations.append(uses)
        return "race" if races else None

    def waits_for_device(self, device: int):
        self.host.update(*(known for stream, known in self.before.items() if stream.device == device))

    def touches(self, array: Array, writes: bool) -> str | None:
        races = any(
            use.array == array and (use.writes or writes)
            for number, uses in enumerate(self.operations)
            if number not in self.host
            for use in uses
        )
        return "host" if races else None


class Drawing:
    """One right program."""

    def __init__(self, drawn: random.Random, gpus: int):
        self.drawn, self.gpus, self.model = drawn, gpus, Model(gpus)
        self.alive, self.statements, self.made = list(self.model.default), [], 0
        calls = ["cudaMalloc"] * 3 + ["cudaMallocManaged"] * 2 + ["cudaMallocHost"]
        devices = [0, 0, gpus - 1, 0, 0, None]
        self.arrays = [Array(f"a[{i}]", *of) for i, of in enumerate(zip(devices, calls, strict=True))]

    def put(self, text: str, effect, is_wait: bool = False):
        self.statements.append(Statement(text, effect, is_wait))
        effect(self.model)

    def on(self, stream: Stream) -> str:
        return f"cudaSetDevice({stream.device}); " if self.gpus > 1 else ""

    def create(self):
        stream = Stream(f"s[{self.made}]", self.drawn.randrange(self.gpus), self.drawn.random() < 0.5)
        self.made += 1
        self.alive.append(stream)
        flags = "cudaStreamDefault" if stream.is_blocking else "cudaStreamNonBlocking"
        call = f"cudaStreamCreateWithFlags(&{stream.name}, {flags});"
        self.put(self.on(stream) + call, lambda model: model.create(stream))

    def destroy(self):
        if len(self.alive) > self.gpus + 1:
            stream = self.alive.pop(self.drawn.randrange(self.gpus, len(self.alive)))
            self.put(self.on(stream) + f"cudaStreamDestroy({stream.name});", lambda model: None)

    def record(self):
        stream = self.drawn.choice(self.alive)
        event = self.drawn.randrange(stream.device, EVENTS, self.gpus)
        call = f"cudaEventRecord(e[{event}], {stream.name});"
        self.put(self.on(stream) + call, lambda m: m.events.update({event: m.goes_on(stream)}), True)
        return event

    def stream_waits(self, stream: Stream | None = None, event: int | None = None):
        of, event = stream or self.drawn.choice(self.alive), self.event(event)

        def effect(model):
            model.goes_on(of)
            model.before[of] |= model.events.get(event, set())
            model.goes_on(of)

        self.put(f"{self.on(of)}cudaStreamWaitEvent({of.name}, e[{event}], 0);", effect, True)

    def event(self, event: int | None) -> int:
        return self.drawn.randrange(EVENTS) if event is None else event

    def wait_for_event(self, event: int | None = None):
        event = self.event(event)
        effect = lambda model: model.host.update(model.events.get(event, set()))  # noqa: E731
        self.put(f"cudaEventSynchronize(e[{event}]);", effect, True)

    def wait_for_stream(self):
        stream = self.drawn.choice(self.alive)
        calls = ["cudaStreamSynchronize({});", "cudaLaunchHostFunc({}, [](void *) {{}}, 0);"]
        call = self.drawn.choices(calls, [3, 1])[0].format(stream.name)
        self.put(self.on(stream) + call, lambda model: model.host.update(model.goes_on(stream)), True)

    def wait_for_device(self):
        device = self.drawn.randrange(self.gpus)
        call = f"cudaSetDevice({device}); cudaDeviceSynchronize();"
        self.put(call, lambda model: model.waits_for_device(device), True)

    def repair(self, stream: Stream | None):
        """One more wait, which may be the one that is missing."""
        kind = self.drawn.random()
        if kind < 0.15:
            self.wait_for_device()
        elif kind < 0.45 and stream:
            self.stream_waits(stream, self.record())
        elif kind < 0.7:
            self.wait_for_event(self.record())
        else:
            self.wait_for_stream()

    def put_right(self, text: str, effect, stream: Stream | None = None):
        while effect(copy.deepcopy(self.model)):
            self.repair(stream)
        self.put(text, effect)

    def operate(self):
        what = self.drawn.choice(["set", "add", "fill", "copy", "copy", "copy and wait"])
        stream = self.drawn.choice(self.model.default if what == "copy and wait" else self.alive)
        is_kernel = what in ("set", "add")
        to, source = (self.drawn.choice(self.arrays[: 5 if is_kernel else 6]) for _ in range(2))
        part, source_part = self.drawn.randrange(PARTS), self.drawn.randrange(PARTS)
        if (to, part) == (source, source_part):
            source_part = (part + 1) % PARTS
        at, source_at, size = f"{to.name} + {part * PART}", f"{source.name} + {source_part * PART}", 4 * PART
        call = {
            "set": f"set<<<1, {PART}, 0, {stream.name}>>>({at});",
            "add": f"add<<<1, {PART}, 0, {stream.name}>>>({at}, {source_at});",
            "fill": f"cudaMemsetAsync({at}, 0, {size}, {stream.name});",
            "copy": f"cudaMemcpyAsync({at}, {source_at}, {size}, cudaMemcpyDefault, {stream.name});",
            "copy and wait": f"cudaMemcpy({at}, {source_at}, {size}, cudaMemcpyDefault);",
        }[what]
        uses = [Use(to, part, True)]
        if what not in ("set", "fill"):
            uses.append(Use(source, source_part, False))

        def effect(model):
            said = model.operates(stream, uses, not is_kernel)
            if what == "copy and wait":
                model.host.update(model.goes_on(stream))
            return said

        self.put_right(self.on(stream) + call, effect, stream)

    def touch(self):
        array, writes = self.drawn.choice(self.arrays[3:]), self.drawn.random() < 0.3
        place = f"{array.name}[{self.drawn.randrange(PARTS * PART)}]"
        text = f"{place} = 7;" if writes else f"sink = {place};"
        self.put_right(text, lambda model: model.touches(array, writes))

    def draw(self) -> list[Statement]:
        is_large = self.drawn.random() < 1 / 7
        length = self.drawn.randrange(12, 45) + is_large * 2 * MANY
        for _ in range(MANY if is_large else self.drawn.randrange(2, 5)):
            self.create()
        kinds = {
            self.operate: 10,
            self.record: 2,
            self.stream_waits: 2,
            self.touch: 1.5,
            self.wait_for_stream: 0.8,
        }
        kinds |= {self.wait_for_event: 0.5, self.destroy: 0.4, self.create: 0.3, self.wait_for_device: 0.2}
        while len(self.statements) < length:
            self.drawn.choices(list(kinds), list(kinds.values()))[0]()
        return self.statements


def faults(statements: list[Statement], gpus: int) -> list[tuple[int, str]]:
    """The statements that are wrong, by their numbers; one of the host's ends the program."""
    model, found = Model(gpus), []
    for number, statement in enumerate(statements):
        if said := statement.effect(model):
            found.append((number, said))
        if said == "host":
            break
    return found


def spoiled(drawn: random.Random, statements: list[Statement], gpus: int) -> list[Statement]:
    waits = [number for number, statement in enumerate(statements) if statement.is_wait]
    for number in range(TRIES):
        gone = set(drawn.sample(waits, min(1 + number // 4, len(waits))))
        left = [statement for number, statement in enumerate(statements) if number not in gone]
        if faults(left, gpus):
            return left
    return statements


def source(
    programs: list[list[Statement]], arrays: list[Array], gpus: int
) -> tuple[str, list[dict[int, int]]]:
    """All programs in one source, and of each the number of the statement on each line."""
    lines, places = HEAD.splitlines(), []
    for number, statements in enumerate(programs):
        lines.append(f"static void program_{number}() {{")
        places.append({len(lines) + 1 + i: i for i in range(len(statements))})
        lines += [f"    {statement.text}" for statement in statements] + ["}"]
    lines.append("int main(int count, char **arguments) {")
    for device in reversed(range(gpus)):
        lines.append(f"    cudaSetDevice({device});")
        lines += [f"    cudaDeviceEnablePeerAccess({of}, 0);" for of in range(gpus) if of != device]
        lines += [f"    cudaEventCreate(&e[{i}]);" for i in range(device, EVENTS, gpus)]
        for array in arrays:
            if (array.device or 0) == device:
                fill = "cudaMemset" if array.allocation == "cudaMalloc" else "memset"
                lines.append(f"    {array.allocation}(&{array.name}, {4 * PARTS * PART});")
                lines.append(f"    {fill}({array.name}, 0, {4 * PARTS * PART}); cudaDeviceSynchronize();")
    lines.append("    switch (atoi(arguments[1])) {")
    lines += [f"    case {n}: program_{n}(); break;" for n in range(len(programs))] + ["    }"]
    lines += [f"    cudaSetDevice({device}); cudaDeviceSynchronize();" for device in range(gpus)]
    frees = {"cudaMallocHost": "cudaFreeHost"}
    lines += [f"    {frees.get(of.allocation, 'cudaFree')}({of.name});" for of in arrays] + ["}", ""]
    return "\n".join(lines), places


def told(errors: str, at: dict[int, int]) -> list[tuple[int | str, str]]:
    """As faults(); what is neither, by its words."""
    said = re.compile(
        r"at main\.cu:(?P<race>\d+): race between|main\.cu:(?P<host>\d+): the host code accesses"
    )
    found = []
    for line in errors.splitlines():
        match = said.search(line)
        found.append((at[int(match[match.lastgroup])], match.lastgroup) if match else (line, "?"))
    return found


def judge(seed: int, gpus: int, count: int, folder: Path):
    drawn = random.Random(seed)
    programs = []
    for number in range(count):
        drawing = Drawing(drawn, gpus)
        statements = drawing.draw()
        programs.append(statements if number % 2 else spoiled(drawn, statements, gpus))
    text, places = source(programs, drawing.arrays, gpus)
    (folder / "main.cu").write_text(text)
    environment = dict(os.environ, CUDASIM_GPUS=str(gpus))
    for mode in ("check", "run"):
        built = Program((folder / "main.cu",)).library(mode)
        wrong = agreed = 0
        for number, statements in enumerate(programs):
            expected = [fault for fault in faults(statements, gpus) if mode == "check" or fault[1] == "host"]
            call = command(mode, built, "main.cu", [str(number)])
            ran = subprocess.run(call, env=environment, capture_output=True, text=True, cwd=folder)
            found = told(ran.stderr, places[number])
            wrong += bool(expected)
            agreed += found == expected and (ran.returncode == 0) == (not expected)
            if found != expected:
                print(f"{mode}, program {number}: the model says {expected}, the simulator {found}")
        print(f"seed {seed}, {gpus} GPUs, {mode}: {agreed} of {count} agree; {wrong} are wrong", flush=True)


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("seeds", type=int, nargs="+")
    parser.add_argument("--gpus", type=int, default=1)
    parser.add_argument("--programs", type=int, default=40)
    arguments = parser.parse_args()
    for seed in arguments.seeds:
        with tempfile.TemporaryDirectory() as folder:
            judge(seed, arguments.gpus, arguments.programs, Path(folder))


if __name__ == "__main__":
    main()
