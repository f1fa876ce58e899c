/* What a kernel calls in the simulator: its own place in the grid, barriers, warp operations, matrix
 * instructions, asynchronous copies and atomics. Kernels in C reach these by cuda.h, kernels in C++ by
 * cpp/cuda_runtime.h; each defines uint3 and dim3 before it includes this file. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What a thread can ask about itself; PTX calls these the special registers. The first five stand in a
 * kernel's text, where its source may have macros by shorter names (block_size). */
struct sim_registers {
    uint3 sim_thread_index;
    uint3 sim_block_index;
    dim3 sim_block_size;
    dim3 sim_grid_size;
    unsigned char *sim_shared_memory; /* the dynamic kind */
    /* Of a kernel in C++ that runs the threads of its block in a loop (cpp/threads.hpp): */
    unsigned came_to_end; /* the thread that last came to the end of the kernel's text, counted from 1 */
    unsigned row;         /* the number of threads in the rows before that of the thread that runs */
    bool is_alone;        /* the thread that runs is no more in a loop: the simulator keeps its state */
    bool is_between;      /* one thread has ended, and the next has not begun */
    bool leaves;          /* the thread that runs executes a `return` */
    bool is_blind;        /* the loop keeps no account of which thread runs */
    bool is_to_see;       /* no such loop may run the block: a thread of it has made a fault in one */
};
extern __thread struct sim_registers sim_registers;

#ifdef SIM_IS_ONLY_CHECKED
/* The same. No thread of a kernel writes to it, and a compiler has constants not watched; those of a type
 * with constructors are none to it. A counted kernel has it not: the compiler would take more out of its
 * loops. */
extern const __thread unsigned
    sim_own_registers[sizeof(struct sim_registers) / sizeof(unsigned)] __asm__("sim_registers");
#define SIM_OWN (*(const struct sim_registers *)sim_own_registers)
#endif

/* A place in a kernel's source. Its address tells two barriers on one line apart. */
struct sim_site {
    const char *file;
    int line;
};
const struct sim_site *sim_site_at(const char *file, int line); /* the one object for this place */

/* ---- Barriers and warp operations ---- */

/* Returns how many threads of the block came with a predicate that is not zero. */
int sim_barrier(const struct sim_site *site, int predicate);
/* The barrier of all blocks of the grid, which then have to run at the same time. */
void sim_grid_barrier(const struct sim_site *site);
bool sim_grid_has_barrier(void); /* false: this launch traps there */

/* Each waits until all lanes that the mask names have come to the same operation with the same mask.
 * Lanes that a partial last warp does not have need not come. A shuffle from a lane that takes no part
 * gets a value that is undefined on a GPU; here all its bits are ones, which makes a float NaN. */
enum sim_shuffle { SIM_SHUFFLE_INDEX, SIM_SHUFFLE_UP, SIM_SHUFFLE_DOWN, SIM_SHUFFLE_XOR };
void sim_warp_barrier(const struct sim_site *site, unsigned mask);
unsigned sim_ballot(const struct sim_site *site, unsigned mask, int predicate);
uint64_t sim_shuffle(const struct sim_site *site, unsigned mask, uint64_t value, enum sim_shuffle direction,
                     int operand, int width);
/* all[i] becomes the value of lane i, for the lanes of the mask. `instructions`: what a GPU needs for what
 * the lanes make of it, and what is counted: one redux.sync or match.sync, or a shuffle for each step of a
 * tree. */
void sim_gather(const struct sim_site *site, unsigned mask, uint64_t value, uint64_t *all,
                unsigned instructions);
/* The lanes that are at this line together, as far as the simulator can bring them there. */
unsigned sim_active_mask(const struct sim_site *site);

/* ---- Matrix instructions of a warp: all 32 lanes come together ---- */

/* row[i] becomes the `mine` of lane 8 i + lane / 4: the row of ldmatrix's i-th matrix that this lane reads.
 */
void sim_matrix_rows(const struct sim_site *site, const void *mine, const void **row);

/* Transposes 8x8 matrices of 16-bit elements, of which a lane has two neighbours of row lane / 4 in a word
 * each. */
void sim_transpose(const struct sim_site *site, uint32_t *words, int matrices);

/* sum += a b for 16 rows, 8 columns and 32 bytes of k; ptx/mma.h says which lane has what. Products
 * are exact, and so is their sum with what was there, which is then cut off to float32, towards zero; a GPU
 * cuts off a little more, where a product is small beside the others. Of float32 factors (tf32) the lower 13
 * bits do not count. */
enum sim_factors {
    SIM_FLOAT16_FACTORS,
    SIM_BFLOAT16_FACTORS,
    SIM_TF32_FACTORS,
    SIM_E4M3_FACTORS, /* of 8 bits: wgmma alone has these here */
    SIM_E5M2_FACTORS
};
void sim_mma(const struct sim_site *site, float *sum, const uint32_t *a, const uint32_t *b,
             enum sim_factors factors);

/* d = a b + c for matrices that a warp holds in fragments (fragments.h says which lane has what); rounded as
 * above, and to nearest for binary16. Everything is the calling lane's own. */
enum sim_element {
    SIM_ELEMENT_FLOAT16,
    SIM_ELEMENT_BFLOAT16,
    SIM_ELEMENT_TF32,
    SIM_ELEMENT_FLOAT,
    SIM_ELEMENT_DOUBLE,
    SIM_ELEMENT_INT8,
    SIM_ELEMENT_UINT8,
    SIM_ELEMENT_INT32
};
struct sim_fragments {
    int rows, columns, depth;
    enum sim_element factors, addends, sums;
    const void *a, *b, *c;
    void *d;
};
void sim_fragment_product(const struct sim_site *site, const struct sim_fragments *mine);

/* ---- Asynchronous copies from global to shared memory (cp.async) ---- */

/* A copy lands, in order, when its thread waits for the group it was committed in, and no earlier: a
 * kernel that forgets to wait reads old data here too. `valid` false writes zeros and reads nothing. */
void sim_cp_async(const struct sim_site *site, void *shared, const void *global, unsigned bytes, bool valid);
/* The first `present` bytes, and zeros for the others. */
void sim_cp_async_partly(const struct sim_site *site, void *shared, const void *global, unsigned bytes,
                         unsigned present);
void cp_async_commit_group(void);
void cp_async_wait_group(unsigned groups_in_flight);

/* ---- Atomics ---- */

void sim_fence(void);
void sim_fence_block(void);

enum sim_atomic {
    SIM_ATOMIC_ADD,
    SIM_ATOMIC_MIN,
    SIM_ATOMIC_MAX,
    SIM_ATOMIC_AND,
    SIM_ATOMIC_OR,
    SIM_ATOMIC_XOR,
    SIM_ATOMIC_EXCHANGE,
    SIM_ATOMIC_COMPARE_AND_SWAP,
    SIM_ATOMIC_INCREMENT, /* to 0 after the value */
    SIM_ATOMIC_DECREMENT  /* to the value after 0, and from above the value */
};
enum sim_type {
    SIM_INT32,
    SIM_UINT32,
    SIM_INT64,
    SIM_UINT64,
    SIM_FLOAT,
    SIM_DOUBLE,
    SIM_UINT16,
    SIM_FLOAT16,
    SIM_BFLOAT16
};

/* Values travel as bits. Returns the old value. Atomic between all threads of the grid. */
uint64_t sim_atomic(const struct sim_site *site, enum sim_atomic operation, enum sim_type type,
                    volatile void *address, uint64_t value, uint64_t compare);
/* The same with the scope of the block (atomicAdd_block() and its relatives): between blocks it is no more
 * atomic than a plain access, and the checker says so. */
uint64_t sim_atomic_in_block(const struct sim_site *site, enum sim_atomic operation, enum sim_type type,
                             volatile void *address, uint64_t value, uint64_t compare);

/* ---- Bytes ---- */

void *sim_memset(void *to, int value, size_t bytes);
void *sim_memmove(void *to, const void *from, size_t bytes);

/* ---- What else a thread can do ---- */

/* Each ends the launch with a report. */
void sim_assertion_failed(const struct sim_site *site, const char *expression);
void sim_trap(const struct sim_site *site);

/* The thread executes a `return` of its kernel; or it has come to the end of the kernel's text. */
void sim_thread_leaves(void);
void sim_come_to_end(void);

/* The kernel's __launch_bounds__, at that place of its text. Ends the launch where a block has more threads.
 */
void sim_launch_bounds(unsigned most, const char *file, int line);

void sim_sleep(void);      /* the other threads of the block get a turn */
long long sim_clock(void); /* nanoseconds, which stand for cycles */

/* The float next to `value` towards zero, with its last bit set if it is not `value`: it rounds to 16 bits as
 * `value` does. */
static inline float sim_odd_float(double value) {
    float nearest = (float)value;
    bool is_inexact = ((double)nearest != value) & !__builtin_isinf(nearest);
    uint32_t bits;
    __builtin_memcpy(&bits, &nearest, sizeof bits);
    bits = (bits - (is_inexact & (__builtin_fabs((double)nearest) > __builtin_fabs(value)))) | is_inexact;
    __builtin_memcpy(&nearest, &bits, sizeof bits);
    return nearest;
}

/* Conversions to and from IEEE's binary16, rounding to nearest even. The instructions for one value of x86-64
 * wait for what was in the register before, so it takes those for vectors. */
#ifdef __F16C__
typedef float sim_four_floats __attribute__((vector_size(16)));
typedef short sim_eight_shorts __attribute__((vector_size(16)));

static inline float sim_float_of_half(uint16_t bits) {
    return __builtin_ia32_vcvtph2ps((sim_eight_shorts){(short)bits})[0];
}

static inline uint16_t sim_half_of_float(float value) {
    return (uint16_t)__builtin_ia32_vcvtps2ph((sim_four_floats){value}, 0)[0];
}

#else
#ifdef __aarch64__ /* gcc 12 knows _Float16 in C++ on x86-64 alone */
typedef __fp16 sim_binary16_of_processor;
#else
typedef _Float16 sim_binary16_of_processor;
#endif

static inline float sim_float_of_half(uint16_t bits) {
    sim_binary16_of_processor half;
    __builtin_memcpy(&half, &bits, sizeof half);
    return (float)half;
}

static inline uint16_t sim_half_of_float(float value) {
    sim_binary16_of_processor half = (sim_binary16_of_processor)value;
    uint16_t bits;
    __builtin_memcpy(&bits, &half, sizeof bits);
    return bits;
}
#endif

static inline uint16_t sim_half_of_double(double value) {
    return sim_half_of_float(sim_odd_float(value));
}

#ifdef __cplusplus
}
#endif
