"""PTX litmus tests on the simulator, in every order, beside the verdicts of a formal model of PTX's memory.

    python lab/litmus.py DAT3M [--only NAME ...]

DAT3M: a clone of https://github.com/hernanponcedeleon/Dat3M, whose `litmus/PTX` has the tests and whose
`PTXv7_5-expected.csv` says of each whether its condition holds by the model of PTX 7.5. The result is
`lab/records/litmus.csv.xz`: names and verdicts, no code. A test's threads are warps of a kernel in CUDA C,
those of another CTA in a block of their own. At each access to memory a warp asks a scheduler outside of the
kernel, which the checker does not see, whether it is its turn, and all orders are run one after another.

The simulator's memory is in step: a run shows what some order of the accesses gives. An outcome that the
model forbids and a run shows is a disagreement. One that the model allows and that no order gives is to be
told by the checker, as a race of its weak accesses, in some order.

| result | the model | the simulator |
| --- | --- | --- |
| seen | allows the outcome | shows it |
| not seen | forbids it | never shows it |
| told | allows it | does not show it, and names a race |
| weak | allows it | does not show it, and all accesses are strong or ordered: nothing to tell |
| hangs | allows it | the kernel waits for ever in each order, as PTX's barriers would: told |
| DISAGREES | forbids it | shows it |
| not in CUDA C | | surfaces, two addresses of one memory, two GPUs in one launch |
"""

from __future__ import annotations

import argparse
import csv
import ctypes
import lzma
import re
import subprocess
import tempfile
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

import cudasim
from cudasim.counting.faults import KernelWarning
from fgn.measure.software import when_recorded

RESULT = Path(__file__).parent / "records" / "litmus.csv.xz"
_VERDICTS = "dartagnan/src/test/resources/PTXv7_5-expected.csv"
_MOST_ORDERS, _MOST_STEPS, _MOST_CHECKED = 200, 60, 60  # from either end of the list of orders
_APART = 16  # places of 64 bytes for each variable, and registers for each thread
_WARP = 32
_NOT_WRITTEN = -9999  # a register of a warp that has not ended
_SCOPES = {"cta": "cuda::thread_scope_block", "gpu": "cuda::thread_scope_device"}
_SCOPES["sys"] = "cuda::thread_scope_system"
_COMPARISONS = {"beq": "==", "bne": "!=", "bge": ">=", "ble": "<=", "bgt": ">", "blt": "<"}

# The scheduler: whose turn it is, which warps have ended, and which wait at a barrier.
_SCHEDULER = r"""
#include <pthread.h>
#include <string.h>
enum { WARPS = 8, STEPS = 128, BARRIERS = 16 };
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static int warps, turn, step, given, most, backwards;
static int holds[WARPS], ended[WARPS], block_of[WARPS], waits[WARPS];
static int arrived[WARPS][BARRIERS], passes[WARPS];
int order[STEPS], choices[STEPS], stuck, cut;

static void choose(void) {
    int able[WARPS], count = 0, left = 0;
    for (int i = 0; i < warps; i++) {
        left += !ended[i];
        if (!ended[backwards ? warps - 1 - i : i] && !waits[backwards ? warps - 1 - i : i])
            able[count++] = backwards ? warps - 1 - i : i;
    }
    turn = -1;
    if (count == 0) {
        stuck = left > 0;
        return;
    }
    if (step >= most) {
        cut = 1;
        return;
    }
    choices[step] = count;
    if (step >= given)
        order[step] = 0;
    turn = able[order[step++]];
}
void begin(int count, const int *blocks, int prefix, int limit, int from_the_end) {
    warps = count, backwards = from_the_end, step = 0, given = prefix, most = limit, stuck = cut = 0;
    memset(holds, 0, sizeof holds), memset(ended, 0, sizeof ended), memset(waits, 0, sizeof waits);
    memset(arrived, 0, sizeof arrived), memset(passes, 0, sizeof passes);
    memcpy(block_of, blocks, count * sizeof *blocks);
    choose();
}
int steps(void) { return step; }
/* A barrier is passed by `warp`: where more come than it takes, perhaps in the place of another one. */
static void passed(int warp) {
    for (int i = 0; waits[warp] && i < warps; i++)
        if (passes[i] == waits[warp] && block_of[i] == block_of[warp]) {
            waits[i] = waits[warp];
            waits[warp] = passes[i] = 0;
            turn = turn == i ? warp : turn;
        }
    passes[warp] = 0;
}
/* 1: go on. 0: not yet. -1: leave, for the order is too long, or nobody can go on. kind: 0, an access; 1, the
 * end; 2 and 3, a barrier that waits or does not, of `quorum` warps. */
int ask(int warp, int kind, int barrier, int quorum) {
    pthread_mutex_lock(&mutex);
    passed(warp);
    int held = holds[warp], answer;
    if (held) {
        holds[warp] = 0;
        ended[warp] = kind == 1;
        choose();
    }
    answer = held && kind == 1 ? 1 : cut || stuck ? -1 : turn == warp;
    if (answer == 1 && kind == 1 && !held) { /* after a barrier, or without an access: a step of its own */
        ended[warp] = 1;
        choose();
    }
    if (answer == 1 && kind != 1) {
        holds[warp] = 1;
        if (kind >= 2) {
            int *count = &arrived[block_of[warp]][barrier];
            waits[warp] = kind == 2 ? barrier + 1 : 0;
            if (++*count == quorum) {
                *count = 0;
                for (int i = 0; i < warps; i++)
                    if (block_of[i] == block_of[warp] && waits[i] == barrier + 1)
                        passes[i] = waits[i], waits[i] = 0;
            }
            holds[warp] = 0; /* the others' turn, while it waits */
            choose();
        }
    }
    pthread_mutex_unlock(&mutex);
    return answer;
}
"""

_BEGINNING = """
#include <cuda/atomic>
typedef int (*scheduler)(int, int, int, int);
#define LEADS (threadIdx.x % 32 == 0)
#define TURN(warp) { int t; while ((t = ask(warp, 0, 0, 0)) == 0) __nanosleep(1); if (t < 0) return; }
__device__ int barrier_turn(scheduler ask, int warp, int kind, int barrier, int quorum) {
    int t = 1;
    if (LEADS)
        while ((t = ask(warp, kind, barrier, quorum)) == 0)
            __nanosleep(1);
    return __shfl_sync(0xffffffff, t, 0);
}
"""


class NotInCudaError(ValueError):
    """A test that no kernel in CUDA C says."""


@dataclass
class Test:
    name: str
    variables: dict[str, int] = field(default_factory=dict)
    registers: dict[tuple[int, str], int] = field(default_factory=dict)
    blocks: list[int] = field(default_factory=list)
    threads: list[list[str]] = field(default_factory=list)
    kind: str = ""
    condition: str = ""

    @classmethod
    def read(cls, name: str, text: str) -> Test:
        test = cls(name)
        text = re.sub(r'"[^"]*"|//[^\n]*', "", text)
        declared, rest = re.search(r"\{(.*?)\}(.*)", text, re.S).groups()
        if re.search(r"@|aliases", declared):
            raise NotInCudaError("two addresses of one memory, or a surface")
        for one in filter(None, map(str.strip, declared.split(";"))):
            left, value = map(str.strip, one.split("="))
            register = re.fullmatch(r"P?(\d+)\s*:\s*(\w+)", left)
            if register:
                test.registers[int(register[1]), register[2]] = int(value)
            else:
                test.variables[left] = int(value)
        program, test.kind, test.condition = re.search(
            r"(.*?)(~\s*exists|exists|forall)(.*)", rest, re.S
        ).groups()
        rows = [[cell.strip() for cell in row.split("|")] for row in program.split(";") if row.strip()]
        for place in rows[0]:
            cta, gpu = re.search(r"cta\s+(\d+)\s*,\s*gpu\s+(\d+)", place).groups()
            test.blocks.append((int(gpu), int(cta)))
        if len({gpu for gpu, _ in test.blocks}) > 1:
            raise NotInCudaError("two GPUs in one launch")
        known = sorted(set(test.blocks))
        test.blocks = [known.index(place) for place in test.blocks]
        test.threads = [[row[i] for row in rows[1:] if i < len(row) and row[i]] for i in range(len(rows[0]))]
        used = " ".join(" ".join(thread) for thread in test.threads)
        if re.search(r"\b(?:sust|suld|tld|cold|suatom|sured)\b|\.proxy\.", used):
            raise NotInCudaError("surfaces, textures and their proxies")
        return test

    def _place(self, variable: str) -> str:
        names = sorted(self.variables)
        if variable not in names:
            self.variables[variable] = 0
            return self._place(variable)
        return f"m[{_APART * names.index(variable)}]"

    def _atomic(self, variable: str, scope: str) -> str:
        return f"cuda::atomic_ref<int, {_SCOPES[scope]}>({self._place(variable)})"

    def _quorum(self, thread: int, words: list[str]) -> str:
        return words[2] if len(words) > 2 else str(self.blocks.count(self.blocks[thread]))

    def _statement(self, thread: int, line: str, has_barriers: bool) -> str:
        label = re.fullmatch(r"(LC\d+)\s*:", line)
        if label:
            return f"{label[1]}_{thread}:;"
        name, _, rest = line.partition(" ")
        words = [word.strip() for word in rest.split(",")]
        parts = name.split(".")
        kind, order = parts[0], parts[1] if len(parts) > 1 else ""
        memory_order = f"cuda::memory_order_{'seq_cst' if order == 'sc' else order}"
        if kind == "goto":
            return f"goto {words[0]}_{thread};"
        if kind in _COMPARISONS:
            asked = f"{words[0]} {_COMPARISONS[kind]} {words[1]}"
            if has_barriers:  # where the other lanes of the warp go along
                asked = f"__shfl_sync(0xffffffff, {asked}, 0)"
            return f"if ({asked}) goto {words[2]}_{thread};"
        if kind in ("add", "sub"):
            return f"{words[0]} = {words[1]} {'+' if kind == 'add' else '-'} {words[2]};"
        if name == "ld":
            return f"{words[0]} = {words[1]};"
        if kind == "bar":
            number = words[1] if len(words) > 1 else words[0]
            quorum = self._quorum(thread, words)
            how = 2 if parts[2] == "sync" else 3
            return (
                f"{{ int b = __shfl_sync(0xffffffff, {number}, 0), q = __shfl_sync(0xffffffff, {quorum}, 0); "
                f"if (barrier_turn(ask, {thread}, {how}, b, q) < 0) return; "
                f'asm volatile("barrier.{parts[2]} %0, %1;" :: "r"(b), "r"({_WARP} * q) : "memory"); }}'
            )
        if kind == "fence":
            said = f"cuda::atomic_thread_fence({memory_order}, {_SCOPES[parts[2]]});"
        elif kind == "ld":
            place = self._place(words[1])
            value = place if order == "weak" else f"{self._atomic(words[1], parts[2])}.load({memory_order})"
            said = f"TURN({thread}) {words[0]} = {value};"
        elif kind == "st":
            said = (
                f"{self._place(words[0])} = {words[1]};"
                if order == "weak"
                else f"{self._atomic(words[0], parts[2])}.store({words[1]}, {memory_order});"
            )
            said = f"TURN({thread}) {said}"
        elif kind in ("atom", "red"):
            place = words[0] if kind == "red" else words[1]
            given = words[1:] if kind == "red" else words[2:]
            atomic = self._atomic(place, parts[2])
            result = "" if kind == "red" else f"{words[0]} = "
            if parts[3] == "cas":
                said = (
                    f"{{ int e = {given[0]}; "
                    f"{atomic}.compare_exchange_strong(e, {given[1]}, {memory_order}); {result}e; }}"
                )
            else:
                call = "exchange" if parts[3] == "exch" else f"fetch_{parts[3]}"
                said = f"{result}{atomic}.{call}({given[0]}, {memory_order});"
            said = f"TURN({thread}) {said}"
        else:
            raise NotInCudaError(f"`{line}`")
        return f"if (LEADS) {{ {said} }}" if has_barriers else said

    def function(self, name: str) -> str:
        """The test as a function of the device, which each of its warps calls."""
        lines = [f"__device__ __noinline__ void {name}(int thread, int *m, int *r, scheduler ask) {{"]
        for thread, instructions in enumerate(self.threads):
            text = "\n".join(instructions)
            has_barriers = "bar." in text
            used = sorted({*re.findall(r"\br\d+\b", text), *(r for t, r in self.registers if t == thread)})
            lines.append(f"if (thread == {thread}) {{")
            if not has_barriers:
                lines.append("if (!LEADS) return;")
            lines += [f"int {of} = {self.registers.get((thread, of), 0)};" for of in used]
            lines += [self._statement(thread, line, has_barriers) for line in instructions]
            results = " ".join(f"r[{_APART * thread + int(of[1:])}] = {of};" for of in used)
            lines.append(f"if (LEADS) {{ {results} while (ask({thread}, 1, 0, 0) == 0) __nanosleep(1); }}")
            lines.append("}")
        return "\n".join([*lines, "}"])

    @property
    def registers_asked(self) -> list[int]:
        found = re.findall(r"P?(\d+)\s*:\s*r(\d+)", self.condition)
        return [_APART * int(thread) + int(number) for thread, number in found]

    @property
    def asked(self) -> Callable[[np.ndarray, np.ndarray], bool]:
        """Whether an execution is the one that the condition asks about: for `forall`, one that breaks it."""
        names = sorted(self.variables)
        text = re.sub(r"(?<![!=<>])=(?!=)", "==", self.condition)
        text = text.replace("/\\", " and ").replace("\\/", " or ").replace("~", " not ")
        text = re.sub(r"P?(\d+)\s*:\s*r(\d+)", lambda of: f"r[{_APART * int(of[1]) + int(of[2])}]", text)
        for number, name in enumerate(names):
            text = re.sub(rf"\b{name}\b(?!\[)", f"m[{_APART * number}]", text)
        text = " ".join(text.split())
        negated = f"not ({text})" if self.kind == "forall" else text
        return eval(f"lambda m, r: bool({negated})")  # the conditions of a suite that its user has fetched

    def is_allowed(self, holds: bool) -> bool:
        """Whether the model allows the execution asked about. holds: its verdict on the condition."""
        return holds == (self.kind == "exists")


class Orders:
    """The scheduler's library, and all the orders of a test."""

    def __init__(self, folder: Path):
        source = folder / "scheduler.c"
        source.write_text(_SCHEDULER)
        subprocess.run(
            ["cc", "-O2", "-shared", "-fPIC", "-pthread", str(source), "-o", str(folder / "scheduler.so")],
            check=True,
        )
        self.library = ctypes.CDLL(str(folder / "scheduler.so"))
        self.address = ctypes.cast(self.library.ask, ctypes.c_void_p).value
        self.order = (ctypes.c_int * 128).in_dll(self.library, "order")
        self.choices = (ctypes.c_int * 128).in_dll(self.library, "choices")

    def each(self, test: Test, backwards: bool) -> Iterator[None]:
        """Sets up one order after another, while the caller runs each of them."""
        blocks = (ctypes.c_int * len(test.blocks))(*test.blocks)
        prefix = 0
        while True:
            self.library.begin(len(test.blocks), blocks, prefix, _MOST_STEPS, backwards)
            yield
            step = self.library.steps() - 1
            while step >= 0 and self.order[step] + 1 >= self.choices[step]:
                step -= 1
            if step < 0:
                return
            self.order[step] += 1
            prefix = step + 1

    @property
    def is_cut(self) -> bool:
        return bool(ctypes.c_int.in_dll(self.library, "cut").value)


@dataclass
class Ran:
    seen: bool = False
    orders: int = 0
    ended: int = 0  # orders that came to their end
    told: str = ""
    is_whole: bool = True


def run(kernel, number: int, test: Test, orders: Orders) -> Ran:
    ran, asked = Ran(), test.asked
    per_block = max(Counter(test.blocks).values())
    threads = np.full(_APART * (max(test.blocks) + 1), -1, np.int32)
    for block in set(test.blocks):
        of = [thread for thread, at in enumerate(test.blocks) if at == block]
        threads[_APART * block : _APART * block + len(of)] = of
    for checked, backwards in ((False, False), (False, True), (True, False), (True, True)):
        if backwards and (ran.told if checked else ran.is_whole):
            continue
        most = _MOST_CHECKED if checked else _MOST_ORDERS
        for count, _ in enumerate(orders.each(test, backwards)):
            if count == most:
                ran.is_whole = ran.is_whole and checked
                break
            memory = np.zeros(_APART * max(1, len(test.variables)), np.int32)
            for place, name in enumerate(sorted(test.variables)):
                memory[_APART * place] = test.variables[name]
            registers = np.full(_APART * len(test.blocks), _NOT_WRITTEN, np.int32)
            try:
                kernel[max(test.blocks) + 1, _WARP * per_block](
                    number, memory, registers, threads, orders.address, unchecked=not checked
                )
            except cudasim.KernelFault as fault:
                if re.search("race|deadlock", fault.kind):
                    ran.told = ran.told or fault.kind
                    if checked:
                        break
                    have_ended = (registers[test.registers_asked] != _NOT_WRITTEN).all()
                    ran.seen = ran.seen or bool(have_ended and asked(memory, registers))
                continue
            if not checked:
                ran.orders += 1
                ran.ended += not orders.is_cut
                ran.seen = ran.seen or (not orders.is_cut and asked(memory, registers))
    return ran


def _kernel(tests: list[Test]):
    functions = [test.function(f"test_{number}") for number, test in enumerate(tests)]
    cases = "\n".join(f"case {of}: test_{of}(thread, m, r, ask); break;" for of in range(len(tests)))
    return cudasim.kernel(
        _BEGINNING
        + "\n".join(functions)
        + f"""
__global__ void litmus(int test, int *m, int *r, const int *threads, unsigned long long scheduler_address) {{
    int thread = threads[{_APART} * blockIdx.x + threadIdx.x / 32];
    scheduler ask = (scheduler)scheduler_address;
    if (thread < 0)
        return;
    switch (test) {{
{cases}
    }}
}}
"""
    )


def _result(allowed: bool, ran: Ran) -> str:
    if ran.seen:
        return "seen" if allowed else "DISAGREES"
    if not allowed:
        return "not seen"
    if ran.ended == 0:
        return "hangs"
    return "told" if ran.told else "weak"


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("--only", nargs="*", default=[], help="tests by name, recorded nowhere")
    given = parser.parse_args()
    verdicts = dict(
        line.split(",") for line in (given.folder / _VERDICTS).read_text().split() if line.count(",") == 1
    )
    rows, tests = [], []
    for path, verdict in sorted(verdicts.items()):
        name = path.removeprefix("litmus/PTX/").removesuffix(".litmus")
        if given.only and name not in given.only:
            continue
        try:
            test = Test.read(name, (given.folder / path).read_text())
            test.function("tried")
            tests.append((test, verdict == "1"))
        except NotInCudaError as why:
            rows.append((name, verdict, "not in CUDA C", 0, True, str(why)))
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore", KernelWarning)
        orders, kernel = Orders(Path(folder)), _kernel([test for test, _ in tests])
        for number, (test, holds) in enumerate(tests):
            ran = run(kernel, number, test, orders)
            result = _result(test.is_allowed(holds), ran)
            rows.append((test.name, int(holds), result, ran.orders, ran.is_whole, ran.told))
            print(*rows[-1], sep="  ", flush=True)
    print(Counter(row[2] for row in rows))
    if not given.only:
        when = when_recorded()
        with lzma.open(RESULT, "wt", newline="") as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow(("test", "verdict", "result", "orders", "all_orders", "told", *when))
            writer.writerows((*row, *when.values()) for row in sorted(rows))


if __name__ == "__main__":
    main()
