"""Inline PTX as C++: `asm volatile("ldmatrix... {%0}, [%1];" : "=r"(x) : "r"(a))` becomes calls of the
functions in cuda_c/sim/cpp/ptx.hpp, one for each instruction.

An asm statement becomes a block. Its operands are copied into variables, which stand for registers and have
the types of the operands' constraints; the instructions read and write these variables, and the results are
copied back. A statement with an instruction that is not in the table below stays as it is, and compiling.py
refuses a kernel that contains it. Instructions and their operands: PTX ISA, section "Instruction Set".
"""

from __future__ import annotations

import itertools
import re
from dataclasses import dataclass

from fgn.live.text import blanked, closing

# ------------------------------------------------------------------------------------------------------------
# The table of instructions: their C++

_TYPES = {
    **{f"u{bits}": f"uint{bits}_t" for bits in (8, 16, 32, 64)},
    **{f"b{bits}": f"uint{bits}_t" for bits in (8, 16, 32, 64)},
    **{f"s{bits}": f"int{bits}_t" for bits in (8, 16, 32, 64)},
    **{"f16": "__half", "bf16": "__nv_bfloat16", "f16x2": "__half2", "bf16x2": "__nv_bfloat162"},
    **{"f32": "float", "f64": "double", "pred": "bool"},
}
_T = rf"(?P<T>{'|'.join(sorted(_TYPES, key=len, reverse=True))})"
_INTEGER = r"(?P<T>[usb](?:8|16|32|64))"
_FLOATING = r"(?P<T>bf16x2|f16x2|bf16|f16|f32|f64)"
_SCOPE = r"(?:\.(?:cta|cluster|gpu|sys))?"
_SHARED = r"\.shared(?:::cta)?"
_ANY_SHARED = r"\.shared(?:::cta|::cluster)?"
_CACHE = r"(?:\.(?:ca|cg|cs|lu|cv|wb|wt))?(?:\.L1::\w+)?(?:\.L2::(?!cache_hint)\w+)?"
_VECTOR = r"(?:\.v[248])?"
_COMPARED = {"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}
_COMPARED |= {"lo": "<", "ls": "<=", "hi": ">", "hs": ">="}
_ATOMICS = {
    **{"add": "atomicAdd", "min": "atomicMin", "max": "atomicMax", "and": "atomicAnd", "or": "atomicOr"},
    **{"xor": "atomicXor", "exch": "atomicExch", "inc": "atomicInc", "dec": "atomicDec"},
}
_REDUCTIONS = {  # of TMA
    **{name: f"SIM_ATOMIC_{name.upper()}" for name in ("add", "min", "max", "and", "or", "xor")},
    **{"inc": "SIM_ATOMIC_INCREMENT", "dec": "SIM_ATOMIC_DECREMENT"},
}
_ELEMENTS = {
    **{
        "u32": "SIM_UINT32",
        "b32": "SIM_UINT32",
        "s32": "SIM_INT32",
        "u64": "SIM_UINT64",
        "b64": "SIM_UINT64",
    },
    **{
        "s64": "SIM_INT64",
        "f16": "SIM_FLOAT16",
        "bf16": "SIM_BFLOAT16",
        "f32": "SIM_FLOAT",
        "f64": "SIM_DOUBLE",
    },
}
_REDUCTION = rf"\.(?P<reduction>{'|'.join(_REDUCTIONS)})(?:\.noftz)?"
_HINT = r"(?:\.L2::cache_hint)?"
_FACTOR_TYPES = "f16|bf16|tf32|e4m3|e5m2"

# For each instruction its name and a block of C++. In the block {0} is the first operand as it stands, {1:T}
# the second operand's value as a T; {1:global} and {1:shared} are the place that an operand in brackets
# names.
_INSTRUCTIONS = (
    (rf"mov\.{_T}", "mov"),
    (rf"(?:add|sub|mul)(?:\.(?:rn|lo|wide))?(?:\.ftz)?\.{_T}",
     "sim_ptx_{name}{wide}<{T}>({0}, {1:T}, {2:T});"),
    (rf"mul\.hi\.{_INTEGER}", "sim_ptx_mul_hi<{T}>({0}, {1:T}, {2:T});"),
    (rf"(?:mad\.lo|fma\.rn)(?:\.ftz)?\.{_T}", "sim_ptx_{name}<{T}>({0}, {1:T}, {2:T}, {3:T});"),
    (rf"mad\.wide\.{_INTEGER}", "sim_ptx_mad_wide<{T}>({0}, {1:T}, {2:T}, sim_ptx_wide<{T}>({3}));"),
    (rf"(?:div|rem)(?:\.(?:rn|full|approx))?(?:\.ftz)?\.{_T}", "sim_ptx_{name}<{T}>({0}, {1:T}, {2:T});"),
    (rf"(?:min|max)(?:\.ftz)?\.{_T}", "sim_ptx_set<{T}>({0}, sim_ptx_{name}({1:T}, {2:T}));"),
    (rf"(?:neg|abs)(?:\.ftz)?\.{_T}", "sim_ptx_{name}<{T}>({0}, {1:T});"),
    (rf"and\.{_T}", "sim_ptx_set<{T}>({0}, ({T})({1:T} & {2:T}));"),
    (rf"or\.{_T}", "sim_ptx_set<{T}>({0}, ({T})({1:T} | {2:T}));"),
    (rf"xor\.{_T}", "sim_ptx_set<{T}>({0}, ({T})({1:T} ^ {2:T}));"),
    (r"not\.pred", "{0} = !{1};"),
    (rf"not\.{_INTEGER}", "sim_ptx_set<{T}>({0}, ({T})~{1:T});"),
    (rf"(?:shl|shr)\.{_INTEGER}", "sim_ptx_set<{T}>({0}, sim_ptx_{name}<{T}>({1:T}, {2:uint32_t}));"),
    (r"popc\.b32", "sim_ptx_set<int>({0}, __popc({1:uint32_t}));"),
    (r"popc\.b64", "sim_ptx_set<int>({0}, __popcll({1:uint64_t}));"),
    (r"clz\.b32", "sim_ptx_set<int>({0}, __clz({1:int}));"),
    (r"brev\.b32", "sim_ptx_set<uint32_t>({0}, __brev({1:uint32_t}));"),
    (rf"bfind\.{_INTEGER}", "sim_ptx_set<uint32_t>({0}, sim_ptx_bfind<{T}>({1:T}));"),
    (rf"bfe\.{_INTEGER}", "sim_ptx_set<{T}>({0}, sim_ptx_bfe<{T}>({1:T}, {2:uint32_t}, {3:uint32_t}));"),
    (r"bfi\.b32", "sim_ptx_bfi({0}, {1:uint32_t}, {2:uint32_t}, {3:uint32_t}, {4:uint32_t});"),
    (r"prmt\.b32", "sim_ptx_set<uint32_t>({0}, __byte_perm({1:uint32_t}, {2:uint32_t}, {3:uint32_t}));"),
    (r"lop3\.b32", "sim_ptx_lop3({0}, {1:uint32_t}, {2:uint32_t}, {3:uint32_t}, {4:uint32_t});"),
    (r"shf\.l\.wrap\.b32",
     "sim_ptx_set<uint32_t>({0}, __funnelshift_l({1:uint32_t}, {2:uint32_t}, {3:uint32_t}));"),
    (r"shf\.r\.wrap\.b32",
     "sim_ptx_set<uint32_t>({0}, __funnelshift_r({1:uint32_t}, {2:uint32_t}, {3:uint32_t}));"),
    (r"dp4a\.s32\.s32", "sim_ptx_set<int>({0}, __dp4a({1:int}, {2:int}, {3:int}));"),
    (r"dp4a\.u32\.u32",
     "sim_ptx_set<uint32_t>({0}, __dp4a({1:uint32_t}, {2:uint32_t}, {3:uint32_t}));"),
    (r"vabsdiff4\.u32\.u32\.u32\.add",
     "sim_ptx_set<uint32_t>({0}, sim_ptx_vabsdiff4({1:uint32_t}, {2:uint32_t}, {3:uint32_t}));"),
    (r"(?:rcp|sqrt|rsqrt|ex2|lg2|sin|cos|tanh)(?:\.(?:approx|rn))?(?:\.ftz)?\.(?P<T>f32|f64)",
     "sim_ptx_set<{T}>({0}, sim_ptx_{name}({1:T}));"),
    (rf"setp\.(?P<compared>{'|'.join(_COMPARED)})(?:\.ftz)?\.{_T}", "{0} = {1:T} {compared} {2:T};"),
    (rf"selp\.{_T}", "sim_ptx_set<{T}>({0}, {3} ? {1:T} : {2:T});"),
    # Conversions.
    (r"cvt(?P<way>\.r[nzmp]i)(?:\.ftz)?\.(?P<T>[us](?:8|16|32|64))\.(?P<from>f16|f32|f64)",
     "sim_ptx_set<{T}>({0}, sim_ptx_to_integer<{T}>({1:from}, '{way}'));"),
    (r"cvt(?:\.rn)?(?:\.ftz)?\.(?P<T>[us](?:8|16|32|64)|f16|bf16|f32|f64)\.(?P<from>[us](?:8|16|32|64)|f16|"
     r"bf16|f32|f64)", "sim_ptx_cvt<{T}>({0}, {1:from});"),
    (r"cvt\.rn\.(?P<T>b?f16)x2\.f32", "sim_ptx_set({0}, sim_ptx_pair<{T}>({1:float}, {2:float}));"),
    (r"cvt\.rna\.tf32\.f32", "sim_ptx_set({0}, sim_ptx_tf32({1:float}));"),
    # Addresses and memory.
    (r"cvta\.to\.shared\.u(?:32|64)",
     "sim_ptx_set<uint32_t>({0}, sim_shared_address(SIM_HERE, (void *){1:uint64_t}));"),
    (r"cvta(?:\.to)?\.global\.u64", "sim_ptx_set<uint64_t>({0}, {1:uint64_t});"),
    (r"cvta\.shared\.u64",
     "sim_ptx_set<uint64_t>({0}, (uint64_t)sim_shared_pointer(SIM_HERE, {1:uint32_t}));"),
    (rf"ld(?:\.weak)?(?:\.global)?(?:\.nc)?{_CACHE}{_VECTOR}\.{_T}",
     "sim_ptx_load<const {T}>({1:global}, {0});"),
    (rf"ld(?:\.weak)?{_ANY_SHARED}{_VECTOR}\.{_T}", "sim_ptx_load<const {T}>({1:shared}, {0});"),
    (rf"ld\.(?:volatile|relaxed){_SCOPE}(?:\.global)?{_SCOPE}{_CACHE}\.{_T}",
     "sim_ptx_load<const volatile {T}>({1:global}, {0});"),
    (rf"ld\.(?:volatile|relaxed){_SCOPE}{_ANY_SHARED}\.{_T}",
     "sim_ptx_load<const volatile {T}>({1:shared}, {0});"),
    (rf"ld\.acquire{_SCOPE}(?:\.global)?\.{_T}",
     "sim_ptx_load<const volatile {T}>({1:global}, {0}); __threadfence();"),
    (rf"st(?:\.weak)?(?:\.global)?{_CACHE}{_VECTOR}\.{_T}", "sim_ptx_store<{T}>({0:global}, {1});"),
    (rf"st(?:\.weak)?{_ANY_SHARED}{_VECTOR}\.{_T}", "sim_ptx_store<{T}>({0:shared}, {1});"),
    (rf"st\.(?:volatile|relaxed){_SCOPE}(?:\.global)?{_CACHE}\.{_T}",
     "sim_ptx_store<volatile {T}>({0:global}, {1});"),
    (rf"st\.(?:volatile|relaxed){_SCOPE}{_ANY_SHARED}\.{_T}",
     "sim_ptx_store<volatile {T}>({0:shared}, {1});"),
    (rf"st\.release{_SCOPE}(?:\.global)?\.{_T}",
     "__threadfence(); sim_ptx_store<volatile {T}>({0:global}, {1});"),
    (rf"(?:atom|red)(?:\.relaxed)?{_SCOPE}(?P<space>\.global|{_ANY_SHARED})?{_SCOPE}\.(?P<atomic>{'|'.join(_ATOMICS)})"
     rf"(?:\.noftz)?\.{_T}", "{atomic}"),
    (rf"atom(?:\.relaxed)?{_SCOPE}(?:\.global)?{_SCOPE}\.cas\.(?P<T>[bu](?:32|64))",
     "sim_ptx_set<{T}>({0}, atomicCAS(({T} *){1:global}, {2:T}, {3:T}));"),
    (r"prefetch(?:u)?(?:\.global)?\.L[12](?:::\w+)?", ";"),
    (r"createpolicy\..*", "{0} = 0;"),
    # Copies, barriers and fences.
    (r"cp\.async\.c[ag]\.shared(?:::cta)?\.global(?:\.L2::\w+){0,2}", "copy"),
    (r"cp\.async\.commit_group", "cp_async_commit_group();"),
    (r"cp\.async\.wait_group", "cp_async_wait_group({0:uint32_t});"),
    (r"cp\.async\.wait_all", "cp_async_commit_group(); cp_async_wait_group(0);"),
    (rf"cp\.async\.bulk\.shared::(?:cluster|cta)\.global\.mbarrier::complete_tx::bytes{_HINT}",
     "sim_bulk_copy(SIM_HERE, {0:word}, (const void *){1:global}, {2:uint32_t}, {3:word});"),
    (r"cp\.async\.bulk\.tensor\.(?P<k>[1-5])d\.shared::(?:cluster|cta)\.global(?:\.tile)?"
     r"\.mbarrier::complete_tx::bytes(?:\.multicast::cluster)?(?:\.L2::cache_hint)?", "box"),
    (r"cp\.async\.bulk\.shared::cluster\.shared::cta\.mbarrier::complete_tx::bytes",
     "sim_bulk_copy_between(SIM_HERE, {0:word}, {1:word}, {2:uint32_t}, {3:word});"),
    (rf"cp\.async\.bulk\.tensor\.(?P<k>[1-5])d\.global\.shared::cta(?:\.tile)?\.bulk_group{_HINT}",
     "sim_tensor_store(SIM_HERE, {0:global}, {k}, {0:box}, {1:word}, SIM_ATOMIC_EXCHANGE);"),
    (rf"cp\.reduce\.async\.bulk\.tensor\.(?P<k>[1-5])d\.global\.shared::cta{_REDUCTION}(?:\.tile)?"
     rf"\.bulk_group{_HINT}", "sim_tensor_store(SIM_HERE, {0:global}, {k}, {0:box}, {1:word}, {reduction});"),
    (rf"cp\.async\.bulk\.global\.shared::cta\.bulk_group{_HINT}",
     "sim_bulk_store(SIM_HERE, {0:global}, {1:word}, {2:uint32_t}, SIM_ATOMIC_EXCHANGE, SIM_UINT32);"),
    (rf"cp\.reduce\.async\.bulk\.global\.shared::cta\.bulk_group{_HINT}{_REDUCTION}\."
     rf"(?P<element>{'|'.join(_ELEMENTS)})",
     "sim_bulk_store(SIM_HERE, {0:global}, {1:word}, {2:uint32_t}, {reduction}, {element});"),
    (r"cp\.async\.bulk\.commit_group", "sim_bulk_commit();"),
    (r"cp\.async\.bulk\.wait_group", "sim_bulk_wait(SIM_HERE, {0:uint32_t}, false);"),
    (r"cp\.async\.bulk\.wait_group\.read", "sim_bulk_wait(SIM_HERE, {0:uint32_t}, true);"),
    (r"cp\.async\.bulk\.prefetch\.(?:tensor\.[1-5]d\.)?L2\.global(?:\.tile)?(?:\.L2::cache_hint)?", ";"),
    (rf"st\.async(?:\.weak)?\.shared::cluster\.mbarrier::complete_tx::bytes{_VECTOR}\."
     r"(?P<T>[usb](?:32|64)|f32|f64)", "distant store"),
    (r"prefetch\.tensormap", ";"),
    (r"wgmma\.fence\.sync\.aligned", "sim_wgmma_fence();"),
    (r"wgmma\.commit_group\.sync\.aligned", "sim_wgmma_commit();"),
    (r"wgmma\.wait_group\.sync\.aligned", "sim_wgmma_wait(SIM_HERE, {0:uint32_t});"),
    (rf"wgmma\.mma_async\.sync\.aligned\.m64n(?P<k>\d+)k(?:8|16|32)\.f32\.(?P<T>{_FACTOR_TYPES})\."
     rf"(?P<from>{_FACTOR_TYPES})", "wgmma"),
    (r"(?:bar|barrier)(?:\.cta)?\.sync(?:\.aligned)?", "barrier"),
    (r"(?:bar|barrier)(?:\.cta)?\.arrive(?:\.aligned)?", "arrival"),
    (r"bar\.warp\.sync", "__syncwarp({0:uint32_t});"),
    (r"membar\.cta|fence(?:\.sc|\.acq_rel)?\.cta", "__threadfence_block();"),
    (r"membar\.(?:gl|sys)|fence(?:\.sc|\.acq_rel)?\.(?:gpu|sys|cluster)", "__threadfence();"),
    (r"fence\.proxy\.async(?:\.shared::(?:cta|cluster))?", "sim_fence_proxy_async(SIM_HERE);"),
    (r"fence\.proxy\.async\.global", ";"),
    (r"fence\.mbarrier_init\.release\.cluster|fence\.proxy\.tensormap.*", ";"),
    (r"barrier\.cluster\.arrive(?:\.release|\.relaxed)?(?:\.aligned)?", ";"),
    (r"barrier\.cluster\.wait(?:\.acquire)?(?:\.aligned)?", "sim_cluster_barrier(SIM_HERE, true);"),
    (rf"mbarrier\.init(?:{_SHARED})?\.b64", "sim_mbarrier_init(SIM_HERE, {0:mbarrier}, {1:uint32_t});"),
    (rf"mbarrier\.inval(?:{_SHARED})?\.b64", ";"),
    (r"mbarrier\.arrive(?:\.release)?(?:\.cta|\.cluster)?(?:\.shared(?:::cta|::cluster)?)?\.b64",
     "arrive"),
    (r"mbarrier\.arrive\.expect_tx(?:\.release)?(?:\.cta|\.cluster)?(?:\.shared(?:::cta|::cluster)?)?\.b64",
     "arrive"),
    (rf"mbarrier\.expect_tx(?:\.relaxed)?(?:\.cta|\.cluster)?(?:{_ANY_SHARED})?\.b64",
     "sim_mbarrier_expect(SIM_HERE, {0:mbarrier}, {1:uint32_t});"),
    (rf"mbarrier\.(?:try|test)_wait\.parity(?:\.acquire)?(?:\.cta|\.cluster)?(?:{_SHARED})?\.b64",
     "sim_mbarrier_wait(SIM_HERE, {1:mbarrier}, {2:uint32_t}); {0} = true;"),
    (rf"mbarrier\.(?:try|test)_wait(?:\.acquire)?(?:\.cta|\.cluster)?(?:{_SHARED})?\.b64",
     "sim_mbarrier_wait(SIM_HERE, {1:mbarrier}, {2:uint64_t} & 1); {0} = true;"),
    (r"mapa(?:\.shared::cluster)?\.u32", "{0} = sim_mapa(SIM_HERE, {1:uint32_t}, {2:uint32_t});"),
    (r"griddepcontrol\.(?:wait|launch_dependents)", ";"),
    (r"setmaxnreg\.(?:inc|dec)\.sync\.aligned\.u32", "sim_setmaxnreg(SIM_HERE, {0:uint32_t});"),
    (r"nanosleep\.u32", "sim_sleep();"),
    (r"trap|brkpt", "sim_trap(SIM_HERE);"),
    # Instructions of a warp.
    (r"shfl\.sync\.(?P<way>up|down|bfly|idx)\.b32",
     "sim_ptx_shfl({0}, {1:uint32_t}, '{way}', {2:uint32_t}, {3:uint32_t}, {4:uint32_t});"),
    (r"vote\.sync\.ballot\.b32", "{0} = __ballot_sync({2:uint32_t}, {1});"),
    (r"vote\.sync\.any\.pred", "{0} = __any_sync({2:uint32_t}, {1}) != 0;"),
    (r"vote\.sync\.all\.pred", "{0} = __all_sync({2:uint32_t}, {1}) != 0;"),
    (r"activemask\.b32", "{0} = __activemask();"),
    (r"elect\.sync", "elect"),
    (r"redux\.sync\.(?P<reduced>add|min|max|and|or|xor)\.(?P<T>[usb]32)",
     "sim_ptx_set<{T}>({0}, __reduce_{reduced}_sync({2:uint32_t}, {1:T}));"),
    (rf"ldmatrix\.sync\.aligned(?:\.m8n8|\.x[124]|\.trans|{_SHARED})+\.b16",
     "sim_ptx_ldmatrix(SIM_HERE, {trans}, {1:word}, {0});"),
    (rf"stmatrix\.sync\.aligned(?:\.m8n8|\.x[124]|\.trans|{_SHARED})+\.b16",
     "sim_ptx_stmatrix(SIM_HERE, {trans}, {0:word}, {1});"),
    (r"mma\.sync\.aligned\.m16n8k(?P<k>4|8|16)\.row\.col\.(?P<sum>f32|f16)\.(?P<T>f16|bf16|tf32)\.(?P=T)\."
     r"(?P=sum)", "mma"),
)  # fmt: skip
_COMPILED = tuple((re.compile(pattern), code) for pattern, code in _INSTRUCTIONS)

_SPECIAL = {
    **{f"%{name}.{axis}": f"{variable}.{axis}" for axis in "xyz" for name, variable in
       (("tid", "threadIdx"), ("ctaid", "blockIdx"), ("ntid", "blockDim"), ("nctaid", "gridDim"))},
    **{"%laneid": "sim_ptx_lane()", "%warpid": "sim_ptx_warp()", "%smid": "0", "%nsmid": "1"},
    **{"%clock": "(uint32_t)sim_clock()", "%clock64": "sim_clock()", "%globaltimer": "sim_clock()"},
    **{"%lanemask_eq": "(1u << sim_ptx_lane())", "%lanemask_lt": "((1u << sim_ptx_lane()) - 1)"},
    **{"%lanemask_le": "((2u << sim_ptx_lane()) - 1)", "%lanemask_ge": "(~0u << sim_ptx_lane())"},
    "%lanemask_gt": "(~1u << sim_ptx_lane())",
    **{"%clusterid.x": "(blockIdx.x / sim_cluster_size())", "%cluster_ctaid.x": "sim_cluster_rank()"},
    **{"%nclusterid.x": "(gridDim.x / sim_cluster_size())", "%cluster_nctaid.x": "sim_cluster_size()"},
    **{"%cluster_ctarank": "sim_cluster_rank()", "%cluster_nctarank": "sim_cluster_size()"},
}  # fmt: skip


class _Unknown(Exception):
    """Raised for PTX that has no C++ in the table."""


# ------------------------------------------------------------------------------------------------------------
# One instruction


@dataclass(frozen=True)
class _Operand:
    """An operand. text: its C++, or the address for a place in brackets. offset: what is added to that
    address."""

    text: str
    offset: str = "0"
    coordinates: str | None = None

    def box(self) -> tuple[_Operand, str]:
        """A tensor map's address, and where in the tensor a box is."""
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
    if text in names or text in _SPECIAL:
        return names.get(text) or _SPECIAL[text]
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
    if opcode == "elect.sync":  # writes the leader's lane, and who leads
        rest = re.sub(r"^\s*([%\w]+)\s*\|", r"\1, ", rest)
    operands = [_operand(piece, names) for piece in _pieces(rest)]
    for pattern, code in _COMPILED:
        match = pattern.fullmatch(opcode)
        if match:
            return _filled(code, opcode, match.groupdict(), operands)
    raise _Unknown(opcode)


def _filled(code: str, opcode: str, parts: dict, operands: list[_Operand]) -> str:
    kind = _TYPES.get(parts.get("T") or "", "")
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
        types = ", ".join(f"SIM_{_FACTORS[parts[factor]]}_FACTORS" for factor in ("T", "from"))
        scaled = [f"{each:int}" for each in more]
        first = f"{x:uint64_t}"
        if "," in x.text:
            first = f"sim_ptx_in_registers({x:forwarded})"
            scaled[2:2] = ["0"] if len(scaled) == 3 else []  # x in registers is not transposed
        given = f"{first}, {w:uint64_t}, (bool){accumulates}, {{{', '.join(scaled)}}}"
        return f"sim_ptx_wgmma<{parts['k']}, {types}>(SIM_HERE, {given}, {sums});"
    if code == "mma":
        d, a, b, c = operands
        name = f"sim_ptx_mma<{parts['k']}, SIM_{_FACTORS[parts['T']]}_FACTORS, {_TYPES[parts['sum']]}>"
        return f"{name}(SIM_HERE, {{{a}}}, {{{b}}}, {{{c}}}, {d});"
    if code == "{atomic}":
        returns = opcode.startswith("atom")
        place, value = operands[1:3] if returns else operands[0:2]
        where = f"{place:shared}" if "shared" in (parts["space"] or "") else f"{place:global}"
        call = f"{_ATOMICS[parts['atomic']]}(({kind} *){where}, sim_ptx_get<{kind}>({value}))"
        return f"sim_ptx_set<{kind}>({operands[0]}, {call});" if returns else f"{call};"
    values = {
        "T": kind,
        "name": opcode.split(".")[0],
        "wide": "_wide" if ".wide" in opcode else "",
        "way": (parts.get("way") or "").lstrip(".")[1:2],
        "compared": _COMPARED.get(parts.get("compared") or ""),
        "reduced": parts.get("reduced"),
        "k": parts.get("k"),
        "reduction": _REDUCTIONS.get(parts.get("reduction") or ""),
        "element": _ELEMENTS.get(parts.get("element") or ""),
        "trans": "true" if ".trans" in opcode else "false",
    }
    code = code.replace(":T}", f":{kind}}}").replace(":from}", f":{_TYPES.get(parts.get('from') or '')}}}")
    try:
        return code.format(*operands, **values)
    except IndexError:
        raise _Unknown(opcode) from None


_FACTORS = {"f16": "FLOAT16", "bf16": "BFLOAT16", "tf32": "TF32", "e4m3": "E4M3", "e5m2": "E5M2"}

# ------------------------------------------------------------------------------------------------------------
# The text of a statement

_REGISTERS = re.compile(r"\.reg\s*\.(\w+)\s+(.*)", re.S)


def _translated(ptx: str, names: dict[str, str]) -> str:
    """The C++ for a text of PTX. names: the registers that the text may use, with their names in C++."""
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
                    if registers[1] not in _TYPES:
                        raise _Unknown(statement)
                    declared.append(f"[[maybe_unused]] {_register_type(registers[1])} {variable};")
        elif statement:
            code.append(_with_predicate(statement, names))
    return " ".join((*declared, *code))


def _register_type(kind: str) -> str:
    """The C++ type of a register. Registers with one or two 16-bit floats are integers, which need no
    constructor."""
    return {"f16": "uint16_t", "bf16": "uint16_t", "f16x2": "uint32_t", "bf16x2": "uint32_t"}.get(
        kind, _TYPES[kind]
    )


def _with_vectors_kept(ptx: str) -> str:
    """Writes the braces around vector operands as other characters, so that the braces that are left are
    those of scopes."""
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
    if _LITERAL.sub("", literals).replace("\\\n", "").strip():
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
            # A place of the kernel's stays in use until the warpgroup waits; what is a value's does not.
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
    """The operands that are a wgmma's first factor, where that is in registers."""
    found = re.search(r"wgmma\.mma_async\.\S+\s*\{[^}]*\}\s*,\s*\{([^}]*)\}", ptx)
    return {name.strip() for name in found[1].split(",")} if found else set()


def with_ptx(source: str) -> str:
    """The source with its asm statements as blocks of C++, where the table has all their instructions; no
    line moves."""
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
