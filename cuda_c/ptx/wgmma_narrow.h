/* wgmma for tiles of w^T with 64 and with 96 columns; ptx/wgmma.h has 128 and explains the order of the sums.
 */
#pragma once

#include "ptx/wgmma.h"

#ifdef __CUDACC__

WGMMA_OF_EACH_TYPE(64)
WGMMA_OF_EACH_TYPE(96)

#endif
