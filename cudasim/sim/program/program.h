/* The CUDA runtime for a whole program: what cpp/program.hpp, which has the functions by CUDA's names, asks
 * of this folder. The program is an ordinary process, and its host code an ordinary part of it.
 *
 * Everything that a program asks for is done before the call returns, in the order of the calls: one of the
 * orders that CUDA allows. What a GPU may still be doing then is remembered (pending.c), because the host may
 * not touch the memory of it before it has waited. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Where the program calls, and by which name it goes on to use the memory. */
struct sim_called {
    const char *function;
    const char *file;
    int line;
    const char *name; /* NULL: not known */
};

/* Every call of the program's is between these two, for it may have several OS threads; they wait for each
 * other, and for each other's kernels. The second one returns what it is given. */
void sim_program_begins(void);
int sim_program_ends(int error);

/* ---- errors.c: each returns the error, after one that no later call clears ---- */

int sim_program_error(int error);  /* of this call */
void sim_program_fails(int error); /* of a kernel: the next call that waits returns it */
int sim_program_waits(void);       /* a call that waits for kernels: their error */
int sim_program_last_error(bool forgets);
/* A mistake in the use of the runtime, and why a launch failed, are told through this function, and else on
 * the standard error. launched: whether sim_last_report() has more. */
extern void (*sim_program_tell)(const char *sentence, bool launched);
void sim_program_say(const struct sim_called *called, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
unsigned sim_program_told(void); /* how many sentences */
void sim_program_said(void);     /* one more, by other means */

/* ---- memory.c ---- */

enum sim_memory_kind { SIM_UNKNOWN_MEMORY, SIM_DEVICE_MEMORY, SIM_PINNED_MEMORY, SIM_MANAGED_MEMORY };

struct sim_allocation {
    unsigned char *begin;
    size_t bytes;
    enum sim_memory_kind kind;
    struct sim_called called;
    unsigned char *written; /* of device memory in a checked program: whether each byte has been */
    /* What a GPU may still be doing with it, see pending.c. */
    struct sim_stream *stream;
    uint64_t when;
    bool is_written_meanwhile; /* else it is only read */
    const char *by;            /* a kernel or a function */
    int on;                    /* the device whose stream that is */
    bool is_symbol;            /* a variable of the program, which nobody frees */
    int device;                /* whose memory it is */
    bool is_of_graph;          /* its place is reserved */
    const uint64_t *peers;     /* the other devices that may access it, a bit for each; NULL: all */
};

int sim_memory_take(void **memory, size_t bytes, enum sim_memory_kind kind, struct sim_called called);
/* Of a pool, which says which devices may access it. place: NULL, or where memory of a graph is whenever it
 * is there, which was reserved for it. */
int sim_memory_take_from(void **memory, void *place, size_t bytes, int device, const uint64_t *peers,
                         struct sim_called called);
void *sim_memory_reserve(size_t bytes); /* NULL: there is no room */
size_t
sim_memory_of(const uint64_t *peers); /* how many bytes those have that say who may access them there */
int sim_memory_give_back(void *memory, enum sim_memory_kind kind, struct sim_called called);
void sim_memory_add_symbol(void *variable, size_t bytes, const char *name);
struct sim_allocation *sim_allocation_at(const void *address);
/* Rows of `width` bytes that begin `pitch` bytes after each other; kind: CUDA's cudaMemcpyKind. */
int sim_memory_copy(void *to, size_t to_pitch, const void *from, size_t from_pitch, size_t width, size_t rows,
                    int kind, struct sim_stream *stream, bool waits, struct sim_called called);
int sim_memory_set(void *to, size_t pitch, int value, size_t width, size_t rows, struct sim_stream *stream,
                   struct sim_called called);
/* By other means than a copy or a kernel. */
void sim_memory_is_written(void *to, size_t bytes);
size_t sim_memory_used(int device);
unsigned sim_allocation_count(void);
struct sim_allocation *sim_allocation_number(unsigned index);
/* Device memory can be touched by kernels of the device, copies and libraries, and not by host code. These
 * two may be inside another two. device: SIM_ALL_DEVICES for a library. */
enum { SIM_ALL_DEVICES = -1 };
void sim_memory_open(int device);
bool sim_memory_is_for(const struct sim_allocation *memory, int device);
/* A phrase about the address, where the memory is another device's, or was freed; else NULL. is_far: no
 * memory of the kernel's is near, so it may be the host's as well. */
const char *sim_memory_out_of_reach(const void *address, bool is_far);
void sim_memory_close(void);
void sim_memory_is_free(struct sim_allocation *memory); /* no kernel uses it any more */
void sim_program_tell_leaks(void);

/* The same of host code, whose place is found by the frames; a crash above all (crash.c). */
extern void (*sim_program_tell_crash)(const char *sentence, void **frames, int count);

/* ---- symbols.c ---- */

void sim_symbol_is_known(void *variable, size_t bytes); /* before main() */
void sim_symbols_become(int device); /* from here on the variables have this device's values */

/* ---- libraries.c ---- */

bool sim_program_is_in_kernel(void);
/* A function of a library that stands for work of the GPU's; false in a kernel, where nothing has to end. */
bool sim_library_begins(void);
void sim_library_ends(bool waits); /* waits: the host has waited for the default stream then */
void *sim_library_memory(size_t bytes, enum sim_memory_kind kind); /* NULL: there is not so much */
void sim_library_gives_back(void *memory, enum sim_memory_kind kind);

/* ---- pending.c ---- */

struct sim_stream; /* NULL: the legacy default stream */
struct sim_event;

int sim_stream_create(struct sim_stream **stream, bool is_blocking);
int sim_stream_destroy(struct sim_stream *stream);
int sim_stream_wait(struct sim_stream *stream);
int sim_stream_wait_for_event(struct sim_stream *stream, struct sim_event *event);
int sim_event_create(struct sim_event **event, bool has_time);
int sim_event_destroy(struct sim_event *event);
int sim_event_record(struct sim_event *event, struct sim_stream *stream);
int sim_event_wait(struct sim_event *event);
int sim_event_elapsed(float *milliseconds, struct sim_event *begin, struct sim_event *end);
int sim_device_waits(void); /* for what this OS thread's device does */
bool sim_stream_exists(const struct sim_stream *stream);
int sim_stream_device(const struct sim_stream *stream);
/* What the stream does from now on with the memory goes on after the call. */
void sim_pending_begins(struct sim_allocation *memory, struct sim_stream *stream, bool writes,
                        const char *by);
/* Host code may go on to use whatever is pending in the stream, and in all that it waits for. */
void sim_pending_ends(struct sim_stream *stream);

/* ---- launch.c ---- */

struct sim_argument {
    const void *pointer;
    bool is_constant; /* the kernel only reads there, as its parameter says */
};
struct sim_program_launch {
    const char *kernel;
    const char *file;
    int line;
    void (*enter)(const void *);
    const void *arguments;
    size_t argument_bytes;
    const struct sim_argument *pointers; /* among the arguments */
    unsigned pointer_count;
    unsigned grid[3], block[3];
    size_t shared_bytes;
    struct sim_stream *stream;
    unsigned cluster;
    bool is_cooperative;
};
int sim_program_launches(const struct sim_program_launch *launch);
/* A launch by a kernel (dynamic parallelism): it runs when the kernel has ended, as one of the orders that
 * CUDA allows, and before whatever comes after the kernel. values: where those of its arguments are, a part
 * of launch->arguments; bytes: of each. */
bool sim_program_is_in_kernel(void);
int sim_program_launches_later(const struct sim_program_launch *launch, void *const *values,
                               const size_t *bytes);

/* Which launch runs now, by its number, and where it was asked for; 0: none. For any OS thread. */
uint64_t sim_program_runs(const char **kernel, const char **launched_in, int *launched_at);

/* ---- device.c ---- */

/* A GPU as its vendor describes it; `sources` are in device.c. */
struct sim_gpu {
    const char *name;
    int major, minor;
    int multiprocessors;
    int threads; /* of a multiprocessor at a time */
    int blocks;  /* likewise */
    size_t memory_bytes;
    size_t l2_bytes;
    size_t shared_bytes;          /* of a multiprocessor */
    size_t shared_bytes_of_block; /* at most, when a kernel asks for more than 48 KiB */
    int clock_khz, memory_clock_khz, memory_bus_bits;
};
enum { SIM_MOST_GPUS = 16 };
int sim_gpu_count(void);        /* CUDASIM_GPUS, or 1 */
void sim_device_launches(void); /* a kernel, on this OS thread's device */
int sim_device_now(void);       /* of this OS thread */
int sim_device_choose(int device);
int sim_device_exists(int device);                /* an error, where it does not */
const uint64_t *sim_device_peers(int device);     /* which others may access its memory */
int sim_device_opens_to_peer(int of, bool opens); /* the memory of that device, for this one's kernels */

const struct sim_gpu *sim_gpu_now(void);              /* the one that CUDASIM_GPU names, or an H100 */
int sim_gpu_blocks(int threads, size_t shared_bytes); /* that a multiprocessor has at a time */

#ifdef __cplusplus
}
#endif
