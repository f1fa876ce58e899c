/* Shared memory as TMA and wgmma see it, 16 bytes at a time: their last writer, and their readers since.
 *
 * Each check is one question about happens-before (warp_clocks.h):
 *   TMA is asked to write    has everybody who read the old values told so, and has the last copy come?
 *   TMA is asked to store    is what it reads there, ordered before, and past a proxy fence? (stored.c)
 *   somebody writes          has TMA read what it stores from there, and has the one who waited told so?
 *   wgmma, a thread reads    has somebody waited for the phase of the mbarrier that counts the copy's bytes?
 *   wgmma reads a store      is the store ordered before, with a fence.proxy.async between?
 *   wgmma reads a copy       do its descriptor's rows and swizzle find the rows that TMA wrote? */
#pragma once
#include "../hopper/watch_hopper.h"
#include "counted.h"

void stages_begin_block(struct sim_worker *worker);
/* An access is aligned, so it lies within 16 bytes. */
void stages_access(struct sim_worker *worker, uintptr_t pc, uintptr_t address, counted_operation operation);
void stages_copy(const struct sim_site *site, const struct sim_tensor_copy *copy, struct sim_place to,
                 const struct sim_mbarrier *barrier);
void stages_store_from_block(const struct sim_site *site, struct sim_place to,
                             const struct sim_mbarrier *barrier);
/* A box is asked to be stored; it has been read. */
void stages_store(const struct sim_store *store);
void stages_store_has_read(const struct sim_store *store);
/* A copy to another block is asked for; the mbarrier there counts it. */
void stages_copy_reads(const struct sim_tensor_copy *copy, struct sim_worker *owner,
                       const struct sim_mbarrier *barrier);
void stages_product(const struct sim_product *product, const struct sim_thread *warpgroup);
