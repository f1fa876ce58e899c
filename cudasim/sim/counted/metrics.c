/* What one request costs: sectors of global memory, wavefronts of shared memory.
 *
 * Global memory comes in sectors of 32 bytes; a request asks for each sector that a lane touches once.
 *
 * Shared memory has 32 banks of 4 bytes; in one wavefront each gives one word, to any number of lanes. A
 * request of 4 bytes per lane needs as many wavefronts as the busiest bank has distinct words to give. A
 * request of 8 bytes per lane has two phases, each with half of the lanes, and one of 16 bytes has four. It
 * has half as many phases if every lane has the address of its neighbour, or of the lane two further on.
 * (Measured: tests/fgn/agreement.) */
#include "recorder.h"

/* ---- Global memory ---- */

static unsigned count_different(uint64_t *numbers, unsigned count) {
    for (unsigned i = 1; i < count; i++) {
        uint64_t number = numbers[i];
        unsigned at = i;
        for (; at > 0 && numbers[at - 1] > number; at--)
            numbers[at] = numbers[at - 1];
        numbers[at] = number;
    }
    unsigned different = 1;
    for (unsigned i = 1; i < count; i++)
        different += numbers[i] != numbers[i - 1];
    return different;
}

unsigned sectors_of(const uintptr_t addresses[SIM_WARP_THREADS]) {
    uint64_t sectors[SIM_WARP_THREADS];
    unsigned changes = 0, descents = 0;
    for (unsigned lane = 0; lane < SIM_WARP_THREADS; lane++)
        sectors[lane] = addresses[lane] / SECTOR_BYTES;
    for (unsigned lane = 1; lane < SIM_WARP_THREADS; lane++) {
        changes += sectors[lane] != sectors[lane - 1];
        descents += sectors[lane] < sectors[lane - 1];
    }
    return descents == 0 ? changes + 1 : count_different(sectors, SIM_WARP_THREADS);
}

unsigned different_addresses(const uintptr_t addresses[SIM_WARP_THREADS], unsigned lanes) {
    /* Nearly always each lane's address is at least that of the lane before it. */
    uint64_t taking_part[SIM_WARP_THREADS];
    unsigned count = 0, different = 1;
    bool ascend = true;
    for (unsigned left = lanes; left; left &= left - 1) {
        uintptr_t address = addresses[__builtin_ctz(left)];
        if (count > 0) {
            different += address != taking_part[count - 1];
            ascend = ascend && address >= taking_part[count - 1];
        }
        taking_part[count++] = address;
    }
    return ascend ? different : count_different(taking_part, count);
}

/* ---- Shared memory ---- */

enum { BANKS = 32 };

static unsigned wavefronts_of_words(const uint64_t *words, unsigned count) {
    uint64_t in_bank[BANKS][2 * SIM_WARP_THREADS];
    unsigned in_use[BANKS] = {0}, most = 0;
    for (unsigned i = 0; i < count; i++) {
        unsigned bank = words[i] % BANKS, other = 0;
        while (other < in_use[bank] && in_bank[bank][other] != words[i])
            other++;
        if (other < in_use[bank])
            continue;
        in_bank[bank][in_use[bank]++] = words[i];
        most = in_use[bank] > most ? in_use[bank] : most;
    }
    return most;
}

/* Whether each lane has the same word as the lane `distance` from it, if that lane takes part. */
static bool share_addresses(const uintptr_t addresses[SIM_WARP_THREADS], unsigned lanes, unsigned distance) {
    for (unsigned left = lanes; left; left &= left - 1) {
        unsigned lane = (unsigned)__builtin_ctz(left), other = lane ^ distance;
        if ((lanes >> other & 1) && addresses[other] != addresses[lane])
            return false;
    }
    return true;
}

struct wavefronts wavefronts_of(const uintptr_t addresses[SIM_WARP_THREADS], unsigned lanes, unsigned bytes) {
    unsigned words_each = bytes > WORD_BYTES ? bytes / WORD_BYTES : 1;
    unsigned lanes_each = SIM_WARP_THREADS / words_each;
    if (words_each > 1 && (share_addresses(addresses, lanes, 1) || share_addresses(addresses, lanes, 2)))
        lanes_each *= 2;
    struct wavefronts all = {0, 0};
    for (unsigned first = 0; first < SIM_WARP_THREADS; first += lanes_each) {
        uint64_t words[2 * SIM_WARP_THREADS];
        unsigned count = 0;
        for (unsigned lane = first; lane < first + lanes_each; lane++)
            if (lanes >> lane & 1)
                for (unsigned i = 0; i < words_each; i++)
                    words[count++] = addresses[lane] / WORD_BYTES + i;
        all.number += wavefronts_of_words(words, count);
        all.phases += count > 0;
    }
    return all;
}
