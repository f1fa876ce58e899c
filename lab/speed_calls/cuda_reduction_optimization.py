"""jarnesino/cuda-reduction-optimization: sixteen sums of integers, with its numbers of blocks."""

from speed_calls.calls import at, i32, integers, zeros

REPOSITORY = "jarnesino/cuda-reduction-optimization"
N = 1 << 24
BLOCK = 1024
FEW = 16  # GRID_SIZE of reduce_kernels.cuh


def total(file, kernel, blocks):
    return at(f"reduce_kernel_implementations/{file}.cu", kernel, ladder="sum")[blocks, BLOCK, 4 * BLOCK](
        lambda: (integers(0, 9, N), zeros(2 * blocks, dtype=i32), N)
    )


ONE, TWO = N // BLOCK, N // BLOCK // 2
LAUNCHES = [
    total(
        "interleaved_addressing_with_global_memory_and_divergent_branching",
        "interleavedAddressingWithGlobalMemoryAndDivergentBranching",
        ONE,
    ),
    total(
        "interleaved_addressing_with_divergent_branching", "interleavedAddressingWithDivergentBranching", ONE
    ),
    total(
        "interleaved_addressing_with_global_memory_and_bank_conflicts",
        "interleavedAddressingWithGlobalMemoryAndGoodBranching",
        ONE,
    ),
    total("interleaved_addressing_with_bank_conflicts", "interleavedAddressingWithBankConflicts", ONE),
    total(
        "sequential_addressing_with_global_memory_and_idle_threads",
        "sequentialAddressingWithGlobalMemoryAndIdleThreads",
        ONE,
    ),
    total("sequential_addressing_with_idle_threads", "sequentialAddressingWithIdleThreads", ONE),
    total("first_add_during_load_with_loop_overhead", "firstAddDuringLoadWithLoopOverhead", TWO),
    total("loop_unrolling_only_at_warp_level_iterations", "loopUnrollingOnlyAtWarpLevelIterations", TWO),
    total("complete_loop_unrolling_with_one_reduction", "completeLoopUnrollingWithOneReduction", TWO),
    total(
        "multiple_reduce_operations_per_thread_iteration", "multipleReduceOperationsPerThreadIteration", FEW
    ),
    total("operations_for_consecutive_memory_addressing", "operationsForConsecutiveMemoryAddressing", FEW),
    total("operations_for_consecutive_memory_addressing_2", "operationsForConsecutiveMemoryAddressing2", FEW),
    total("shuffle_down", "shuffleDown", FEW),
    total("shuffle_down_with_loop_unrolling", "shuffleDownWithLoopUnrolling", FEW),
    total(
        "BEST_operations_for_consecutive_memory_addressing_2",
        "BESTOperationsForConsecutiveMemoryAddressing2",
        FEW,
    ),
    total(
        "BEST2_operations_for_consecutive_memory_addressing_2",
        "BEST2OperationsForConsecutiveMemoryAddressing2",
        FEW,
    ),
]
