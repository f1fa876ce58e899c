/* The footprint of a launch in global memory. Places and regions keep it. */
#pragma once
#include "access.h"

void footprint_launch_ends(counted_launch *result);
/* All lanes make the same `access`, each at its own address. */
void footprint_request(struct recorder *recorder, const struct access *access, const uintptr_t *addresses,
                       unsigned lanes);
