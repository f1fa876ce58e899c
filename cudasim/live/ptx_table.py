"""The PTX instructions that a cell may use, and the C++ of each.

Each instruction has a regular expression for its name, and a block of C++, or a word for what ptx.py composes
from several operands. In the block {0} is the first operand's text, {1:T} the second operand's value as a T.
{1:global} and {1:shared} are the place that an operand in brackets names, {1:word} its address in shared
memory, {1:mbarrier} an mbarrier's address, and {0:box} a box's coordinates. PTX ISA, section "Instruction
Set".
"""

from __future__ import annotations

TYPES = {
    **{f"u{bits}": f"uint{bits}_t" for bits in (8, 16, 32, 64)},
    **{f"b{bits}": f"uint{bits}_t" for bits in (8, 16, 32, 64)},
    **{f"s{bits}": f"int{bits}_t" for bits in (8, 16, 32, 64)},
    **{"f16": "__half", "bf16": "__nv_bfloat16", "f16x2": "__half2", "bf16x2": "__nv_bfloat162"},
    **{"f32": "float", "f64": "double", "pred": "bool"},
}
_T = rf"(?P<T>{'|'.join(sorted(TYPES, key=len, reverse=True))})"
_INTEGER = r"(?P<T>[usb](?:8|16|32|64))"
_SCOPE = r"(?:\.(?:cta|cluster|gpu|sys))?"
_SHARED = r"\.shared(?:::cta)?"
_ANY_SHARED = r"\.shared(?:::cta|::cluster)?"
_CACHE = r"(?:\.(?:ca|cg|cs|lu|cv|wb|wt))?(?:\.L1::\w+)?(?:\.L2::(?!cache_hint)\w+)?"
_VECTOR = r"(?:\.v[248])?"
COMPARED = {"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}
COMPARED |= {"lo": "<", "ls": "<=", "hi": ">", "hs": ">="}
ATOMICS = {
    **{"add": "atomicAdd", "min": "atomicMin", "max": "atomicMax", "and": "atomicAnd", "or": "atomicOr"},
    **{"xor": "atomicXor", "exch": "atomicExch", "inc": "atomicInc", "dec": "atomicDec"},
}
REDUCTIONS = {  # of TMA
    **{name: f"SIM_ATOMIC_{name.upper()}" for name in ("add", "min", "max", "and", "or", "xor")},
    **{"inc": "SIM_ATOMIC_INCREMENT", "dec": "SIM_ATOMIC_DECREMENT"},
}
ELEMENTS = {  # that TMA combines
    **{f"u{bits}": f"SIM_UINT{bits}" for bits in (32, 64)},
    **{f"b{bits}": f"SIM_UINT{bits}" for bits in (32, 64)},
    **{f"s{bits}": f"SIM_INT{bits}" for bits in (32, 64)},
    **{"f16": "SIM_FLOAT16", "bf16": "SIM_BFLOAT16", "f32": "SIM_FLOAT", "f64": "SIM_DOUBLE"},
}
_REDUCTION = rf"\.(?P<reduction>{'|'.join(REDUCTIONS)})(?:\.noftz)?"
_HINT = r"(?:\.L2::cache_hint)?"
_FACTOR_TYPES = "f16|bf16|tf32|e4m3|e5m2"

INSTRUCTIONS = (
    (rf"mov\.{_T}", "mov"),
    (rf"(?:add|sub|mul)(?:\.(?:rn|lo|wide))?(?:\.ftz)?\.{_T}",
     "sim_ptx_{name}{wide}<{T}>({0}, {1:T}, {2:T});"),
    (r"add\.[us]16x2", "sim_ptx_set<uint32_t>({0}, __vadd2({1:uint32_t}, {2:uint32_t}));"),
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
     "sim_ptx_set<uint32_t>({0}, __vsadu4({1:uint32_t}, {2:uint32_t}) + {3:uint32_t});"),
    (r"rcp(?:\.(?:approx|rn))?(?:\.ftz)?\.(?P<T>f32|f64)", "sim_ptx_set<{T}>({0}, 1 / {1:T});"),
    (r"rsqrt(?:\.(?:approx|rn))?(?:\.ftz)?\.(?P<T>f32|f64)", "sim_ptx_set<{T}>({0}, rsqrt({1:T}));"),
    (r"(?:sqrt|sin|cos|tanh)(?:\.(?:approx|rn))?(?:\.ftz)?\.(?P<T>f32|f64)",
     "sim_ptx_set<{T}>({0}, std::{name}({1:T}));"),
    (r"ex2(?:\.approx)?(?:\.ftz)?\.f32", "sim_ptx_set<float>({0}, exp2f({1:float}));"),
    (r"lg2(?:\.approx)?(?:\.ftz)?\.f32", "sim_ptx_set<float>({0}, log2f({1:float}));"),
    (rf"setp\.(?P<compared>{'|'.join(COMPARED)})(?:\.ftz)?\.{_T}", "{0} = {1:T} {compared} {2:T};"),
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
    (rf"ld\.(?:volatile|relaxed){_SCOPE}(?:\.global)?{_SCOPE}{_CACHE}{_VECTOR}\.{_T}",
     "sim_ptx_load<const volatile {T}>({1:global}, {0});"),
    (rf"ld\.(?:volatile|relaxed){_SCOPE}{_ANY_SHARED}\.{_T}",
     "sim_ptx_load<const volatile {T}>({1:shared}, {0});"),
    (rf"ld\.acquire{_SCOPE}(?:\.global)?{_VECTOR}\.{_T}",
     "sim_ptx_load<const volatile {T}>({1:global}, {0}); __threadfence();"),
    (rf"st(?:\.weak)?(?:\.global)?{_CACHE}{_VECTOR}\.{_T}", "sim_ptx_store<{T}>({0:global}, {1});"),
    (rf"st(?:\.weak)?{_ANY_SHARED}{_VECTOR}\.{_T}", "sim_ptx_store<{T}>({0:shared}, {1});"),
    (rf"st\.(?:volatile|relaxed){_SCOPE}(?:\.global)?{_CACHE}{_VECTOR}\.{_T}",
     "sim_ptx_store<volatile {T}>({0:global}, {1});"),
    (rf"st\.(?:volatile|relaxed){_SCOPE}{_ANY_SHARED}\.{_T}",
     "sim_ptx_store<volatile {T}>({0:shared}, {1});"),
    (rf"st\.release{_SCOPE}(?:\.global)?{_VECTOR}\.{_T}",
     "__threadfence(); sim_ptx_store<volatile {T}>({0:global}, {1});"),
    (rf"(?:atom|red)(?:\.relaxed)?{_SCOPE}(?P<space>\.global|{_ANY_SHARED})?{_SCOPE}\.(?P<atomic>{'|'.join(ATOMICS)})"
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
     rf"(?P<element>{'|'.join(ELEMENTS)})",
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
    (r"shfl\.sync\.(?P<way>up|down|bfly|idx)\.b32", "shuffle"),
    (r"vote\.(?:sync\.ballot|ballot\.sync)\.b32", "{0} = __ballot_sync({2:uint32_t}, {1});"),
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

SPECIAL = {
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
FACTORS = {"f16": "FLOAT16", "bf16": "BFLOAT16", "tf32": "TF32", "e4m3": "E4M3", "e5m2": "E5M2"}
