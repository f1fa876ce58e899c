/* The CUDA runtime for a whole program: the functions of this folder for cpp/program.hpp, which has CUDA's
 * names. The program is an ordinary process, and its host code an ordinary part of it.
 *
 * Everything that a program asks for is done before the call returns, in the order of the calls, one of the
 * orders that CUDA allows. streams.c remembers what a GPU might still be doing, because the host may not
 * touch that memory before it has waited. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The program's call, and the name by which it will use the memory. */
struct sim_called {
    const char *function;
    const char *file;
    int line;
    const char *name; /* NULL: not known */
};

/* Every call of the program is between these two, because the program may have several OS threads. They wait
 * for each other, and for each other's kernels. The second function returns its argument. */
void sim_program_begins(void);
int sim_program_ends(int error);
/* As realloc(); the program ends where there is none. */
void *sim_program_memory(void *memory, size_t bytes);

/* ---- errors.c: each returns the error, or an earlier one that no call clears ---- */

int sim_program_error(int error);  /* of this call */
void sim_program_fails(int error); /* of a kernel: the next call that waits returns it */
bool sim_program_has_failed(void); /* a kernel has, and nothing of the GPU's runs from then on */
int sim_program_waits(void);       /* a call that waits for kernels: their error */
int sim_program_last_error(bool forgets);
/* Tells why a launch failed, where Python runs the program; it reads sim_last_report(). */
extern void (*sim_program_tell)(void);
void sim_program_say(const struct sim_called *called, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
unsigned sim_program_told(void); /* how many sentences */
void sim_program_said(void);     /* one more, by other means */
/* The same of host code; the stack's frames give the place. */
void sim_program_say_at(const char *sentence, void **frames, int count);

/* ---- memory.c ---- */

struct sim_stream; /* NULL: the legacy default stream */

enum sim_memory_kind { SIM_DEVICE_MEMORY, SIM_PINNED_MEMORY, SIM_MANAGED_MEMORY };

struct sim_allocation {
    unsigned char *begin;
    size_t bytes;
    enum sim_memory_kind kind;
    struct sim_called called;
    unsigned char *written; /* of device memory in a checked program: whether each byte has been */
    struct sim_use *uses;   /* what a GPU may still be doing with it; those that write come first */
    bool is_symbol;         /* a variable of the program, which is never freed */
    int device;             /* whose memory it is */
    bool is_of_graph;       /* its place is reserved */
    const uint64_t *peers;  /* the other devices that may access it, a bit for each; NULL: all */
};

int sim_memory_take(void **memory, size_t bytes, enum sim_memory_kind kind, struct sim_called called);
/* Allocates from a pool, which decides which devices have access. place: NULL, or the reserved address of a
 * graph's memory. */
int sim_memory_take_from(void **memory, void *place, size_t bytes, int device, const uint64_t *peers,
                         struct sim_called called);
void *sim_memory_reserve(size_t bytes);      /* NULL: there is no room */
size_t sim_memory_of(const uint64_t *peers); /* the bytes of the pool with these permissions */
int sim_memory_give_back(void *memory, enum sim_memory_kind kind, struct sim_called called);
void sim_memory_add_symbol(void *variable, size_t bytes);
struct sim_allocation *sim_allocation_at(const void *address);
/* Copies rows of `width` bytes, `pitch` bytes apart; kind: CUDA's cudaMemcpyKind. */
int sim_memory_copy(void *to, size_t to_pitch, const void *from, size_t from_pitch, size_t width, size_t rows,
                    int kind, struct sim_stream *stream, bool waits, struct sim_called called);
int sim_memory_set(void *to, size_t pitch, int value, size_t width, size_t rows, struct sim_stream *stream,
                   struct sim_called called);
/* Notes a write that is neither a copy's nor a kernel's. */
void sim_memory_is_written(void *to, size_t bytes);
size_t sim_memory_used(int device);
unsigned sim_allocation_count(void);
struct sim_allocation *sim_allocation_number(unsigned index);
/* Kernels of the device, copies and libraries can touch device memory; host code cannot. Pairs of these calls
 * may be nested. device: SIM_ALL_DEVICES for a library. */
enum { SIM_ALL_DEVICES = -1 };
void sim_memory_open(int device);
bool sim_memory_is_for(const struct sim_allocation *memory, int device);
/* A phrase about the address if its memory is another device's, or was freed; else NULL. is_far: none of the
 * kernel's memory is near, so it may be the host's too. */
const char *sim_memory_out_of_reach(const void *address, bool is_far);
void sim_memory_close(void);
/* Host code may touch it from now on as its uses say. */
void sim_memory_protect(struct sim_allocation *memory);
void sim_program_tell_leaks(void);

/* ---- symbols.c ---- */

/* Before main(). name: as the source has it. */
void sim_symbol_is_known(void *variable, size_t bytes, const char *name);
const char *sim_symbol_name(const void *variable); /* NULL: not known */
void sim_symbols_become(int device);               /* from here on the variables have this device's values */

/* ---- libraries.c ---- */

bool sim_program_is_in_kernel(void);
/* Begins a library's function that does work of the GPU; false in a kernel, where nothing has to end. */
bool sim_library_begins(void);
void sim_library_reads(const void *from, size_t bytes); /* what its compiler has not instrumented */
/* Tells that a call of a library, or of its own, returns an error. */
void sim_library_fails(int error, const char *file, int line, const char *words);
void sim_library_ends(bool waits); /* waits: the host has waited for the default stream then */
void *sim_library_memory(size_t bytes, enum sim_memory_kind kind); /* NULL: there is not so much */
void sim_library_gives_back(void *memory, enum sim_memory_kind kind);

/* ---- streams.c ---- */

struct sim_event;
/* The latest of so many operations of a stream. */
struct sim_moment {
    unsigned stream;
    uint64_t count;
};
/* An operation's use of memory, which the host has not waited for. */
struct sim_use {
    struct sim_use *next;
    struct sim_moment moment;
    bool writes;
    const char *by; /* a kernel or a function */
};

int sim_stream_create(struct sim_stream **stream, bool is_blocking, int priority);
int sim_stream_made_with(struct sim_stream *stream, bool *is_blocking, int *priority);
int sim_stream_destroy(struct sim_stream *stream);
int sim_stream_wait(struct sim_stream *stream);
int sim_stream_wait_for_event(struct sim_stream *stream, struct sim_event *event);
int sim_event_create(struct sim_event **event, bool has_time);
bool sim_event_is_recorded(const struct sim_event *event);
int sim_event_destroy(struct sim_event *event);
int sim_event_record(struct sim_event *event, struct sim_stream *stream);
int sim_event_wait(struct sim_event *event);
int sim_event_elapsed(float *milliseconds, struct sim_event *begin, struct sim_event *end);
int sim_device_waits(void); /* for what this OS thread's device does */
bool sim_stream_exists(const struct sim_stream *stream);
int sim_stream_device(const struct sim_stream *stream);
bool sim_are_there_streams(void);                   /* more than one, whose operations may overlap */
void sim_stream_goes_on(struct sim_stream *stream); /* with a new operation */
/* The stream's latest operation, whether it comes after another one, and whether the host does. */
struct sim_moment sim_stream_now(struct sim_stream *stream);
bool sim_stream_is_after(struct sim_stream *stream, struct sim_moment moment);
bool sim_host_is_after(struct sim_moment moment);
/* The stream's latest operation is a copy of that device's memory. If the stream is another device's default
 * stream, the copy waits for all of both devices, which wait for it ("Peer-to-Peer Memory Copy"). */
void sim_stream_reaches(struct sim_stream *stream, int device);
/* The stream's latest operation, a kernel's or a function's, uses the allocation there, and goes on after the
 * call. */
void sim_memory_is_used(const void *address, struct sim_stream *stream, bool writes, const char *by);
/* The host has waited for the stream, and for all that the stream waits for. */
void sim_host_waits(struct sim_stream *stream);

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
    size_t static_shared_bytes; /* besides shared_bytes, which are dynamic */
};
int sim_program_launches(const struct sim_program_launch *launch);
/* A launch by a kernel (dynamic parallelism). It runs when the kernel has ended, before anything after the
 * kernel: an order that CUDA allows. values: its arguments' values, a part of launch->arguments; bytes: the
 * size of each. */
int sim_program_launches_later(const struct sim_program_launch *launch, void *const *values,
                               const size_t *bytes);

/* ---- lines.c ---- */

/* "file:line" of the instruction before the address, if it is the program's. */
bool sim_program_line_of(const void *address, char *text, size_t room);

/* The file of a program or a library, by the loader's name for it. */
const char *sim_program_file(const char *name);

/* ---- static_shared.c ---- */

size_t sim_program_static_shared(const void *kernel); /* bytes */

/* ---- crash.c ---- */

/* From here on crashes of host code are told. address: of a function of the program's. */
void sim_program_begins_at(const void *address);
extern const void *sim_program_address;
extern __thread const void *sim_program_frees; /* what host code frees now by free() or delete */

/* ---- device.c ---- */

/* A GPU as its vendor describes it; device.c names the sources. */
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
