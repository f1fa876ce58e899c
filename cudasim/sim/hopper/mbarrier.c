/* mbarriers: barriers in shared memory that count arrivals and bytes. PTX ISA, section "mbarrier".
 *
 * A phase ends when no arrival is pending and all announced bytes have come. The state is kept beside shared
 * memory; the barrier's own word has a stamp, which shows if a kernel overwrites its barriers. */
#include "async.h"
#include "watch_hopper.h"

static const uint64_t STAMP = 0x6d62617272696572u;

static void restamp(struct sim_worker *owner, struct sim_mbarrier *barrier) {
    barrier->stamp = STAMP ^ ((uint64_t)barrier->completed << 32) ^ ((uint64_t)barrier->pending << 8);
    memcpy(sim_bytes_at(owner, barrier->word), &barrier->stamp, sizeof barrier->stamp);
}

static struct sim_mbarrier *known(struct sim_hopper *hopper, const void *word) {
    for (unsigned i = 0; hopper && i < hopper->mbarriers; i++)
        if (hopper->mbarrier[i].word == word)
            return &hopper->mbarrier[i];
    return NULL;
}

struct sim_mbarrier *sim_mbarrier_at(const struct sim_site *site, struct sim_place place) {
    struct sim_mbarrier *barrier = known(place.owner->hopper, place.pointer);
    if (!barrier)
        sim_report_call(SIM_MBARRIER_MISUSE, site,
                        "uses an mbarrier at shared address 0x%x of block %u, which nobody has initialised",
                        sim_offset_of(place.owner, place.pointer), place.owner->rank);
    if (memcmp(sim_bytes_at(place.owner, barrier->word), &barrier->stamp, sizeof barrier->stamp) != 0)
        sim_report_call(
            SIM_MBARRIER_MISUSE, site,
            "uses the mbarrier that was initialised at %s:%d, and something has been written over "
            "it since",
            barrier->initialised->file, barrier->initialised->line);
    return barrier;
}

static struct sim_place word_at(const struct sim_site *site, uint32_t address) {
    if (address % sizeof(uint64_t))
        sim_report_call(SIM_MISALIGNED, site, "uses an mbarrier at shared address 0x%x, no multiple of 8",
                        address);
    return sim_place_of(site, address, sizeof(uint64_t));
}

void sim_mbarrier_init(const struct sim_site *site, uint32_t address, uint32_t arrivals) {
    struct sim_place place = word_at(site, address);
    struct sim_hopper *hopper = sim_hopper_here();
    if (arrivals == 0 || arrivals > SIM_MOST_ARRIVALS)
        sim_report_call(SIM_MBARRIER_MISUSE, site, "initialises an mbarrier for %u arrivals, not 1 to %d",
                        arrivals, SIM_MOST_ARRIVALS);
    struct sim_mbarrier *barrier = known(hopper, place.pointer);
    if (!barrier) {
        if (hopper->mbarriers == SIM_MOST_MBARRIERS)
            sim_report_call(SIM_MBARRIER_MISUSE, site,
                            "initialises more than %d mbarriers, which is all that "
                            "the simulator has",
                            SIM_MOST_MBARRIERS);
        barrier = &hopper->mbarrier[hopper->mbarriers++];
    } else if (barrier->waiting.first) {
        sim_report_call(SIM_MBARRIER_MISUSE, site, "initialises an mbarrier that threads wait for");
    }
    *barrier = (struct sim_mbarrier){.word = (uint64_t *)place.pointer,
                                     .arrivals = arrivals,
                                     .pending = arrivals,
                                     .initialised = site,
                                     .initialised_by = sim_current(sim_worker)};
    if (WATCHED)
        watch_mbarrier_begins(place.owner, barrier, SIM_CALLER);
    restamp(place.owner, barrier);
}

/* On a GPU the fence covers what its own thread has initialised. */
void sim_fence_mbarrier_init(void) {
    struct sim_hopper *hopper = sim_hopper_here();
    for (unsigned i = 0; i < hopper->mbarriers; i++)
        if (hopper->mbarrier[i].initialised_by == sim_current(sim_worker))
            hopper->mbarrier[i].is_fenced = true;
}

static void end_phase_if_complete(struct sim_worker *owner, struct sim_mbarrier *barrier) {
    if (barrier->pending == 0 && barrier->bytes == 0) {
        barrier->completed++;
        barrier->pending = barrier->arrivals;
        if (WATCHED)
            watch_mbarrier_phase_ends(owner, barrier);
        sim_wake(owner, &barrier->waiting);
    }
    restamp(owner, barrier);
}

static void check_bytes(const struct sim_site *site, const struct sim_mbarrier *barrier) {
    if (barrier->bytes > SIM_MOST_TRANSACTION_BYTES || barrier->bytes < -SIM_MOST_TRANSACTION_BYTES)
        sim_report_call(SIM_MBARRIER_MISUSE, site,
                        "makes an mbarrier wait for %lld bytes in one phase; it can count %d",
                        (long long)barrier->bytes, SIM_MOST_TRANSACTION_BYTES);
}

void sim_mbarrier_arrive(const struct sim_site *site, uint32_t address, uint32_t bytes) {
    struct sim_place place = word_at(site, address);
    struct sim_mbarrier *barrier = sim_mbarrier_at(site, place);
    if (WATCHED)
        watch_mbarrier_used(place.owner, barrier, SIM_CALLER, false);
    if (barrier->pending == 0)
        sim_report_call(
            SIM_MBARRIER_MISUSE, site,
            "arrives at the mbarrier that was initialised at %s:%d, whose phase %u has all its %u "
            "arrivals already and waits for %lld bytes",
            barrier->initialised->file, barrier->initialised->line, barrier->completed, barrier->arrivals,
            (long long)barrier->bytes);
    if (WATCHED)
        watch_mbarrier_arrives(place.owner, barrier);
    barrier->bytes += bytes;
    check_bytes(site, barrier);
    barrier->pending--;
    end_phase_if_complete(place.owner, barrier);
}

void sim_mbarrier_arrive_and_drop(const struct sim_site *site, uint32_t address) {
    sim_mbarrier_at(site, word_at(site, address))->arrivals--;
    sim_mbarrier_arrive(site, address, 0);
}

void sim_mbarrier_expect(const struct sim_site *site, uint32_t address, uint32_t bytes) {
    struct sim_place place = word_at(site, address);
    struct sim_mbarrier *barrier = sim_mbarrier_at(site, place);
    if (WATCHED)
        watch_mbarrier_used(place.owner, barrier, SIM_CALLER, false);
    barrier->bytes += bytes;
    check_bytes(site, barrier);
}

uint32_t sim_mbarrier_parity(const struct sim_site *site, uint32_t address) {
    return sim_mbarrier_at(site, word_at(site, address))->completed % 2;
}

void sim_mbarrier_bytes_came(struct sim_worker *owner, struct sim_mbarrier *barrier, int64_t bytes) {
    barrier->bytes -= bytes;
    end_phase_if_complete(owner, barrier);
}

/* The phase of this parity has ended when the current one has the other. */
void sim_mbarrier_wait(const struct sim_site *site, uint32_t address, uint32_t parity) {
    struct sim_place place = word_at(site, address);
    if (place.owner != sim_worker)
        sim_report_call(SIM_MBARRIER_MISUSE, site, "waits for an mbarrier of another block");
    if (parity > 1)
        sim_report_call(SIM_MBARRIER_MISUSE, site, "waits for the phase of parity %u, which is not 0 or 1",
                        parity);
    struct sim_mbarrier *barrier = sim_mbarrier_at(site, place);
    struct sim_thread *self = sim_current(sim_worker);
    if (WATCHED)
        watch_mbarrier_used(place.owner, barrier, SIM_CALLER, true);
    bool at_once = barrier->completed % 2 != parity;
    self->mbarrier = barrier;
    self->waited_at = site;
    self->waited_parity = parity;
    self->waited_at_once = at_once;
    if (!at_once) {
        sim_queue_append(&barrier->waiting, self);
        sim_block_wait(SIM_WAITS_AT_MBARRIER, site);
    }
    if (WATCHED)
        watch_mbarrier_passed(barrier);
}
