"""Inline PTX as C++: `asm volatile("ldmatrix... {%0}, [%1];" : "=r"(x) : "r"(a))` becomes calls of the
functions in cudasim/sim/cpp/ptx.hpp, one for each instruction.

An asm statement becomes a block. Its operands are copied into variables, which stand for registers and have
the types of the operands' constraints; the instructions read and write these variables, and the results are
copied back. A statement with an instruction outside the table (ptx_table.py) stays as it is, and compiling.py
refuses its kernel.
"""

from __future__ import annotations

import itertools
import re
from dataclasses import dataclass

from cudasim.live.ptx_table import (
    ATOMICS,
    COMPARED,
    ELEMENTS,
    FACTORS,
    INSTRUCTIONS,
    REDUCTIONS,
    SPECIAL,
    TYPES,
)
from cudasim.live.text import blanked, closing


class _Unknown(Exception):
    """Raised for PTX without C++ in the table."""


# ------------------------------------------------------------------------------------------------------------
# One instruction


@dataclass(frozen=True)
class _Operand:
    """An operand. text: its C++, or the address for a place in brackets. offset: added to that address."""

    text: str
    offset: str = "0"
    coordinates: str | None = None

    def box(self) -> tuple[_Operand, str]:
        """A tensor map's address, and the box's coordinates in the tensor."""
        if self.coordinates is None:
            raise _Unknown(self.text)
        return _Operand(self.text), self.coordinates

    def __format__(self, wanted: str) -> str:
        if wanted == "":
            return self.text
        if wanted == "global":
            return f"sim_ptx_global({self.text}, {self.offset})"
        if wanted == "forwarded":
            return ", ".join(f"(decltype({name}))({name})" for name in self.text.split(", "))
        if wanted == "shared":
            return f"sim_shared_pointer(SIM_HERE, {self:word})"
        if wanted == "box":
            return f"sim_ptx_box{{{{{self.box()[1]}}}}}.at"
        if wanted == "mbarrier":  # by its address in the window, or by one in all memory, which is wider
            return f"sim_ptx_mbarrier(SIM_HERE, {self.text}, {self.offset})"
        if wanted == "word":
            return f"(sim_ptx_get<uint32_t>({self.text}) + {self.offset})"
        return f"sim_ptx_get<{wanted}>({self.text})"


def _immediate(text: str) -> str | None:
    if re.fullmatch(r"[-+]?(?:0[xX][0-9a-fA-F]+|\d+)U?", text):
        return text
    if re.fullmatch(r"0[fF][0-9a-fA-F]{8}", text):
        return f"__uint_as_float(0x{text[2:]}u)"
    if re.fullmatch(r"0[dD][0-9a-fA-F]{16}", text):
        return f"__longlong_as_double(0x{text[2:]}ll)"
    return text if re.fullmatch(r"[-+]?\d+\.\d*(?:[eE][-+]?\d+)?", text) else None


def _value(text: str, names: dict[str, str]) -> str:
    text = text.strip().replace("%%", "%")
    if text in names or text in SPECIAL:
        return names.get(text) or SPECIAL[text]
    negated = text[:1] == "!" and names.get(text[1:].strip())
    value = f"!{negated}" if negated else _immediate(text)
    if value is None:
        raise _Unknown(text)
    return value


def _operand(text: str, names: dict[str, str]) -> _Operand:
    text = text.strip()
    if text == "_":
        return _Operand("")
    if text.startswith("{"):
        return _Operand(", ".join(_value(part, names) for part in text[1:-1].split(",")))
    box = re.fullmatch(r"\[\s*([^\s+,]+)\s*,\s*\{([^}]*)\}\s*\]", text)
    if box:
        coordinates = ", ".join(f"(int){_value(part, names)}" for part in box[2].split(","))
        return _Operand(_value(box[1], names), coordinates=coordinates)
    place = re.fullmatch(r"\[\s*([^\s+]+)\s*(?:\+\s*(-?\w+)\s*)?\]", text)
    if place:
        offset = "0" if place[2] is None else _value(place[2], names)
        return _Operand(_value(place[1], names), offset)
    return _Operand(_value(text, names))


def _pieces(text: str) -> list[str]:
    """The operands of a text, split at the commas outside of brackets."""
    return [piece for piece in re.findall(r"(?:\{[^}]*\}|\[[^\]]*\]|[^,])+", text) if piece.strip()]


def _instruction(text: str, names: dict[str, str]) -> str:
    opcode, _, rest = text.partition(" ")
    if opcode.startswith(("elect.sync", "shfl.sync")):  # may write a predicate beside its result: r|p
        rest = re.sub(r"^\s*([%\w]+)\s*\|", r"\1, ", rest)
    operands = [_operand(piece, names) for piece in _pieces(rest)]
    for pattern, code in INSTRUCTIONS:
        if match := re.fullmatch(pattern, opcode):
            return _filled(code, opcode, match.groupdict(), operands)
    raise _Unknown(opcode)


def _filled(code: str, opcode: str, parts: dict, operands: list[_Operand]) -> str:
    kind = TYPES.get(parts.get("T") or "", "")
    if code == "copy":
        present = operands[3:4] if "cache_hint" not in opcode else operands[3:-1]
        bytes_present = f"{present[0]:uint32_t}" if present else f"{operands[2]}"
        places = f"{operands[0]:shared}, (const void *){operands[1]:global}"
        return f"sim_cp_async_partly(SIM_HERE, {places}, {operands[2]}, {bytes_present});"
    if code == "mov":
        to, value = operands
        if "," in value.text:
            return f"sim_ptx_pack<{kind}>({to}, {value});"
        return f"sim_ptx_unpack<{kind}>({value:{kind}}, {to});"
    if code == "barrier":
        number = f"{operands[0]:int}"
        if len(operands) == 1:
            return f"sim_ptx_bar_sync(SIM_HERE, {number});"
        return f"sim_named_barrier(SIM_HERE, {number}, {operands[1]:int});"
    if code == "arrival":
        return f"sim_named_barrier_arrive(SIM_HERE, {operands[0]:int}, {operands[1]:int});"
    if code == "elect":
        lane, to, mask = operands
        leads = f"{to} = sim_ptx_lane() == __ffs({mask:uint32_t}) - 1;"
        return f"{lane} = __ffs({mask:uint32_t}) - 1; {leads}" if lane.text else leads
    if code == "shuffle":
        to, *is_in_range, value, lane, limits, mask = operands
        told = f"{is_in_range[0]} = " if is_in_range else ""
        from_lane = f"'{parts['way'][0]}', {lane:uint32_t}, {limits:uint32_t}"
        return f"{told}sim_ptx_shfl({to}, {value:uint32_t}, {from_lane}, {mask:uint32_t});"
    if code == "box":
        to, (map_, place), barrier = operands[0], operands[1].box(), operands[2]
        blocks = f"{operands[3]:uint32_t}" if "multicast" in opcode else "0"
        at = f"const int sim_at[] = {{{place}}};"
        described = f"{map_:global}, {parts['k']}, sim_at"
        copied = f"sim_tensor_copy(SIM_HERE, {to:word}, {described}, {barrier:word}, {blocks});"
        return f"{{ {at} {copied} }}"
    if code == "arrive":
        state, barrier, *amount = operands
        before = f"sim_ptx_set<uint64_t>({state}, sim_mbarrier_parity(SIM_HERE, {barrier:mbarrier})); "
        amount = f"{amount[0]:uint32_t}" if amount else "1"
        arrive = f"sim_mbarrier_arrive(SIM_HERE, {barrier:mbarrier}, "
        if "expect_tx" in opcode:
            return (before if state.text else "") + f"{arrive}{amount});"
        several = f"for (uint32_t sim_left = {amount}; sim_left > 0; sim_left--) "
        return (before if state.text else "") + f"{several}{arrive}0);"
    if code == "distant store":
        place, value, barrier = operands
        return f"sim_ptx_st_async<{kind}>(SIM_HERE, {place:word}, {barrier:word}, {value});"
    if code == "wgmma":
        sums, x, w, accumulates, *more = operands
        types = ", ".join(f"SIM_{FACTORS[parts[factor]]}_FACTORS" for factor in ("T", "from"))
        scaled = [f"{each:int}" for each in more]
        first = f"{x:uint64_t}"
        if "," in x.text:
            first = f"sim_ptx_in_registers({x:forwarded})"
            scaled[2:2] = ["0"] if len(scaled) == 3 else []  # x in registers is not transposed
        given = f"{first}, {w:uint64_t}, (bool){accumulates}, {{{', '.join(scaled)}}}"
        return f"sim_ptx_wgmma<{parts['k']}, {types}>(SIM_HERE, {given}, {sums});"
    if code == "mma":
        d, a, b, c = operands
        name = f"sim_ptx_mma<{parts['k']}, SIM_{FACTORS[parts['T']]}_FACTORS, {TYPES[parts['sum']]}>"
        return f"{name}(SIM_HERE, {{{a}}}, {{{b}}}, {{{c}}}, {d});"
    if code == "{atomic}":
        returns = opcode.startswith("atom")
        place, value = operands[1:3] if returns else operands[0:2]
        where = f"{place:shared}" if "shared" in (parts["space"] or "") else f"{place:global}"
        call = f"{ATOMICS[parts['atomic']]}(({kind} *){where}, sim_ptx_get<{kind}>({value}))"
        return f"sim_ptx_set<{kind}>({operands[0]}, {call});" if returns else f"{call};"
    values = {
        "T": kind,
        "name": opcode.split(".")[0],
        "wide": "_wide" if ".wide" in opcode else "",
        "way": (parts.get("way") or "").lstrip(".")[1:2],
        "compared": COMPARED.get(parts.get("compared") or ""),
        "reduced": parts.get("reduced"),
        "k": parts.get("k"),
        "reduction": REDUCTIONS.get(parts.get("reduction") or ""),
        "element": ELEMENTS.get(parts.get("element") or ""),
        "trans": "true" if ".trans" in opcode else "false",
    }
    code = code.replace(":T}", f":{kind}}}").replace(":from}", f":{TYPES.get(parts.get('from') or '')}}}")
    try:
        return code.format(*operands, **values)
    except IndexError:
        raise _Unknown(opcode) from None


# ------------------------------------------------------------------------------------------------------------
# The text of a statement

_REGISTERS = re.compile(r"\.reg\s*\.(\w+)\s+(.*)", re.S)


def _translated(ptx: str, names: dict[str, str]) -> str:
    """The C++ for a text of PTX. names: the registers that the text may use, with their C++ names."""
    ptx = re.sub(r"//[^\n]*|/\*.*?\*/", " ", ptx, flags=re.S).replace("%%", "%")
    if re.search(r"\bmbarrier\.(?:try|test)_wait\b", ptx):
        # A loop around a wait that may fail. The simulator's waits do not.
        ptx = re.sub(r"(?:@!?\s*[%\w]+\s+)?\bbra(?:\.uni)?\s+[\w$]+\s*;", " ", ptx)
    declared, code = [], []
    names = dict(names)
    scopes = []
    for token in re.findall(r"[{}]|(?:\{[^}]*\}|[^;{}])+;?", _with_vectors_kept(ptx)):
        statement = " ".join(token.replace("\x01", "{").replace("\x02", "}").rstrip("; \n\t").split())
        if token == "{":
            scopes.append(dict(names))
        elif token == "}":
            if not scopes:
                raise _Unknown(token)
            names = scopes.pop()
        elif registers := _REGISTERS.fullmatch(statement):
            for name in registers[2].split(","):
                several = re.fullmatch(r"(%?\w+)<(\d+)>", name.strip())
                each = [f"{several[1]}{i}" for i in range(int(several[2]))] if several else [name.strip()]
                for register in each:
                    variable = f"sim_ptx_register_{len(declared)}"
                    names[register] = variable
                    if registers[1] not in TYPES:
                        raise _Unknown(statement)
                    declared.append(f"[[maybe_unused]] {_register_type(registers[1])} {variable};")
        elif statement:
            code.append(_with_predicate(statement, names))
    return " ".join((*declared, *code))


def _register_type(kind: str) -> str:
    """The C++ type of a register. Registers with one or two 16-bit floats are integers, which need no
    constructor."""
    return {"f16": "uint16_t", "bf16": "uint16_t", "f16x2": "uint32_t", "bf16x2": "uint32_t"}.get(
        kind, TYPES[kind]
    )


def _with_vectors_kept(ptx: str) -> str:
    """Replaces the braces around vector operands by other characters, so that the remaining braces are those
    of scopes."""
    return re.sub(
        r"(?<=[\s,])\{([^{};]*)\}(?=\s*[],;])", "\x01\\1\x02", re.sub(r"(?<=\w)\{(?=\s*%)", " {", ptx)
    )


def _with_predicate(statement: str, names: dict[str, str]) -> str:
    if label := re.fullmatch(r"([A-Za-z_$][\w$]*)\s*:\s*(.*)", statement):
        # The only loop in translated PTX tries a wait again, and the simulator's waits do not fail.
        return _with_predicate(label[2], names) if label[2] else ""
    guard = re.match(r"@(!?)\s*(%?[%\w]+)\s+(.*)", statement)
    if guard is None:
        return _instruction(statement, names)
    if re.match(r"bra(?:\.uni)?\b", guard[3]) and guard[1] == "!":
        return ""
    condition = names.get(guard[2].replace("%%", "%"))
    if condition is None:
        raise _Unknown(statement)
    return f"if ({guard[1]}{condition}) {{ {_instruction(guard[3], names)} }}"


# ------------------------------------------------------------------------------------------------------------
# Statements in a source

_STATEMENT = re.compile(r"\b(?:asm|__asm__|__asm)\b(?:\s|\\\n)*(?:(?:volatile|__volatile__)(?:\s|\\\n)*)?\(")
_LITERAL = re.compile(r'"((?:\\.|[^"\\])*)"')
_CLASSES = {"h": "uint16_t", "r": "uint32_t", "l": "uint64_t", "f": "float", "d": "double", "b": "bool"}


def _sections(text: str, begin: int, end: int) -> list[tuple[int, int]]:
    """The parts of a blanked text, split at the colons outside of brackets."""
    found, depth = [begin - 1], 0
    for place in range(begin, end):
        depth += {"(": 1, "[": 1, "{": 1, ")": -1, "]": -1, "}": -1}.get(text[place], 0)
        if text[place] == ":" and depth == 0:
            found.append(place)
    found.append(end)
    return [(a + 1, b) for a, b in itertools.pairwise(found)]


def _operands(source: str, text: str, begin: int, end: int) -> list[tuple[str, str, str]]:
    """Name, constraint and expression of each operand of a section."""
    found, place = [], begin
    operand = re.compile(r'(?:\s|\\\n|,)*(?:\[(\w+)\](?:\s|\\\n)*)?"([^"]*)"(?:\s|\\\n)*\(')
    while match := operand.match(source, place, end):
        close = closing(text, match.end() - 1)
        found.append((match[1] or "", match[2], source[match.end() : close]))
        place = close + 1
    if source[place:end].replace("\\\n", "").strip(" \t\n,"):
        raise _Unknown(source[place:end])
    return found


def _as_block(source: str, text: str, begin: int, end: int) -> str:
    """The block for the statement whose parentheses enclose source[begin:end]."""
    sections = _sections(text, begin, end)
    literals = source[slice(*sections[0])]
    if re.sub(r"//[^\n]*|\\\n", "", _LITERAL.sub("", literals)).strip():
        raise _Unknown(literals)  # made by macros
    ptx = "".join(_LITERAL.findall(literals)).replace("\\n", "\n").replace("\\t", "\t").replace("\\r", "\n")
    outputs = _operands(source, text, *sections[1]) if len(sections) > 1 else []
    inputs = _operands(source, text, *sections[2]) if len(sections) > 2 else []
    if not ptx.strip():
        return "do { } while (0)"  # a fence for the compiler
    is_product = "wgmma.mma_async" in ptx
    in_registers = _registers_of_x(ptx) if is_product else set()
    names, before, after = {}, [], []
    for index, (name, constraint, expression) in enumerate((*outputs, *inputs)):
        variable = f"sim_ptx_{index}"
        letter = constraint.strip("=+& ")
        names[f"%{index}"] = names[f"%[{name}]"] = variable
        if is_product and index < len(outputs):
            # It is added to later, when the warpgroup waits.
            before.append(f"float &{variable} = {expression};")
        elif f"%{index}" in in_registers:
            # A variable of the kernel stays in use until the warpgroup waits; a temporary value does not.
            before.append(f"sim_ptx_register_of(decltype({expression})) {variable} = {expression};")
        elif letter in ("n", "i"):
            before.append(f"[[maybe_unused]] const auto {variable} = {expression};")
        elif letter in _CLASSES:
            is_output = index < len(outputs)
            given = f" = sim_ptx_read<{_CLASSES[letter]}>({expression})" if constraint[0] != "=" else "{}"
            before.append(f"[[maybe_unused]] {_CLASSES[letter]} {variable}{given};")
            if is_output:
                after.append(f"sim_ptx_write({expression}, {variable});")
        elif letter.isdigit() and int(letter) < index:
            before.append(f"sim_ptx_{letter} = sim_ptx_read<decltype(sim_ptx_{letter})>({expression});")
        else:
            raise _Unknown(constraint)
    block = " ".join((*before, "{", _translated(ptx, names), "}", *after))
    return "do { " + block + " } while (0)"


def _by_branches(statement: str) -> str:
    """An asm statement whose text depends on an #if, as a block in each branch; its lines stay its lines."""
    lines = statement.split("\n")
    directives = [(i, match[1]) for i, line in enumerate(lines) if (match := _DIRECTIVE.match(line))]
    names = [name for _, name in directives]
    if not re.fullmatch(r"if(?:n?def)? (?:elif )*else endif", " ".join(names)):
        raise _Unknown(statement)
    kept = [""] * len(lines)
    inside = range(directives[0][0], directives[-1][0] + 1)
    for (here, _), (following, _) in itertools.pairwise(directives):
        begin = here + 1
        while lines[begin - 1].endswith("\\"):
            begin += 1
        if begin >= following:
            raise _Unknown(statement)
        branch = [line if i not in inside or begin <= i < following else "" for i, line in enumerate(lines)]
        block = with_ptx("\n".join(branch))
        if _STATEMENT.search(blanked(block)):
            raise _Unknown(statement)
        kept[here:begin] = lines[here:begin]
        kept[begin] = " ".join(block.split("\n"))
    kept[directives[-1][0]] = lines[directives[-1][0]]
    return "\n".join(kept)


_DIRECTIVE = re.compile(r"[ \t]*#[ \t]*(\w+)")


def _registers_of_x(ptx: str) -> set[str]:
    """The operands that form a wgmma's first factor, if it is in registers."""
    found = re.search(r"wgmma\.mma_async\.\S+\s*\{[^}]*\}\s*,\s*\{([^}]*)\}", ptx)
    return {name.strip() for name in found[1].split(",")} if found else set()


def with_ptx(source: str) -> str:
    """The source with asm statements as blocks of C++ if the table has all their instructions; no line
    moves."""
    text = blanked(source)
    for match in reversed(list(_STATEMENT.finditer(text))):
        end = closing(text, match.end() - 1)
        whole = source[match.start() : end + 1]
        try:
            if re.search(r"\n[ \t]*#[ \t]*if", text[match.start() : end]):
                block = _by_branches(whole)
            else:
                block = _as_block(source, text, match.end(), end)
                # A macro's lines end with backslashes, and so may lines of the operands.
                continued = "\\\n" if "\\\n" in whole else "\n"
                block = block.replace("\\\n", " ").replace("\n", " ") + continued * whole.count("\n")
        except _Unknown:
            continue
        source = source[: match.start()] + block + source[end + 1 :]
        text = text[: match.start()] + block + text[end + 1 :]
    return source
