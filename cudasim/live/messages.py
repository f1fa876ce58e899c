"""Turns a compiler's messages into useful ones: each error with its line, and what to write instead.

A C++ compiler follows an error with pages of notes, which are left out. Missing features have their CUDA
names.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator

from cudasim.live.source import Included
from cudasim.live.text import blanked, line_of, open_braces, without_directives

LAUNCH_CODE = "launch code"  # the file name of the code that is added after the source
MOST_ERRORS = 5

# What pasted code may use but the simulator lacks, and what to write instead.
_HINTS = (
    (r"^storage size of ['‘]\w+['’] isn",
     "an array without a size: shared memory whose size the launch gives is `extern __shared__`"),
    (r"<<<", "a kernel launched from a kernel (dynamic parallelism): launch it from Python instead"),
    (r"\bcudaMalloc|\bcudaMemcpy(?!\w*Kind)|\bcudaFree\b|\bcudaDeviceSynchronize",
     "a function of the host's runtime in device code: allocate with torch or numpy, launch from Python"),
    (r"\b(?:wgmma|tcgen05|cp\.async\.bulk|mbarrier|setmaxnreg|elect\.sync)\b",
     "inline PTX of Hopper's or Blackwell's own: call the functions of sim/ptx/ instead, as in\n"
     '      #include "sim/ptx/mbarrier.h"'),
    (r"\basm\b", "inline PTX, which the simulator does not run: write CUDA C++, or an intrinsic"),
    (r"\b(?:cute|cutlass)\b|\b(?:CUTLASS|CUTE)_\w+|\b(?:MMA|Copy)_Atom\b",
     "CUTLASS: its headers are not here, and they are inline PTX in the end"),
    (r"\b(?:torch|at|c10)\s*::|['‘](?:torch|at|c10)['’]|\bAT_\w+|\bTORCH_\w+",
     "PyTorch's C++ interface is the host's: give the kernel pointers and sizes, and tensors from Python"),
    (r"\bcudaGraph\w*", "CUDA graphs are the host's: launch the kernels from Python, one after the other"),
    (r"\b(?:cudnn|cublas|cusparse|cusolver|cufft)[A-Z]\w*", "a library of the host's: call torch instead"),
    (r"\btex2Dgather\b|\btexCubemap\w*|\bsurfCubemap\w*",
     "texture gathers and cubemaps are not simulated: read the texels by tex2D"),
    (r"\bcurandState(?:Scrambled)?Sobol\w*|\bcurandStateMRG\w*|\bcurandStateMtgp\w*",
     "curand's Sobol, MRG and Mersenne generators are not simulated: use the Philox one"),
    (r"\b__(?:any|all|ballot|shfl(?:_up|_down|_xor)?)\s*\(",
     "votes and shuffles without _sync went with Volta: write __any_sync(0xffffffff, ...) and so on"),
    (r"\bthread_block_tile_memory\b|\bblock_tile_memory\b",
     "tiles of more than a warp are not simulated: use tiles of at most 32 threads"),
    (r"\bpipeline_role\b",
     "cuda::pipeline with roles is not simulated: every thread is producer and consumer"),
    (r"\bthrust\s*::", "Thrust is the host's: call torch instead"),
    (r"\bcub\s*::\s*Device", "a device-wide primitive of CUB is the host's: call torch instead"),
    (r"\bnvcuda\s*::\s*experimental", "wmma::experimental: use int8, half, bfloat16, tf32 or double"),
    (r"\bsurface\s*<", "a surface reference (CUDA 12 removed them): take a pointer"),
    (r"\bnvshmem|\bnccl\w+", "communication between GPUs is not simulated"),
)  # fmt: skip


def unclosed_brace(source: str) -> int:
    """The line of the brace that is still open at the source's end, or 0."""
    text = without_directives(blanked(source))
    opened = open_braces(text)
    return line_of(text, opened[-1]) if opened else 0


def excerpt(read: Included, file: str, line: int, column: int = 0) -> str:
    """A line of the source with its number, and a mark below the column."""
    lines = read.texts.get(file, "").splitlines()
    if not 0 < line <= len(lines):
        return ""
    shown = [f"{line:>5} | {lines[line - 1]}"]
    # In a rewritten line the columns differ.
    if column > 0 and lines[line - 1] in read.text:
        before = re.sub(r"[^\t]", " ", lines[line - 1][: column - 1])
        shown.append(f"      | {before}^")
    return "\n".join(shown)


_UNDECLARED = (
    r"['‘](?:\w+::)*(\w+)['’](?: was not declared| has not been declared| does not name| is not a member|"
    r" in namespace .* does not name| is not a namespace)",
    # clang's words for the same
    r"use of undeclared identifier ['‘](?:\w+::)*(\w+)['’]",
    r"(?:no (?:member|template|type) named|unknown type name) ['‘](?:\w+::)*(\w+)['’]",
    r"variable or field ['‘](\w+)['’] declared void",
    r"invalid use of incomplete type ['‘](?:class|struct) (?:\w+::)*(\w+)",
    r"there are no arguments to ['‘](\w+)['’]",
)


_NO_MEMBER = re.compile(
    r"['‘](?:const )?(?:struct |class )?(?P<type>[\w:]+)['’](?: \{aka [^}]*\})? "
    r"has no member named ['‘](?P<name>\w+)['’]"
    r"|no member named ['‘](?P<name_>\w+)['’] in ['‘](?P<type_>[\w:]+)['’]"
)

# The words of CUDA C that are most often misspelt.
_WORDS = (
    *(
        "float",
        "double",
        "int",
        "unsigned",
        "char",
        "bool",
        "long",
        "short",
        "void",
        "const",
        "return",
        "while",
    ),
    *("half", "float2", "float4", "int4", "size_t", "int64_t", "uint32_t", "uint64_t"),
    *("__global__", "__device__", "__shared__", "__restrict__", "__launch_bounds__"),
    *("threadIdx", "blockIdx", "blockDim", "gridDim", "warpSize"),
    *("__syncthreads", "__syncwarp", "__threadfence", "__shfl_sync", "__shfl_down_sync", "__shfl_up_sync"),
    *("__shfl_xor_sync", "__ballot_sync", "__activemask", "atomicAdd", "atomicMax", "atomicMin", "atomicCAS"),
    *("sqrtf", "rsqrtf", "expf", "logf", "fmaxf", "fminf", "fabsf", "tanhf", "printf"),
)
_READ_ONLY = re.compile(
    r"(?:assignment|increment|decrement) of read-only \w+ ['‘]\W*(\w+)|read-only variable is not assignable|"
    r"cannot assign to .*const-qualified"
)


def nearest(name: str, names: Iterator[str] | tuple[str, ...] | set[str]) -> str:
    """The name that somebody who typed `name` most likely meant; "" if none is near."""
    names = [each for each in names if each != name]
    by_case = {each.lower(): each for each in names}
    # Two swapped letters weigh more in a short name.
    found = difflib.get_close_matches(name.lower(), by_case, 1, 0.66 if len(name) < 5 else 0.78)
    return by_case[found[0]] if found else ""


def _meant(name: str, read: Included) -> str:
    """The likely meaning of an undeclared name: a word of CUDA, or a name from elsewhere in the source."""
    text = blanked(read.text)
    others = {
        word for word in re.findall(r"\b[A-Za-z_]\w{2,}\b", text) if text.count(word) > text.count(name)
    }
    return nearest(name, _WORDS) or nearest(name, others)


def _operand_of(before: str, after: str) -> str:
    """The variable that an operator changes, from the text on both sides; "it" if that is unclear."""
    name = r"\b(?!return\b|else\b|do\b)([A-Za-z_]\w*)"
    found = re.search(rf"{name}(?:\s*\[[^]]*\]+|\s*(?:\.|->)\s*\w+)*\s*$", before)
    found = found or re.match(rf"(?:\+\+|--)[\s*(]*{name}", after)
    return found[1] if found else "it"


def _of_read_only(message: str, line: str, column: int) -> str:
    """A message about a write to a const variable, with its name; "" for other messages."""
    found = _READ_ONLY.search(message)
    if found is None:
        return ""
    # The compiler's own message is about addresses. Clang's leaves out the name and points at the operator.
    name = found[1] or _operand_of(line[: max(column - 1, 0)], line[max(column - 1, 0) :])
    return f"{name} is const, which makes it an input: a kernel reads it and cannot write to it"


def _hint(line: str, message: str, read: Included) -> str:
    for text in (line, message):
        for pattern, hint in _HINTS:
            # A program has host code, for which Python has no replacement.
            is_for_cells = "torch" in hint or "Python" in hint
            if re.search(pattern, text) and not (read.is_program and is_for_cells):
                return f"      {hint}"
    if found := _NO_MEMBER.search(message):
        name, of = found["name"] or found["name_"], found["type"] or found["type_"]
        if of.endswith(("uint3", "dim3")):
            meant = f": did you mean {name.lower()}?" if name.lower() in "xyz" else ""
            return f"      threadIdx, blockIdx, blockDim and gridDim have the members x, y and z{meant}"
        return ""
    if "forbids declaration" in message or "a type specifier is required" in message:
        return "      the type of what it returns is missing: a kernel is `__global__ void name(...)`"
    found = [match for pattern in _UNDECLARED if (match := re.search(pattern, message))]
    if not found:
        return ""
    name, host_functions = found[0][1], dict(read.left_out.functions)
    if name in host_functions:
        return f"      {name}() (line {host_functions[name]}) is host code here: write __device__ before it"
    if "did you mean" in message and "'sim_" not in message and "‘sim_" not in message:
        return ""
    if meant := _meant(name, read):
        return f"      nothing declares {name}: did you mean {meant}?"
    if "declared void" in message:
        return f"      a type among the parameters of {name}() is not declared before it; {_where_from(read)}"
    return f"      nothing that the compiler was given declares {name}; {_where_from(read)}"


def _where_from(read: Included) -> str:
    """A hint about an undeclared name."""
    missing = list(dict.fromkeys(name for name, _ in read.left_out.headers))
    if missing:
        shown = ", ".join(missing[:3]) + (" ..." if len(missing) > 3 else "")
        return (
            f"these headers were not found: {shown} "
            "(`%%cuda -I folder` and cudasim.kernel(..., include=[folder]) say where they are)"
        )
    return "declare it before its first use, or include what does"


def constructs(source: str) -> list[tuple[str, int]]:
    """The constructs of a source that the simulator cannot run, with their lines."""
    text = blanked(source)
    return [(hint, line_of(text, m.start())) for p, hint in _HINTS if (m := re.search(p, text))]


_ERROR = re.compile(
    r"^(?P<file>[^\s:][^:\n]*):(?P<line>\d+)(?::(?P<column>\d+))?: (?:fatal )?error: (?P<message>.*)$"
)
_NVCC_ERROR = re.compile(
    r"^(?P<file>[^\s(][^(\n]*)\((?P<line>\d+)\): (?:catastrophic )?error.*?: (?P<message>.*)$", re.M
)


def nvcc_errors(said: str) -> Iterator[tuple[str, int, str]]:
    """The errors among nvcc's messages: file, line and message of each."""
    return ((error["file"], int(error["line"]), error["message"]) for error in _NVCC_ERROR.finditer(said))


def _names_a_type(message: str) -> bool:
    """Whether an error names the unknown name of a declaration; gcc's first error names only the
    declaration."""
    return "was not declared" in message or "has not been declared" in message


def _follows(message: str, lines: list[str]) -> bool:
    """Whether an error about a name follows from an earlier one, in a line that would declare the name."""
    found = next((match for pattern in _UNDECLARED if (match := re.search(pattern, message))), None)
    return found is not None and any(re.search(rf"\b{found[1]}\s*(?:=(?!=)|;|\[)", line) for line in lines)


def explained(said: str, read: Included) -> str:
    """The errors among a compiler's messages, each with its line and a hint; all messages if no error is
    found.
    """
    main = next(iter(read.texts))
    opened = unclosed_brace(read.texts[main])
    if opened:
        return f"{main}:{opened}: the brace that opens here is never closed"
    undefined = list(dict.fromkeys(re.findall(r"undefined reference to [`'‘]([^'’\n]+)['’]", said)))
    if undefined:
        return "\n".join(
            f"error: {name} is declared and called, and its definition is in another file: put it here"
            for name in undefined[:MOST_ERRORS]
        )
    if "relocation truncated to fit" in said:
        return "error: variables outside of functions need more than the 2 GiB that a source has for them"
    if _NVCC_ERROR.search(said) or not re.search(r"error:", said):
        return said
    pieces, seen, required_from = [], set(), None
    lines = said.splitlines()
    named = {(e["file"], e["line"]) for e in map(_ERROR.match, lines) if e and _names_a_type(e["message"])}
    for text in lines:
        place = re.match(r"^([^\s:][^:\n]*):(\d+):(?:(\d+):)?\s+required from", text)
        if place and place[1] in read.texts:
            required_from = (place[1], int(place[2]), int(place[3] or 0))
        error = _ERROR.match(text)
        if error is None or ("declared void" in error["message"] and (error["file"], error["line"]) in named):
            continue
        file, line, column = error["file"], int(error["line"]), int(error["column"] or 0)
        if file not in read.texts and required_from:
            file, line, column = required_from
        required_from = None
        text = read.texts.get(file, "").splitlines()[line - 1 : line]
        of_kernel = _of_kernel(error["message"])
        message = (
            _of_read_only(error["message"], "".join(text), column) or of_kernel or _plain(error["message"])
        )
        if (file, line) in seen or (file == LAUNCH_CODE and pieces):
            continue
        if of_kernel and file not in read.texts:  # the kernel is named by the code around it
            pieces += [] if pieces else [f"error: {of_kernel}"]
            continue
        if _follows(
            error["message"], [read.texts[f].splitlines()[at - 1] for f, at in seen if f in read.texts]
        ):
            continue
        seen.add((file, line))
        shown = excerpt(read, file, line, column)
        hint = _hint(shown, error["message"], read)
        if file == LAUNCH_CODE:
            pieces.append(_of_launch(message))
            continue
        pieces.append("\n".join(filter(None, (f"{file}:{line}:{column}: error: {message}", shown, hint))))
        if len(pieces) == MOST_ERRORS:
            break
    return "\n".join(pieces) if pieces else "\n".join(said.splitlines()[:20])


def warnings_about(said: str, read: Included) -> str:
    """A C++ compiler's warnings about the user's own lines; all messages of another compiler."""
    kept, is_kept = [], True
    for line in said.splitlines():
        place = re.match(r"([^\s:][^:\n]*):\d+:(?:\d+:)? (?P<kind>warning|note|error): ", line)
        if place:
            is_own = place[1] in read.texts
            is_kept = is_own and (place["kind"] != "note" or is_kept)
        elif re.match(
            r"In file included from |In (?:member )?function |cc1plus:|(?:\S+: )?In |\s+from ", line
        ):
            is_kept = False
        elif re.match(r"\s+inlined from ", line):
            continue
        if is_kept:
            kept.append(line)
    return "\n".join(kept)


# What the compiler says of the calls that a kernel and its launches become, and what it means.
_RETURNS = re.compile(r"\bsim_(?:known_kernel|entered|launcher)\b.*?(?P<type>\w[\w:<>*& ]*) \([*&]\)\(")
_GIVEN = re.compile(r"no match for call to ['‘]\(sim_typed_launch<(?P<types>.*)>\) \((?P<given>.*)\)['’]")
_NAMED_MEMORY = re.compile(r"(\bcuda(?:Malloc|Managed)\w*\(.*), (?:\w+, )?const char \[\d+\]\)")


def _of_kernel(message: str) -> str:
    """What is wrong with a kernel's type or with a launch of it, in CUDA's words; "" for other messages."""
    returns = _RETURNS.search(message)
    if returns and returns["type"] != "void":
        return f"a kernel returns nothing: write `__global__ void`, not {returns['type']}"
    if reference := re.search(r"forming pointer to reference type ['‘](.*)['’]", message):
        return (
            f"a kernel's parameter cannot be a reference, here {reference[1]}: pass the value, or a pointer"
        )
    if "sim_configuration(" in message:
        return "a launch is kernel<<<grid, block, shared bytes, stream>>>(...); the last two may be left out"
    if launch := _GIVEN.search(message):
        takes = _apart(launch["types"])[1:]
        return f"the launch gives ({launch['given']}), and the kernel takes ({', '.join(takes)})"
    return ""


def _apart(types: str) -> list[str]:
    """A list of types, at the commas that are inside of none."""
    depth, parts = 0, [""]
    for letter in types:
        depth += (letter in "<({") - (letter in ">)}")
        if letter == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += letter
    return [part.strip() for part in parts]


def _of_launch(message: str) -> str:
    """Rewrites the compiler's messages about launching code to be about the kernel."""
    name = re.search(
        r"['‘](?:::)?(\w+)['’] (?:was not declared|has not been declared|is not a member)", message
    ) or re.search(r"(?:no member named|use of undeclared identifier) ['‘](\w+)['’]", message)
    if "sim_enter" in message:
        return (
            "error: the arguments of the kernel's template do not fit its parameters: give others, as in "
            "kernel[grid, block](..., template=(32, 'float'))"
        )
    if name:
        return (
            f"error: {name[1]} is not there for the compiler: an #if leaves it out, or it is a name of the "
            "host's among a template's arguments; give these by template=(...)"
        )
    return f"error: {message}, in the arguments of the kernel's template or in its parameters"


def _plain(message: str) -> str:
    """A message with CUDA's names instead of the simulator's."""
    names = (("sim_float16<sim_binary16>", "__half"), ("sim_float16<sim_bfloat16>", "__nv_bfloat16"))
    for ours, name in names:
        message = message.replace(ours, name)
    message = re.sub(r"; did you mean ['‘]sim_\w+['’]\?", "", _NAMED_MEMORY.sub(r"\1)", message))
    return message if len(message) < 300 else message[:300] + "…"
