/* The trace of one block, for a player. */
#pragma once
#include "access.h"

struct trace; /* of the caller's session */

/* The tool's state. Its functions do nothing while it is off. */
struct tracing {
    bool is_on; /* the block that runs is traced */
};

void trace_free(struct trace *trace);
void trace_launch_begins(const struct sim_launch *launch);
void trace_block_begins(struct tracing *tracing, uint32_t block_number);
static inline void trace_block_abandoned(struct tracing *tracing) {
    tracing->is_on = false;
}

void trace_this_access(unsigned thread, uintptr_t address, unsigned bytes, counted_operation operation);
void trace_this_request(unsigned warp, const struct site *site, const uintptr_t *addresses, unsigned lanes);
void trace_this_event(counted_event_kind kind, unsigned warp, unsigned lanes);
void trace_settle_now(void);

/* The thread's access, after it was logged. */
static inline void trace_access(const struct tracing *tracing, unsigned thread, uintptr_t address,
                                unsigned bytes, counted_operation operation) {
    if (__builtin_expect(tracing->is_on, 0))
        trace_this_access(thread, address, bytes, operation);
}
/* The running thread is about to do something else, or another thread to run. */
static inline void trace_settle(const struct tracing *tracing) {
    if (__builtin_expect(tracing->is_on, 0))
        trace_settle_now();
}
static inline void trace_request(const struct tracing *tracing, unsigned warp, const struct site *site,
                                 const uintptr_t *addresses, unsigned lanes) {
    if (__builtin_expect(tracing->is_on, 0))
        trace_this_request(warp, site, addresses, lanes);
}
static inline void trace_event(const struct tracing *tracing, counted_event_kind kind, unsigned warp,
                               unsigned lanes) {
    if (__builtin_expect(tracing->is_on, 0))
        trace_this_event(kind, warp, lanes);
}
