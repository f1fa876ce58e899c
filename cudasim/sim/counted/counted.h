/* The counted build as a library: what the kernels of the last launches asked of memory.
 *
 * Kernels are compiled with -fsanitize=thread, for its instrumentation only: it calls a function before every
 * load and store, and where a basic block begins (access.c, basic_blocks.c). These functions check an access,
 * then log it. requests.c merges the logs of a warp's 32 lanes into the requests that a GPU would make, and
 * metrics.c counts the requests for each instruction of the kernel. A fault stops the launch, and
 * sim_last_report() describes it. Everything here belongs to the OS thread that calls it, and to the launches
 * that this thread makes.
 *
 * Python's cffi reads this file after ../sim.h and as it stands, which is why it includes nothing. */
#pragma once

/* Constant memory is counted in a sample only. */
typedef enum counted_space {
    COUNTED_NOTHING = 0,
    COUNTED_GLOBAL = 1,
    COUNTED_SHARED = 2,
    COUNTED_CONSTANT = 3
} counted_space;

typedef enum counted_operation { COUNTED_LOAD = 0, COUNTED_STORE = 1, COUNTED_ATOMIC = 2 } counted_operation;

/* One load, store or atomic in a kernel's source. A request is one execution by a warp. */
typedef struct counted_instruction {
    unsigned long long pc;
    const char *library; /* the file that the instruction is in, and where there; valid while it is loaded */
    unsigned long long offset;
    counted_space space;
    counted_operation operation;
    unsigned bytes; /* for each thread */
    unsigned long long requests;
    unsigned long long threads;    /* that took part, over all requests */
    unsigned long long addresses;  /* different ones of each request, over all requests */
    unsigned long long sectors;    /* of 32 bytes, of global memory: a request counts a sector once */
    unsigned long long wavefronts; /* of shared memory: cycles that the 32 banks need */
    unsigned long long phases;     /* as many cycles it would be without a bank conflict */
    /* In a sample, counted_sample(): */
    unsigned long long lines;  /* of 128 bytes, as sectors */
    unsigned long long missed; /* sectors of loads that were not in L1 */
    unsigned long long waits;  /* loads with a sector missing, or just asked for by another warp */
    unsigned long long first_requests, first_waits; /* those of the blocks' first warps */
    /* For shared memory: the wavefronts if a compiler merged requests of 4 bytes per lane into ones of 8 or
     * 16 at the same places. */
    unsigned long long wavefronts_of_8, wavefronts_of_16;
    unsigned long long address; /* where one of its requests went, which tells the array */
} counted_instruction;

/* What one warp asked of memory, by counted_operation. */
typedef struct counted_warp {
    unsigned long long block; /* its number in the grid, x fastest */
    unsigned warp;            /* its number in the block */
    unsigned long long global_requests[3];
    unsigned long long sectors[3];
    unsigned long long shared_requests[3];
    unsigned long long wavefronts[3];
} counted_warp;

/* How often a basic block of the kernel was run in a sample. */
typedef struct counted_basic_block {
    unsigned long long pc; /* after its first instruction */
    const char *library;   /* as of counted_instruction */
    unsigned long long offset;
    unsigned long long warps;   /* the most of a warp's lanes, over all warps */
    unsigned long long threads; /* over all threads */
    unsigned long long slowest; /* as warps, but of each thread block's busiest warp alone */
    unsigned long long most;    /* of the busiest warp of all */
} counted_basic_block;

/* What a block of a sample asked of L2: its distinct sectors, each as `sector << 3`, plus 1 if read, plus 2
 * if written, plus 7 if updated by an atomic. */
typedef struct counted_block {
    unsigned long long block; /* its number in the grid, x fastest */
    unsigned long long count;
    const unsigned long long *sectors;
} counted_block;

typedef struct counted_launch {
    const char *kernel;
    const char *file;
    dim3 grid;
    dim3 block;
    unsigned long long dynamic_shared_bytes;
    unsigned long long barriers;        /* __syncthreads(), once for each warp */
    unsigned long long warp_operations; /* shuffles, votes and __syncwarp(), likewise */
    unsigned long long tensor_copies; /* boxes that TMA was asked for, and their bytes, once for all blocks */
    unsigned long long tensor_bytes;
    unsigned long long tensor_stores; /* boxes that TMA was to store, or to combine with what is there */
    unsigned long long tensor_stored_bytes;
    unsigned long long products; /* wgmma of a warpgroup, and the bytes of shared memory that they read */
    unsigned long long product_bytes;
    /* Distinct 32-byte sectors of global memory that the whole launch reads before it writes them, and that
     * it writes: the least that must come from DRAM and, sooner or later, go there. */
    unsigned long long sectors_read;
    unsigned long long sectors_written;
    /* The same behind an L2 cache of limited size (l2.c says what is modelled). */
    unsigned long long dram_sectors_read;
    unsigned long long dram_sectors_written;
    unsigned instruction_count;
    const counted_instruction *instructions;
    unsigned long long warp_count; /* warps that asked for anything, if counted_keep_warps() */
    const counted_warp *warps;     /* in no order */
    unsigned basic_block_count;    /* in a sample */
    const counted_basic_block *basic_blocks;
    unsigned long long block_count; /* likewise, in no order */
    const counted_block *blocks;
} counted_launch;

/* Kernels may access this memory from now on. Reports describe an address in it by `name` and index. */
void counted_allow(const void *memory, unsigned long long bytes, unsigned element_bytes, const char *name);
/* Marks the memory that was allowed last as unwritten wherever the map has a 0; the map has one byte for each
 * byte of that memory. Kernels' writes set the map, and a read of unwritten memory is a fault. */
void counted_unwritten(unsigned char *written);
void counted_forbid_all(void);

/* The GPU whose L2 cache is modelled; an H200's by default. */
void counted_set_gpu(unsigned multiprocessors, unsigned long long l2_bytes);

/* The recent places in the kernel of the OS threads that run the launch, at most this many; returns how many.
 * Any thread may ask while a launch runs, to find a loop that does not end. */
unsigned counted_running(unsigned long long *pcs, unsigned most);

/* The launches since counted_clear(), except those that failed. Valid until the next counted_clear(). */
unsigned counted_launch_count(void);
const counted_launch *counted_launch_at(unsigned index);
void counted_clear(void);

/* Questionable accesses of those launches that are no faults: unordered threads write the same value to the
 * same place. One for each pair of instructions; valid until counted_clear(). */
unsigned counted_warning_count(void);
const sim_report *counted_warning_at(unsigned index);

/* Whether the next launches are only checked for faults, which is several times as fast; they are not
   kept. */
void counted_only_check(int only);

/* The byte that fills unwritten shared memory in the next launches; reading it is then no fault. -1, the
 * default: it is a fault. */
void counted_fill_unwritten(int byte);

/* Whether the next launches keep the numbers of each warp as well. */
void counted_keep_warps(int keep);

/* Makes the next launches samples: a block has its own L1 cache of this many bytes, its warps take turns
 * after few accesses, and the launch keeps what each block asks of L2 and how often basic blocks run. 0, the
 * default: no samples. */
void counted_sample(unsigned long long l1_bytes);

/* What a warp of the traced block did, or what happened to it. */
typedef enum counted_event_kind {
    COUNTED_REQUEST = 0,
    COUNTED_BARRIER_REACHED = 1, /* by all lanes of the warp */
    COUNTED_BARRIER_PASSED = 2,  /* by all threads of the block */
    COUNTED_LANES_MET = 3        /* a shuffle, a vote, a __syncwarp() */
} counted_event_kind;

typedef struct counted_event {
    counted_event_kind kind;
    unsigned warp;
    unsigned lanes; /* a bit for each that took part */
    /* For a request: */
    unsigned known; /* a bit for each lane whose value is known */
    unsigned place; /* see counted_place_at() */
    counted_space space;
    counted_operation operation;
    unsigned bytes;
    unsigned long long pc;
    unsigned long long address[32];
    unsigned long long value[32]; /* the first 8 bytes; after a store or an atomic, and before a load */
} counted_event;

/* An argument or an array in shared memory that the traced block accessed. */
typedef struct counted_place {
    char name[48];
    unsigned long long begin;
    unsigned long long bytes;
    unsigned element_bytes; /* 0: not known */
    counted_space space;
} counted_place;

/* Traces one block of the launch that begins after `launch` others, up to this many events; 0 events ends
 * tracing. The trace is valid until the next call. Returns 0 without memory for it. */
int counted_trace(unsigned launch, unsigned long long block, unsigned long long most_events);
unsigned long long counted_event_count(void);
unsigned long long counted_events_missed(void); /* those beyond `most_events` */
const counted_event *counted_event_at(unsigned long long index);
const counted_place *counted_place_at(unsigned index);
dim3 counted_traced_block(void); /* its size, in threads */
