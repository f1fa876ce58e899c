/* The table of versions, from the first rung of the ladder to the last. A new rung is a file that defines it,
 * and a line here. */
#include "shared/rung.h"

/* clang-format off */
#define ALL_RUNGS(rung)          \
    rung(naive_rung)              \
    rung(coalesced_rung)          \
    rung(shared_tile_rung)        \
    rung(register_tile_rung)      \
    rung(vectorized_rung)         \
    rung(tiled_rung)              \
    rung(fused_rung)              \
    rung(one_kernel_rung)         \
    rung(few_rows_float32_rung)   \
    rung(tensor_core_rung)        \
    rung(hopper_1_wgmma_rung)     \
    rung(hopper_2_tma_rung)       \
    rung(hopper_3_producer_rung)  \
    rung(hopper_4_multicast_rung) \
    rung(hopper_5_persistent_rung)\
    rung(hopper_6_norm_rung)      \
    rung(hopper_rung)             \
    rung(few_rows_rung)           \
    rung(library_rung)
/* clang-format on */

#define DECLARATION(name) extern const struct rung name;
#define ADDRESS(name) &name,

ALL_RUNGS(DECLARATION)

static const struct rung *const rungs[] = {ALL_RUNGS(ADDRESS)};

#define COUNT ((int)(sizeof(rungs) / sizeof(rungs[0])))

int fgn_version_count(void) {
    return COUNT;
}

const struct rung *rung_at(int version) {
    return version >= 0 && version < COUNT ? rungs[version] : NULL;
}

const fgn_version *fgn_version_at(int version) {
    const struct rung *rung = rung_at(version);
    return rung ? &rung->version : NULL;
}
