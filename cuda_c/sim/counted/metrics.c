/* What one request costs: sectors of global memory, wavefronts of shared memory.
 *
 * Global memory comes in sectors of 32 bytes; a request asks for each sector that a lane touches once.
 *
 * Shared memory has 32 banks of 4 bytes; in one wavefront each gives one word, to as many lanes as want it.
 * A request of 4 bytes a lane needs as many wavefronts as the busiest bank has different words to give. */
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

/* ---- Shared memory ---- */

enum { BANKS = 32 };

static unsigned wavefronts_of_words(const uint64_t *words, unsigned count) {
    uint64_t in_bank[BANKS][SIM_WARP_THREADS];
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

unsigned wavefronts_of(const uintptr_t addresses[SIM_WARP_THREADS], unsigned lanes, unsigned bytes) {
    unsigned words_each = bytes > WORD_BYTES ? bytes / WORD_BYTES : 1;
    unsigned lanes_each = SIM_WARP_THREADS / words_each;
    unsigned wavefronts = 0;
    for (unsigned first = 0; first < SIM_WARP_THREADS; first += lanes_each) {
        uint64_t words[SIM_WARP_THREADS];
        unsigned count = 0;
        for (unsigned lane = first; lane < first + lanes_each; lane++)
            if (lanes >> lane & 1)
                for (unsigned i = 0; i < words_each; i++)
                    words[count++] = addresses[lane] / WORD_BYTES + i;
        wavefronts += wavefronts_of_words(words, count);
    }
    return wavefronts;
}

unsigned least_wavefronts_of(unsigned lanes, unsigned bytes) {
    unsigned bytes_in_all = (unsigned)__builtin_popcount(lanes) * bytes;
    return (bytes_in_all + BANKS * WORD_BYTES - 1) / (BANKS * WORD_BYTES);
}
