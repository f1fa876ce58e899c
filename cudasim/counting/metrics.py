"""The metrics that ncu collects, by its names, and their meanings in words.

`SETS` are the names to choose from. A metric that a GPU lacks is left out.
"""

from __future__ import annotations

TIME = "gpu__time_duration.sum"
CYCLES = "sm__cycles_elapsed.max"
CLOCK = "sm__cycles_elapsed.avg.per_second"

GRID, BLOCK = "launch__grid_size", "launch__block_size"
REGISTERS = "launch__registers_per_thread"
SHARED_STATIC = "launch__shared_mem_per_block_static"
SHARED_DYNAMIC = "launch__shared_mem_per_block_dynamic"
WAVES = "launch__waves_per_multiprocessor"
# How many blocks a multiprocessor could hold if only this resource limited them.
OCCUPANCY_LIMITS = {
    "registers": "launch__occupancy_limit_registers",
    "shared memory": "launch__occupancy_limit_shared_mem",
    "warps": "launch__occupancy_limit_warps",
    "blocks": "launch__occupancy_limit_blocks",
}
OCCUPANCY_POSSIBLE = "sm__maximum_warps_per_active_cycle_pct"
OCCUPANCY = "sm__warps_active.avg.pct_of_peak_sustained_active"

DRAM_READ, DRAM_WRITE = "dram__bytes_read.sum", "dram__bytes_write.sum"
L2_BYTES = "lts__t_bytes.sum"
L2_HIT_RATE = "lts__t_sector_hit_rate.pct"
L2_TO_L1, L1_TO_L2 = "l1tex__m_xbar2l1tex_read_bytes.sum", "l1tex__m_l1tex2xbar_write_bytes.sum"
L1_BYTES = "l1tex__t_bytes.sum"
L1_HIT_RATE = "l1tex__t_sector_hit_rate.pct"
L1_WAVEFRONTS = "l1tex__data_pipe_lsu_wavefronts.sum"
# Bytes that instructions ask for, before coalescing: between registers and L1 or shared memory; by ldgsts
# (cp.async) straight from global to shared memory; by gmma (wgmma) from shared memory into the tensor cores.
ASKED = {
    (space, operation): f"smsp__sass_data_bytes_mem_{space}_op_{operation}.sum"
    for space, operations in (
        ("global", ("ld", "st", "ldgsts")),
        ("shared", ("ld", "st", "ldsm", "stsm", "gmma")),
        ("local", ("ld", "st")),
    )
    for operation in operations
}
# The counted simulator's names.
GLOBAL_REQUESTS = {op: f"l1tex__t_requests_pipe_lsu_mem_global_op_{op}.sum" for op in ("ld", "st", "atom")}
GLOBAL_SECTORS = {op: f"l1tex__t_sectors_pipe_lsu_mem_global_op_{op}.sum" for op in ("ld", "st", "atom")}
SHARED_REQUESTS = {op: f"smsp__inst_executed_op_shared_{op}.sum" for op in ("ld", "st", "atom")}
SHARED_WAVEFRONTS = {
    op: f"l1tex__data_pipe_lsu_wavefronts_mem_shared_op_{op}.sum" for op in ("ld", "st", "atom")
}
BANK_CONFLICTS = {
    op: f"l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_{op}.sum" for op in ("ld", "st", "atom")
}

INSTRUCTIONS = "smsp__inst_executed.sum"
ISSUE = "smsp__issue_active.avg.pct_of_peak_sustained_active"
# Operations of each kind, counted once for each active thread.
FP32 = {
    f"smsp__sass_thread_inst_executed_op_{op}_pred_on.sum": operations
    for op, operations in (("fadd", 1), ("fmul", 1), ("ffma", 2))
}
TENSOR = (
    "sm__ops_path_tensor_src_tf32_dst_fp32.sum",
    "sm__ops_path_tensor_src_bf16_dst_fp32.sum",
    "sm__ops_path_tensor_op_hmma_src_fp16.sum",
    "sm__ops_path_tensor_op_hgmma_src_fp16.sum",
)

THROUGHPUTS = {
    "compute": "sm__throughput.avg.pct_of_peak_sustained_elapsed",
    "L1": "l1tex__throughput.avg.pct_of_peak_sustained_active",
    "L2": "lts__throughput.avg.pct_of_peak_sustained_elapsed",
    "DRAM": "dram__throughput.avg.pct_of_peak_sustained_elapsed",
}

PIPES = {
    "FMA": "sm__pipe_fma_cycles_active.avg.pct_of_peak_sustained_active",
    "ALU": "sm__pipe_alu_cycles_active.avg.pct_of_peak_sustained_active",
    "tensor": "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_active",
    "XU": "sm__inst_executed_pipe_xu.avg.pct_of_peak_sustained_active",
    "LSU": "sm__inst_executed_pipe_lsu.avg.pct_of_peak_sustained_active",
    "L1 data": "l1tex__data_pipe_lsu_wavefronts.avg.pct_of_peak_sustained_elapsed",
}

# Why a warp did not issue: the average number of warps in that state, for each issued instruction.
STALLS = {
    name.replace("_", " "): f"smsp__average_warps_issue_stalled_{name}_per_issue_active.ratio"
    for name in (
        *("long_scoreboard", "short_scoreboard", "mio_throttle", "lg_throttle", "tex_throttle"),
        *("math_pipe_throttle", "barrier", "wait", "not_selected", "dispatch_stall", "no_instruction"),
        *("imc_miss", "branch_resolving", "drain", "membar", "sleeping", "misc", "gmma", "selected"),
    )
}

_LAUNCH = (
    *(TIME, CYCLES, CLOCK, GRID, BLOCK, REGISTERS, SHARED_STATIC, SHARED_DYNAMIC, WAVES),
    *OCCUPANCY_LIMITS.values(),
    *(OCCUPANCY_POSSIBLE,),
)
_BYTES = (DRAM_READ, DRAM_WRITE, L2_BYTES, L2_HIT_RATE, L2_TO_L1, L1_TO_L2)
_MEMORY = (
    *(L1_BYTES, L1_HIT_RATE, L1_WAVEFRONTS),
    *ASKED.values(),
    *GLOBAL_REQUESTS.values(),
    *GLOBAL_SECTORS.values(),
    *SHARED_REQUESTS.values(),
    *SHARED_WAVEFRONTS.values(),
    *BANK_CONFLICTS.values(),
)
_COMPUTE = (
    *(INSTRUCTIONS, ISSUE, OCCUPANCY),
    *FP32,
    *TENSOR,
    *THROUGHPUTS.values(),
    *PIPES.values(),
    *STALLS.values(),
)

SETS = {
    "bytes": (*_LAUNCH, *_BYTES),
    "default": (*_LAUNCH, *_BYTES, *_MEMORY, *_COMPUTE),
}
