/* Each kernel uses one resource as fast as a GPU can. fgn/measure/machine.py times them; no chain uses them.
 *
 * Each returns the CUDA runtime's status, 0 for success, and writes something of its result to `out`, so
 * that no compiler leaves the work out. Python's cffi reads this file as it stands. */
#pragma once

/* `blocks` blocks of 256 threads read 8192 floats each, `rounds` times over, 16 bytes in every access: block
 * b those from data[b * 8192] on. With around_l1 the reads bypass the L1 cache, so data that fits in the L2
 * cache measures the bandwidth of L2. Without it, data that fits in the L1 cache measures that of L1. data:
 * (blocks * 8192,), out: (blocks * 256,). */
int ceiling_read(const float *data, float *out, int around_l1, int blocks, int rounds, void *stream);

/* The same from shared memory: each block reads 32 KiB of it `rounds` times. out: (blocks * 256,). */
int ceiling_shared(float *out, int blocks, int rounds, void *stream);

/* Multiply-adds of registers: each thread does 16 * rounds of them, with the factor out[0] and the term
 * out[1]. out: (2 + blocks * 256,). */
int ceiling_multiply_add(float *out, int blocks, int rounds, void *stream);

/* Launches a kernel that does almost nothing `count` times, one after the other. out: (1,). */
int ceiling_launches(float *out, int count, void *stream);
