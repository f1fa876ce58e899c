/* Eight threads use the C library at a time: plans, calls of every version, norms, gradients, refused calls,
 * and the sentences that explain them. ThreadSanitizer watches (tests/fgn/test_threads.py builds this). Each
 * thread has memory of its own, and each result has to be the one that the main thread got before. */
#include "fgn.h"
#include "sim/interrupt.h"
#include "sim/sim.h"
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { THREADS = 8, BATCH = 5, IN = 16, OUT = 24, GROUPS = 3, OUTPUTS = BATCH * OUT };
enum { WORKSPACE_BYTES = 1 << 20, MOST_VERSIONS = 32 };

static int rounds = 2;
static float x[BATCH * IN], weight[OUT * IN], channel[OUT];
static float expected[MOST_VERSIONS][OUTPUTS];

struct memory {
    float y[OUTPUTS], gradient[OUTPUTS], dx[BATCH * IN], moments[2 * BATCH * GROUPS];
    unsigned char workspace[WORKSPACE_BYTES] __attribute__((aligned(64)));
    unsigned char prepared[WORKSPACE_BYTES] __attribute__((aligned(64)));
};

static void fail(const char *what) {
    fprintf(stderr, "%s: %s\n", what, fgn_last_error());
    abort();
}

static void expect(bool holds, const char *what) {
    if (!holds)
        fail(what);
}

static fgn_chain make_chain(void) {
    fgn_chain chain = {.batch = BATCH, .in_features = IN, .out_features = OUT, .groups = GROUPS};
    chain.eps = 1e-5f;
    chain.weight = weight;
    chain.before_count = chain.after_count = 1;
    chain.before[0] = (fgn_pointwise){.kind = FGN_ADD_CHANNEL, .channel = channel};
    chain.after[0] = (fgn_pointwise){.kind = FGN_MISH};
    return chain;
}

/* False where the version does not run this chain here. */
static bool forward(int version, struct memory *own, float *y) {
    fgn_chain chain = make_chain();
    fgn_plan plan;
    fgn_status status = fgn_plan_chain(version, &chain, NULL, &plan);
    if (status == FGN_NOT_SUPPORTED)
        return false;
    expect(status == FGN_OK, "fgn_plan_chain");
    expect(plan.workspace_bytes <= WORKSPACE_BYTES && plan.prepared_bytes <= WORKSPACE_BYTES, "memory");
    chain.prepared = own->prepared;
    if (plan.prepared_bytes > 0)
        expect(fgn_prepare(&plan, &chain, own->prepared, NULL) == FGN_OK, "fgn_prepare");
    expect(fgn_run(&plan, &chain, x, y, own->workspace, WORKSPACE_BYTES, NULL) == FGN_OK, "fgn_run");
    return true;
}

static void call_versions(struct memory *own) {
    for (int version = 0; version < fgn_version_count(); version++)
        if (forward(version, own, own->y))
            expect(memcmp(own->y, expected[version], sizeof own->y) == 0, fgn_version_at(version)->name);
}

static void differentiate(struct memory *own) {
    fgn_chain chain = make_chain();
    fgn_gradients gradients = {.product = own->gradient, .x = own->dx};
    expect(fgn_norm_forward(&chain, expected[0], own->y, own->moments, NULL) == FGN_OK, "fgn_norm_forward");
    for (int version = 0; version < fgn_backward_count(); version++) {
        unsigned long long bytes = 0;
        if (fgn_backward_workspace_bytes(version, &chain, &gradients, &bytes) != FGN_OK)
            continue;
        fgn_status status = fgn_backward(version, &chain, x, expected[0], own->moments, own->y, &gradients,
                                         own->workspace, WORKSPACE_BYTES, NULL);
        expect(status == FGN_OK || status == FGN_NOT_SUPPORTED, "fgn_backward");
    }
}

/* A call that is refused, whose sentence is this thread's own. */
static void ask_for_too_much(long long number) {
    fgn_chain chain = make_chain();
    fgn_plan plan;
    char wanted[64];
    chain.in_features = -number;
    expect(fgn_plan_chain(0, &chain, NULL, &plan) == FGN_INVALID_ARGUMENT, "a chain without features");
    snprintf(wanted, sizeof wanted, "in_features is %lld, expected 1 or more", -number);
    expect(strcmp(fgn_last_error(), wanted) == 0, "the sentence of this thread");
}

static void *work(void *argument) {
    long long number = (long long)(size_t)argument;
    struct memory *own = aligned_alloc(64, (sizeof *own + 63) / 64 * 64);
    for (int round = 0; round < rounds; round++) {
        call_versions(own);
        ask_for_too_much(number);
        differentiate(own);
        sim_set_own_threads(1 + (int)(number + round) % 3);
        expect(fgn_group_norm(0, BATCH, OUT, GROUPS, 1e-5f, expected[0], NULL, NULL, own->y, own->workspace,
                              WORKSPACE_BYTES, NULL) == FGN_OK,
               "fgn_group_norm");
    }
    free(own);
    return NULL;
}

static void hear(int number) {
    (void)number;
}

int main(int count, char **arguments) {
    static struct memory own;
    pthread_t threads[THREADS];
    if (count > 1)
        rounds = atoi(arguments[1]);
    for (int i = 0; i < BATCH * IN; i++)
        x[i] = (float)(i * 7 % 11) / 8.0f - 0.5f;
    for (int i = 0; i < OUT * IN; i++)
        weight[i] = (float)(i * 5 % 13) / 16.0f - 0.25f;
    for (int i = 0; i < OUT; i++)
        channel[i] = (float)(i % 3);
    for (int version = 0; version < fgn_version_count(); version++)
        forward(version, &own, expected[version]);
    for (size_t i = 0; i < THREADS; i++)
        if (pthread_create(&threads[i], NULL, work, (void *)i) != 0)
            fail("pthread_create");
    /* Interrupts of this thread stop its own launches, and no other's. */
    signal(SIGUSR1, hear);
    for (int round = 0; round < rounds; round++) {
        sim_catch_signal(SIGUSR1);
        raise(SIGUSR1);
        bool is_stopped = fgn_group_norm(0, BATCH, OUT, GROUPS, 1e-5f, expected[0], NULL, NULL, own.y,
                                         own.workspace, WORKSPACE_BYTES, NULL) == FGN_LAUNCH_FAILED;
        sim_release_signal();
        expect(is_stopped && sim_last_report()->kind == SIM_INTERRUPTED, "an interrupted launch");
    }
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    puts("done");
    return 0;
}
