/* The footprint of a launch in global memory. It is kept in the places and regions. */
#pragma once
#include "access.h"

void footprint_launch_ends(counted_launch *result);
/* All lanes make the same `access`, each at an address of its own. */
void footprint_request(struct recorder *recorder, const struct access *access, const uintptr_t *addresses,
                       unsigned lanes);
