/* From what each lane logged to what a warp requested.
 *
 * On a GPU the lanes of a warp execute an instruction together if they can; here they ran one after another.
 * So the logs are read side by side: if the next access of all lanes is by the same instruction, it is one
 * request. Otherwise the lanes have diverged, and those least far in the code go first. The others wait for
 * them where the ways join: after a branch, or after a loop that some lanes leave earlier. The logs also have
 * the end of each turn of a loop, where lanes wait for each other as at an access. */
#include "../watch.h"
#include "recorder.h"
#include <stdlib.h>

struct walk {
    struct recorder *recorder;
    struct log *logs; /* of the warp's 32 lanes */
    unsigned first_thread;
    unsigned next[SIM_WARP_THREADS]; /* entry of each log */
};

static uintptr_t address_of(uint64_t entry) {
    return (uintptr_t)(entry & ((1ull << SITE_SHIFT) - 1));
}

/* An entry that is no access, but tells where a turn of a loop has ended. */
static bool is_turn(uint64_t entry) {
    return entry >> SITE_SHIFT == 0;
}

static const struct site *site_in(const struct recorder *self, uint64_t entry) {
    return &self->sites[entry >> SITE_SHIFT];
}

static unsigned first_of(unsigned lanes) {
    return (unsigned)__builtin_ctz(lanes);
}

static unsigned wavefronts_of_wide(const uintptr_t addresses[SIM_WARP_THREADS], unsigned lanes,
                                   unsigned bytes) {
    uintptr_t begins[SIM_WARP_THREADS];
    for (unsigned lane = 0; lane < SIM_WARP_THREADS; lane++)
        begins[lane] = addresses[lane] / bytes * bytes;
    return wavefronts_of(begins, lanes, bytes).number;
}

static void count_request(struct walk *walk, const struct site *site,
                          const uintptr_t addresses[SIM_WARP_THREADS], unsigned lanes) {
    struct recorder *self = walk->recorder;
    trace_request(&self->trace, walk->first_thread / SIM_WARP_THREADS, site, addresses, lanes);
    if (self->requests.is_abandoned)
        return;
    const struct instruction *instruction = instruction_at(site->instruction);
    struct tally *tally = &self->requests.tallies[site->instruction];
    tally->requests++;
    tally->threads += (unsigned)__builtin_popcount(lanes);
    tally->addresses += different_addresses(addresses, lanes);
    tally->address = addresses[0];
    if (instruction->space == COUNTED_GLOBAL) {
        unsigned sectors = sectors_of(addresses);
        tally->sectors += sectors;
        warps_request(self, walk->first_thread / SIM_WARP_THREADS, instruction, sectors, 0);
        struct access access = {.pc = instruction->pc,
                                .bytes = instruction->bytes,
                                .operation = instruction->operation,
                                .place = site->place};
        footprint_request(self, &access, addresses, lanes);
        if (self->sample.is_on)
            sample_request(&self->sample, tally, instruction->operation, addresses,
                           walk->first_thread / SIM_WARP_THREADS);
    } else if (instruction->space == COUNTED_SHARED) {
        struct wavefronts wavefronts = wavefronts_of(addresses, lanes, instruction->bytes);
        tally->wavefronts += wavefronts.number;
        tally->phases += wavefronts.phases;
        if (self->sample.is_on && instruction->bytes < 16) {
            tally->wavefronts_of_8 += wavefronts_of_wide(addresses, lanes, 8);
            tally->wavefronts_of_16 += wavefronts_of_wide(addresses, lanes, 16);
        }
        warps_request(self, walk->first_thread / SIM_WARP_THREADS, instruction, 0, wavefronts.number);
    }
}

/* Counts at most `most` requests as long as all `lanes` go the same way; returns how many. */
static unsigned walk_together(struct walk *walk, unsigned lanes, unsigned most) {
    unsigned first = first_of(lanes);
    const uint64_t *entries[SIM_WARP_THREADS];
    for (unsigned lane = 0; lane < SIM_WARP_THREADS; lane++) {
        unsigned from = lanes >> lane & 1 ? lane : first;
        entries[lane] = &walk->logs[from].entry[walk->next[from]];
    }
    for (unsigned i = 0; i < most; i++) {
        uint64_t site = entries[0][i], different = 0;
        uintptr_t addresses[SIM_WARP_THREADS];
        for (unsigned lane = 0; lane < SIM_WARP_THREADS; lane++) {
            uint64_t entry = entries[lane][i];
            different |= entry ^ site;
            addresses[lane] = address_of(entry);
        }
        if (different >> SITE_SHIFT)
            return i;
        if (is_turn(site)) {
            if (different)
                return i;
            continue;
        }
        count_request(walk, site_in(walk->recorder, site), addresses, lanes);
    }
    return most;
}

/* Sorts in the order of the program's text; the end of a turn comes after its accesses. */
static instruction_key key_of(const struct recorder *self, uint64_t entry) {
    const instruction_key last_part = (1u << KEY_PART_BITS) - 1;
    return is_turn(entry) ? entry << KEY_PART_BITS | last_part : site_in(self, entry)->key;
}

/* Counts one request of the lanes that are least far in the code; returns these lanes. */
static unsigned walk_lanes_behind(struct walk *walk, unsigned lanes) {
    uint64_t entries[SIM_WARP_THREADS];
    instruction_key keys[SIM_WARP_THREADS], least = UINT64_MAX;
    for (unsigned left = lanes; left; left &= left - 1) {
        unsigned lane = first_of(left);
        entries[lane] = walk->logs[lane].entry[walk->next[lane]];
        keys[lane] = key_of(walk->recorder, entries[lane]);
        least = keys[lane] < least ? keys[lane] : least;
    }
    unsigned behind = 0;
    for (unsigned left = lanes; left; left &= left - 1)
        if (keys[first_of(left)] == least)
            behind |= 1u << first_of(left);
    unsigned first = first_of(behind);
    if (is_turn(entries[first]))
        return behind;
    uintptr_t addresses[SIM_WARP_THREADS];
    for (unsigned lane = 0; lane < SIM_WARP_THREADS; lane++)
        addresses[lane] = address_of(entries[behind >> lane & 1 ? lane : first]);
    count_request(walk, site_in(walk->recorder, entries[first]), addresses, behind);
    return behind;
}

static void advance(struct walk *walk, unsigned lanes, unsigned entries) {
    for (; lanes; lanes &= lanes - 1)
        walk->next[first_of(lanes)] += entries;
}

static void drop_counted(struct walk *walk) {
    for (unsigned lane = 0; lane < SIM_WARP_THREADS; lane++) {
        struct log *log = &walk->logs[lane];
        unsigned done = walk->next[lane];
        log->count -= done;
        if (done > 0 && log->count > 0)
            memmove(log->entry, log->entry + done, log->count * sizeof *log->entry);
    }
}

/* Merges the logs of a warp's lanes, and removes what it has merged. It does not know what follows the end of
 * a full log, so later entries of other lanes may stay. */
static void put_together(struct recorder *self, unsigned warp) {
    struct walk walk = {.recorder = self, .first_thread = warp * SIM_WARP_THREADS};
    walk.logs = &self->requests.logs[walk.first_thread];
    for (;;) {
        unsigned lanes = 0, common = UINT32_MAX;
        bool known = true; /* what every lane does next */
        for (unsigned lane = 0; lane < SIM_WARP_THREADS; lane++) {
            unsigned left = walk.logs[lane].count - walk.next[lane];
            if (left > 0) {
                lanes |= 1u << lane;
                common = left < common ? left : common;
            } else if (walk.logs[lane].waits) {
                known = false;
            }
        }
        if (!lanes || !known)
            break;
        unsigned together = walk_together(&walk, lanes, common);
        if (together > 0)
            advance(&walk, lanes, together);
        else
            advance(&walk, walk_lanes_behind(&walk, lanes), 1);
    }
    drop_counted(&walk);
}

/* ---- What happens ---- */

bool requests_create(struct requests *self) {
    self->tallies = calloc(MOST_INSTRUCTIONS, sizeof *self->tallies);
    self->logs = calloc(SIM_MAX_BLOCK_THREADS, sizeof *self->logs);
    return self->tallies && self->logs;
}

void requests_free(struct requests *self) {
    free(self->tallies);
    free(self->logs);
}

void requests_worker_begins(struct recorder *recorded) {
    struct requests *self = &recorded->requests;
    *self = (struct requests){.is_on = session_counts(),
                              .most_logged = session_sampled_l1_bytes() ? LOGGED_OF_SAMPLES : LOG_ENTRIES,
                              .tallies = self->tallies,
                              .logs = self->logs};
}

void requests_block_begins(struct recorder *recorded) {
    struct requests *self = &recorded->requests;
    memset(self->at_barrier, 0, sizeof self->at_barrier);
    for (unsigned thread = 0; self->is_on && thread < recorded->worker->block.size; thread++)
        self->logs[thread].place = self->logs[thread].basic_blocks_passed = 0;
}

static unsigned warps_of(const struct recorder *recorded) {
    return (recorded->worker->block.started + SIM_WARP_THREADS - 1) / SIM_WARP_THREADS;
}

/* The lanes' accesses before the fault go to the trace, and are not counted. */
void requests_block_abandoned(struct recorder *recorded) {
    struct requests *self = &recorded->requests;
    self->is_abandoned = true;
    for (unsigned warp = 0; warp < warps_of(recorded); warp++)
        put_together(recorded, warp);
    self->is_abandoned = false;
    for (unsigned thread = 0; self->is_on && thread < SIM_MAX_BLOCK_THREADS; thread++) {
        self->logs[thread].count = 0;
        self->logs[thread].waits = false;
    }
}

/* A thread whose log is full goes on when there is room in it again. */
bool requests_all_stopped(struct recorder *recorded) {
    struct requests *self = &recorded->requests;
    struct sim_block *block = &recorded->worker->block;
    bool any = false;
    if (!self->is_on)
        return false;
    for (unsigned warp = 0; warp < warps_of(recorded); warp++)
        put_together(recorded, warp);
    for (unsigned thread = 0; thread < block->started; thread++) {
        struct log *log = &self->logs[thread];
        if (log->waits && log->count < self->most_logged) {
            log->waits = false;
            sim_make_ready(block, &block->threads[thread]);
            any = true;
        }
    }
    return any;
}

bool requests_barrier_reached(struct recorder *recorded, unsigned warp) {
    struct requests *self = &recorded->requests;
    unsigned lanes = sim_lanes_of_warp(&recorded->worker->block, warp);
    if (++self->at_barrier[warp] < (unsigned)__builtin_popcount(lanes))
        return false;
    self->at_barrier[warp] = 0;
    self->barriers++;
    if (self->is_on)
        put_together(recorded, warp);
    return true;
}

void requests_barrier_passed(struct recorder *recorded) {
    struct requests *self = &recorded->requests;
    for (unsigned warp = 0; warp < warps_of(recorded); warp++) /* some lanes may have returned */
        self->barriers += self->at_barrier[warp] > 0;
    memset(self->at_barrier, 0, sizeof self->at_barrier);
}

void requests_lanes_met(struct recorder *recorded, unsigned warp, unsigned lanes) {
    recorded->requests.warp_operations++;
    if (recorded->requests.is_on && lanes == sim_lanes_of_warp(&recorded->worker->block, warp))
        put_together(recorded, warp);
}

counted_instruction *requests_launch_ends(struct recorder *first, uint64_t launch, counted_launch *result) {
    unsigned instruction_count = instructions_of_launch();
    counted_instruction *counted = calloc(instruction_count ? instruction_count : 1, sizeof *counted);
    for (unsigned i = 0; counted && i < instruction_count; i++) {
        const struct instruction *instruction = instruction_at(i);
        counted[i] = (counted_instruction){.pc = instruction->pc,
                                           .space = instruction->space,
                                           .operation = instruction->operation,
                                           .bytes = instruction->bytes};
        counted[i].library = sim_library_of(instruction->pc, &counted[i].offset);
    }
    for (struct recorder *recorded = first; recorded; recorded = recorded->next) {
        struct requests *self = &recorded->requests;
        if (recorded->launch != launch)
            continue;
        result->barriers += self->barriers;
        result->warp_operations += self->warp_operations;
        result->tensor_copies += self->tensor_copies;
        result->tensor_stores += self->tensor_stores;
        result->tensor_stored_bytes += self->tensor_stored_bytes;
        result->tensor_bytes += self->tensor_bytes;
        result->products += self->products;
        result->product_bytes += self->product_bytes;
        for (unsigned i = 0; i < instruction_count; i++) {
            const struct tally *tally = &self->tallies[i];
            if (counted) {
                counted[i].requests += tally->requests;
                counted[i].threads += tally->threads;
                counted[i].addresses += tally->addresses;
                counted[i].sectors += tally->sectors;
                counted[i].wavefronts += tally->wavefronts;
                counted[i].phases += tally->phases;
                counted[i].lines += tally->lines;
                counted[i].missed += tally->missed;
                counted[i].waits += tally->waits;
                counted[i].first_requests += tally->first_requests;
                counted[i].first_waits += tally->first_waits;
                counted[i].wavefronts_of_8 += tally->wavefronts_of_8;
                counted[i].wavefronts_of_16 += tally->wavefronts_of_16;
                counted[i].address = tally->address ? tally->address : counted[i].address;
            }
            self->tallies[i] = (struct tally){0};
        }
    }
    return counted;
}
