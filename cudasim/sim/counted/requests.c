/* From what each lane logged to what a warp requested.
 *
 * On a GPU the lanes of a warp execute an instruction together where they can; here they ran one after
 * another. So the logs are read side by side: where the next access of all lanes is by the same instruction,
 * it is one request. Otherwise the lanes have taken different ways through the code, and the lanes that are
 * least far in the code go first, since the others wait for them where the ways join: after a branch, or
 * after a loop that some lanes leave earlier. The end of each turn of a loop is in the logs too, and there
 * lanes wait for each other like at an access. */
#include "../watch.h"
#include "recorder.h"

struct walk {
    struct recorder *recorder;
    struct log *logs; /* of the warp's 32 lanes */
    unsigned first_thread;
    unsigned next[SIM_WARP_THREADS]; /* entry of each log */
};

static uintptr_t address_of(uint64_t entry) {
    return (uintptr_t)(entry & ((1ull << SITE_SHIFT) - 1));
}

/* An entry that is no access but says that a turn of a loop has ended, and where. */
static bool is_turn(uint64_t entry) {
    return entry >> SITE_SHIFT == 0;
}

static const struct site *site_in(const struct recorder *self, uint64_t entry) {
    return &self->sites[entry >> SITE_SHIFT];
}

static unsigned first_of(unsigned lanes) {
    return (unsigned)__builtin_ctz(lanes);
}

static void count_request(struct walk *walk, const struct site *site,
                          const uintptr_t addresses[SIM_WARP_THREADS], unsigned lanes) {
    struct recorder *self = walk->recorder;
    if (__builtin_expect(self->is_traced, 0))
        trace_request(walk->first_thread / SIM_WARP_THREADS, site, addresses, lanes);
    if (self->is_abandoned)
        return;
    const struct instruction *instruction = instruction_at(site->instruction);
    struct tally *tally = &self->tallies[site->instruction];
    tally->requests++;
    tally->threads += (unsigned)__builtin_popcount(lanes);
    tally->addresses += different_addresses(addresses, lanes);
    if (instruction->space == COUNTED_GLOBAL) {
        unsigned sectors = sectors_of(addresses);
        tally->sectors += sectors;
        warps_request(self, walk->first_thread / SIM_WARP_THREADS, instruction, sectors, 0);
        struct access access = {.pc = instruction->pc,
                                .bytes = instruction->bytes,
                                .operation = instruction->operation,
                                .place = site->place};
        footprint_request(self, &access, addresses, lanes);
    } else {
        struct wavefronts wavefronts = wavefronts_of(addresses, lanes, instruction->bytes);
        tally->wavefronts += wavefronts.number;
        tally->phases += wavefronts.phases;
        warps_request(self, walk->first_thread / SIM_WARP_THREADS, instruction, 0, wavefronts.number);
    }
}

/* Counts requests as long as all `lanes` go the same way, at most `most`; returns how many. */
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

/* Sorts as the places stand in the program; the end of a turn after the accesses in it. */
static instruction_key key_of(const struct recorder *self, uint64_t entry) {
    const instruction_key last_part = (1u << KEY_PART_BITS) - 1;
    return is_turn(entry) ? entry << KEY_PART_BITS | last_part : site_in(self, entry)->key;
}

/* Counts the one request of those lanes that have come the least far; returns which those are. */
static unsigned walk_apart(struct walk *walk, unsigned lanes) {
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

void requests_of_warp(struct recorder *self, unsigned warp) {
    struct walk walk = {.recorder = self, .first_thread = warp * SIM_WARP_THREADS};
    walk.logs = &self->logs[walk.first_thread];
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
            advance(&walk, walk_apart(&walk, lanes), 1);
    }
    drop_counted(&walk);
}
