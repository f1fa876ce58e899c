/* What an OS thread that makes launches allows, asks for and gets: the counted build's interface, for the
 * tools. */
#pragma once
#include "places.h"

struct session;
struct trace;
extern struct session *session_now;      /* the caller's of the launch that runs */
struct session *session_of_caller(void); /* NULL: no memory */
struct counted_gpu {
    unsigned multiprocessors;
    unsigned long long l2_bytes;
};
struct counted_gpu session_gpu(void);
bool session_counts(void);
struct trace **session_trace(void); /* the caller's; NULL: no memory */
bool session_keeps_warps(void);
unsigned long long session_sampled_l1_bytes(void); /* 0: the launch is no sample */
bool session_fills(unsigned char *filler);         /* unwritten shared memory, with that byte */
unsigned argument_count(void);
struct place *argument_at(unsigned index);
void session_keep_launch(const counted_launch *launch);
void session_warn(const sim_report *warning);
