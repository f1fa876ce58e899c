/* Races between streams: operations that nothing orders, and that use the same bytes. In checked programs. */
#pragma once
#include "program.h"

enum { SIM_MOST_CLOCKS = 64, SIM_NO_CLOCK = SIM_MOST_CLOCKS };

/* How many operations of each stream come before a point of a stream or of the host: a vector clock. */
struct sim_order_clock {
    uint64_t of[SIM_MOST_CLOCKS];
};

#ifdef SIM_COUNTED

/* A new stream's clock; SIM_NO_CLOCK: there are too many streams, and no races are found from here on. */
unsigned sim_order_stream(int device, bool is_blocking);
/* What comes before the next operation of the stream. */
struct sim_order_clock sim_order_of(unsigned stream);
/* The stream goes on, or the host does, after all that the clock has. */
void sim_order_stream_waits(unsigned stream, const struct sim_order_clock *clock);
void sim_order_host_waits(const struct sim_order_clock *clock);
void sim_order_device_waits(int device);

/* An operation of the stream: a kernel that has run, */
void sim_order_kernel(unsigned stream, const struct sim_called *called);
/* or a copy or a fill of rows; `from`: NULL for a fill. */
void sim_order_copy(unsigned stream, const struct sim_called *called, const void *to, size_t to_pitch,
                    const void *from, size_t from_pitch, size_t width, size_t rows);
/* Before a kernel runs: whether what it uses has to be known. */
void sim_order_kernel_begins(void);

#else

static inline unsigned sim_order_stream(int device, bool is_blocking) {
    (void)device, (void)is_blocking;
    return SIM_NO_CLOCK;
}
static inline struct sim_order_clock sim_order_of(unsigned stream) {
    (void)stream;
    return (struct sim_order_clock){{0}};
}
static inline void sim_order_stream_waits(unsigned stream, const struct sim_order_clock *clock) {
    (void)stream, (void)clock;
}
static inline void sim_order_host_waits(const struct sim_order_clock *clock) {
    (void)clock;
}
static inline void sim_order_device_waits(int device) {
    (void)device;
}
static inline void sim_order_kernel(unsigned stream, const struct sim_called *called) {
    (void)stream, (void)called;
}
static inline void sim_order_copy(unsigned stream, const struct sim_called *called, const void *to,
                                  size_t to_pitch, const void *from, size_t from_pitch, size_t width,
                                  size_t rows) {
    (void)stream, (void)called, (void)to, (void)to_pitch, (void)from, (void)from_pitch, (void)width,
        (void)rows;
}
static inline void sim_order_kernel_begins(void) {}

#endif
