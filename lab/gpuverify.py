"""Runs the CUDA tests of GPUVerify under the checker, and compares what it tells with their verdicts.

    python lab/gpuverify.py DIR [name ...]

DIR: a clone of https://github.com/mc-imperial/gpuverify, whose `testsuite/CUDA` has a kernel in each folder:
its first line says whether the verifier accepts it, its second how it is launched. The result is
`lab/records/gpuverify.csv.xz`: names and verdicts, not code. Names run these alone; the rows of others stay.

A verifier takes any arguments that a kernel's __requires allow. Here they are made: arrays with room, whose
values are small numbers, and for integers the numbers of the kernel's own text, their sums and differences.
Of all sets that keep the preconditions the worst thing that was told counts. What a verifier knows of other
threads (__uniform_int, __other_int, __no_read and so on) has no value in a run and is taken to be true.

The names are divided by their SHA-1: those that begin with an even digit are `ours`, to be looked at while
the simulator is worked on, the rest are kept `aside`.
"""

from __future__ import annotations

import argparse
import itertools
import math
import re
import tempfile
import warnings
from pathlib import Path

import pandas as pd
import torch
from recorded import is_ours

import cudasim
from cudasim.building.library import BuildError
from cudasim.counting.counted import recording
from fgn.measure.software import when_recorded

RESULT = Path(__file__).parent / "records" / "gpuverify.csv.xz"
MOST_THREADS = 1024  # of a block: some tests ask for more than any GPU has
MOST_BLOCKS = 128
MOST_CALLS = 60
ROOMS = (4, 512)  # elements of an array for each thread: the next where a kernel leaves the first
PRECONDITION = "the kernel's precondition"

# What GPUVerify has beside CUDA. An assertion is the only part of it that a run can see to be false.
VOCABULARY = """
#include <assert.h>
{headers}
{defines}
__device__ unsigned gv_asked;
/* A value that nobody knows, so that loops around it end. */
__device__ inline unsigned gv_any() {{ return atomicAdd(&gv_asked, 1u) * 2654435761u >> 31; }}
#undef __assume
#define __requires(x) assert((x) || !"a function's requirement")
#define __assume(x) __requires(x)
#define __assert(x) assert(x)
#define __invariant(x) assert(x)
#define __global_invariant(x) ((void)0)
#define __ensures(x) ((void)0)
#define __requires_fresh_array(x) ((void)0)
#define __axiom(x) static_assert(true, "")
#define __implies(a, b) (!(a) || (b))
#define __enabled() true
#define __uniform_int(x) true
#define __uniform_bool(x) true
#define __distinct_int(x) true
#define __no_read(x) true
#define __no_write(x) true
#define __read(x) false
#define __read_implies(x, of) true
#define __write_implies(x, of) true
#define __ptr_offset_bytes(x) 0
#define __read_offset_bytes(x) 0
#define __write_offset_bytes(x) 0
#define __mod_pow2(x, y) ((x) % (y))
#define __write(x) false
#define __all(x) __all_sync(0xffffffffu, x)
"""
# synchronize() is GPUVerify's name for sync().
HEADERS = {
    "cooperative_groups": """<cooperative_groups.h>
namespace cooperative_groups {
template <class Group> __device__ void synchronize(const Group &group) { group.sync(); }
}""",
    "curand": "<curand_kernel.h>",
}


class NoCall(Exception):
    """What a run cannot say."""


class Test:
    def __init__(self, file: Path, name: str):
        self.name, self.text = name, file.read_text()
        first, second = self.text.splitlines()[:2]
        self.expects = "pass" if "pass" in first.lower() else first.partition(":")[2]
        self.block = self._sizes("blockDim", second, MOST_THREADS)
        self.grid = self._sizes("gridDim", second, MOST_BLOCKS)
        self.defines = re.findall(r"-D(\w+)=(\w+)", second)
        self.required = dict(re.findall(r"__requires\(\s*(\w+) == ([\w.]+)", self.text))

    def _sizes(self, name: str, options: str, most: int) -> tuple[int, ...]:
        """A launch size, halved where it is more than that."""
        sizes = [int(size) for size in re.findall(r"\d+", re.search(rf"{name}=(\[.*?\]|\d+)", options)[1])]
        while math.prod(sizes) > most:
            sizes[sizes.index(max(sizes))] //= 2
        return tuple(sizes)

    def kernel(self, folder: Path) -> cudasim.live.kernels.Kernel:
        defines = "\n".join(f"#define {name} {value}" for name, value in self.defines)
        headers = "\n".join(f"#include {header}" for word, header in HEADERS.items() if word in self.text)
        (folder / "gpuverify.h").write_text(VOCABULARY.format(headers=headers, defines=defines))
        lines = self.text.splitlines()
        lines[0] = '#include "gpuverify.h"'
        source = "\n".join(lines).replace("#include <cuda.h>", "").replace('#include "cuda.h"', "")
        # A kernel's own requirements are preconditions, and no mistakes of it.
        head, kernel, body = source.partition("__global__")
        source = (
            head
            + kernel
            + re.sub(r"__(?:requires|assume)\((.*)\);", rf'assert(({chr(92)}1) || !"{PRECONDITION}");', body)
        )
        source = re.sub(r"\bclass (?=\w+ {)", "struct ", source)  # Python fills public members alone
        source += "".join(f"\n{undefined}" for undefined in self._undefined())
        return cudasim.kernel(self._with_functions(source), file="kernel.cu", include=[folder])

    def _undefined(self):
        """Functions that the test declares alone: they do nothing, or return anything."""
        for result, name, parameters in re.findall(r"__device__ (\w+) (\w+)\(([^)]*)\);", self.text):
            if not re.search(rf"\b{name}\([^)]*\)\s*{{", self.text):
                does = "" if result == "void" else f"return ({result})gv_any();"
                yield f"__device__ {result} {name}({parameters}) {{ {does} }}"

    def _with_functions(self, source: str) -> str:
        """With a kernel around the test's own that hands over the functions that its pointers must have."""
        head = re.search(r"__global__ void\s+(\w+)\s*\(([^)]*)\)", source)
        parameters = [each.strip() for each in head[2].split(",")] if head else []
        given = {
            each: self.required[each.split()[-1]]
            for each in parameters
            if each.startswith("funcType") and each.split()[-1] in self.required
        }
        if not given:
            return source
        own = ", ".join(each for each in parameters if each not in given)
        passed = ", ".join(given.get(each, re.split(r"\W+", each)[-1]) for each in parameters)
        inner = source.replace("__global__", "__device__")
        return f"{inner}\n__global__ void {head[1]}_with({own}) {{ {head[1]}({passed}); }}"

    def numbers(self, name: str) -> list[int]:
        """What an integer may be: what is required, or the text's numbers and what they make."""
        if name in self.required:
            value = self.required[name].replace("blockDim.x", str(self.block[0]))
            return [int(value)]
        body = self.text[self.text.index("__global__") :]
        own = sorted({int(number) for number in re.findall(r"(?<![\w.])\d{1,4}\b", body)} | {0, 1})
        made = {abs(a - b) for a in own for b in own} | {a + b for a in own for b in own}
        return [1, *(each for each in (*own, *sorted(made - set(own))) if each != 1)]


def value_of(kind, name: str, test: Test, room: int) -> list:
    """The values that a parameter of this type is given, one after the other."""
    if kind.kind == "p" and kind.item.kind == "x":
        return [None]
    if kind.kind == "p" and kind.item.kind == "p":
        return [[value_of(kind.item, name, test, room)[0]]]
    if kind.kind == "p":
        dtype = getattr(torch, kind.item.dtype or "uint8")
        count = room * (kind.item.count if kind.item.dtype else kind.item.size)
        return [(torch.arange(count) % 3).to(dtype)]
    if kind.kind == "a":
        return [[value_of(kind.item, name, test, room)[0]] * min(kind.count, 5)]
    if kind.kind == "s":
        if not kind.members:
            raise NoCall(f"{kind} has no members that Python can fill")
        return [{of.name: value_of(of.type, of.name, test, room)[0] for of in kind.members}]
    return test.numbers(name) if kind.kind in "iu" else [1]


def said_of_call(kernel, test: Test, arguments) -> tuple[str, str]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", cudasim.KernelWarning)
        try:
            kernel[test.grid, test.block](*arguments)
        except cudasim.KernelFault as fault:
            if PRECONDITION in str(fault):
                return "precondition", ""
            return fault.kind, str(fault)
    told = [str(each.message) for each in caught if issubclass(each.category, cudasim.KernelWarning)]
    return ("warning", told[0]) if told else ("silent", "")


def said_of(test: Test) -> tuple[str, str]:
    """What the checker says: the first fault, "warning" or "silent", and its message."""
    with tempfile.TemporaryDirectory() as folder:
        try:
            kernel = test.kernel(Path(folder))
            with recording(only_checks=True):
                loaded = kernel._program.load("cpu", kernel._instance((), None))
        except (BuildError, ValueError) as error:
            return "refused", str(error)
        (entry,) = loaded.entries.values()
        for name in re.findall(r"__constant__ \w+ (\w+)", test.text):
            kernel.symbols[name].fill_(1)  # a program may have set them to anything
        for name in re.findall(r"texture<unsigned, 1, \w+> (\w+)", test.text):
            kernel.symbols.bind(name, cudasim.Texture(torch.arange(100).to(torch.uint32)))
        names = [parameter.name for parameter in kernel._signature.parameters]
        threads = math.prod((*test.grid, *test.block))
        found = ("no call", "")
        for room in ROOMS:
            sets = itertools.product(
                *(
                    value_of(of, name, test, room * threads)
                    for name, of in zip(names, entry.types, strict=True)
                )
            )
            for arguments in itertools.islice(sets, MOST_CALLS):
                said = said_of_call(kernel, test, arguments)
                if said[0] not in ("silent", "warning", "precondition"):
                    found = said
                    break
                if said[0] == "warning" or (said[0] == "silent" and found[0] != "warning"):
                    found = said
            if found[0] != "out of bounds":
                break
        return found


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("directory", type=Path)
    parser.add_argument("names", nargs="*")
    options = parser.parse_args()
    warnings.filterwarnings("ignore", category=UserWarning)  # the compiler's
    root = options.directory / "testsuite" / "CUDA"
    rows = []
    for file in sorted(root.rglob("kernel.cu")):
        name = str(file.parent.relative_to(root))
        if options.names and name not in options.names:
            continue
        test = Test(file, name)
        try:
            said, why = said_of(test)
        except NoCall as error:
            said, why = "no call", str(error)
        half = "ours" if is_ours(name) else "aside"
        rows.append((name, half, test.expects, said, " ".join(why.split())[:200]))
        print(f"{name:50} {half:5} {test.expects:18} {said:20} {rows[-1][-1][:150]}", flush=True)
    table = pd.DataFrame(rows, columns=["kernel", "half", "verdict", "said", "why"])
    table = table.assign(**when_recorded())
    if options.names and RESULT.is_file():
        there = pd.read_csv(RESULT, keep_default_na=False)
        table = pd.concat([there[~there["kernel"].isin(table["kernel"])], table]).sort_values("kernel")
    table.to_csv(RESULT, index=False)
    print(pd.crosstab([table["half"], table["verdict"]], table["said"]).to_string())


if __name__ == "__main__":
    main()
