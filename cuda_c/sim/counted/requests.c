/* From what each lane logged to what a warp requested.
 *
 * On a GPU the lanes of a warp execute an instruction together where they can; here they ran one after
 * another. So the logs are walked side by side: where the next access of all lanes is the same instruction,
 * it is one request. Where it is not, they have taken different ways through the code, and those go first
 * that have come the least far in it, since the others wait for them where the ways join: after a branch, or
 * after a loop that some lanes leave earlier. */
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

static const struct site *site_in(const struct recorder *self, uint64_t entry) {
    return &self->sites[entry >> SITE_SHIFT];
}

static unsigned first_of(unsigned lanes) {
    return (unsigned)__builtin_ctz(lanes);
}

static void count_request(struct walk *walk, const struct site *site,
                          const uintptr_t addresses[SIM_WARP_THREADS], unsigned lanes) {
    struct recorder *self = walk->recorder;
    const struct instruction *instruction = instruction_at(site->instruction);
    struct tally *tally = &self->tallies[site->instruction];
    tally->requests++;
    tally->threads += (unsigned)__builtin_popcount(lanes);
    if (instruction->space == COUNTED_GLOBAL) {
        tally->sectors += sectors_of(addresses);
        struct access access = {.pc = instruction->pc,
                                .bytes = instruction->bytes,
                                .operation = instruction->operation,
                                .place = site->place,
                                .instruction = site->instruction};
        footprint_request(self, &access, addresses, lanes, walk->first_thread);
    } else {
        tally->wavefronts += wavefronts_of(addresses, lanes, instruction->bytes);
        tally->least_wavefronts += least_wavefronts_of(lanes, instruction->bytes);
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
        count_request(walk, site_in(walk->recorder, site), addresses, lanes);
    }
    return most;
}

/* Counts the one request of those lanes that have come the least far; returns which those are. */
static unsigned walk_apart(struct walk *walk, unsigned lanes) {
    const struct site *sites[SIM_WARP_THREADS];
    uintptr_t addresses[SIM_WARP_THREADS];
    instruction_key least = UINT64_MAX;
    for (unsigned left = lanes; left; left &= left - 1) {
        unsigned lane = first_of(left);
        uint64_t entry = walk->logs[lane].entry[walk->next[lane]];
        sites[lane] = site_in(walk->recorder, entry);
        addresses[lane] = address_of(entry);
        if (sites[lane]->key < least)
            least = sites[lane]->key;
    }
    unsigned behind = 0;
    for (unsigned left = lanes; left; left &= left - 1)
        if (sites[first_of(left)]->key == least)
            behind |= 1u << first_of(left);
    unsigned first = first_of(behind);
    for (unsigned lane = 0; lane < SIM_WARP_THREADS; lane++)
        if (!(behind >> lane & 1))
            addresses[lane] = addresses[first];
    count_request(walk, sites[first], addresses, behind);
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
