/* Kernels that do one thing only, as fast as a GPU can: what fgn/measure/machine.py times. Part of no chain.
 *
 * Each returns the CUDA runtime's status, 0 for success, and writes something of its result to `out`, so
 * that no compiler leaves the work out. Python's cffi reads this file as it stands. */
#pragma once

/* `blocks` blocks of 256 threads read 8192 floats each, `rounds` times over, 16 bytes in every access: block
 * b those from data[b * 8192] on. around_l1: the reads pass by the L1 cache, so that with data that fits in
 * the L2 cache this is the bandwidth of L2; otherwise, where the blocks of a multiprocessor fit in its L1
 * cache, that of L1. data: (blocks * 8192,), out: (blocks * 256,). */
int ceiling_read(const float *data, float *out, int around_l1, int blocks, int rounds, void *stream);

/* The same from shared memory: each block reads 32 KiB of it `rounds` times. out: (blocks * 256,). */
int ceiling_shared(float *out, int blocks, int rounds, void *stream);

/* Multiply-adds of registers: each thread does 16 * rounds of them, with the factor out[0] and the term
 * out[1]. out: (2 + blocks * 256,). */
int ceiling_multiply_add(float *out, int blocks, int rounds, void *stream);

/* `count` launches, one after the other, of a kernel that does next to nothing. out: (1,). */
int ceiling_launches(float *out, int count, void *stream);
