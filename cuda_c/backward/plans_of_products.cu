/* The forward's plans for the backward's products. This file has no kernel.
 *
 * Making a plan takes tens of microseconds, during which a GPU with short kernels is idle. Training steps ask
 * for the same plans again, so each thread keeps its last few. */
#include "backward/backward.h"
#include "shared/checks.h"

#define KEPT_PLANS 8 /* a layer has two products; 6 KB each */

struct kept_plan {
    bool is_there;
    bool splits;
    fgn_device device;
    fgn_chain product; /* as it was asked for */
    fgn_chain chain;   /* as it was planned */
    fgn_plan plan;
};

static __thread struct kept_plan kept_plans[KEPT_PLANS];
static __thread unsigned plans_made;

/* Makes the plan of the fastest version if that splits, otherwise of the last version that splits. */
static fgn_status plan_splitting(fgn_chain *chain, fgn_plan *plan) {
    chain->frozen = chain->x_is_split = 1;
    for (int version = FGN_BEST_VERSION, left = fgn_version_count(); left >= 0; version = --left)
        if (fgn_plan_chain(version, chain, NULL, plan) == FGN_OK && plan->prepared_bytes > 0)
            return FGN_OK;
    return fail(FGN_NOT_SUPPORTED, "no version splits this product");
}

static fgn_status plan_fastest(fgn_chain *chain, fgn_plan *plan) {
    fgn_status status = fgn_plan_chain(FGN_BEST_VERSION, chain, NULL, plan);
    if (status != FGN_OK || plan->prepared_bytes == 0)
        return status;
    chain->frozen = 1;
    return fgn_plan_chain(FGN_BEST_VERSION, chain, NULL, plan);
}

static bool is_of(const struct kept_plan *kept, const fgn_device *device, const fgn_chain *product,
                  bool splits) {
    return kept->is_there && kept->splits == splits && kept->product.batch == product->batch &&
           kept->product.in_features == product->in_features &&
           kept->product.out_features == product->out_features && kept->product.type == product->type &&
           kept->product.precision == product->precision && kept->device.major == device->major &&
           kept->device.minor == device->minor && kept->device.multiprocessors == device->multiprocessors &&
           kept->device.l2_bytes == device->l2_bytes;
}

/* The product as the forward's: no norm, no operators. */
static fgn_chain forward_product(const struct backward_product *product) {
    fgn_chain chain;
    memset(&chain, 0, sizeof chain);
    chain.batch = product->rows;
    chain.in_features = product->inner;
    chain.out_features = product->columns;
    chain.type = product->type;
    chain.precision = product->precision;
    return chain;
}

fgn_status plan_product(const struct backward_product *product, bool splits, fgn_chain *chain,
                        fgn_plan *plan) {
    fgn_device device;
    fgn_status status = fgn_current_device(&device);
    if (status != FGN_OK)
        return status;
    *chain = forward_product(product);
    for (int i = 0; i < KEPT_PLANS; i++)
        if (is_of(&kept_plans[i], &device, chain, splits)) {
            *chain = kept_plans[i].chain;
            *plan = kept_plans[i].plan;
            return FGN_OK;
        }
    fgn_chain asked = *chain;
    status = splits ? plan_splitting(chain, plan) : plan_fastest(chain, plan);
    if (status == FGN_OK) {
        struct kept_plan kept = {true, splits, device, asked, *chain, *plan};
        kept_plans[plans_made++ % KEPT_PLANS] = kept;
    }
    return status;
}
