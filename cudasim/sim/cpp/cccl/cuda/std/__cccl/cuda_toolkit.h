/* In place of libcu++'s header, which would find the simulator's cuda_runtime_api.h, and take it for a
 * toolkit with drivers, modules and types of 16 bits that are as its own. */
#pragma once
#define _CCCL_HAS_CTK() 0
#define _CCCL_CTK_BELOW(...) 0
#define _CCCL_CTK_AT_LEAST(...) 0
