/* Replaces libcu++'s header, which would find the simulator's cuda_runtime_api.h and take it for a toolkit
 * with drivers, modules and NVIDIA's own 16-bit types. */
#pragma once
#define _CCCL_HAS_CTK() 0
#define _CCCL_CTK_BELOW(...) 0
#define _CCCL_CTK_AT_LEAST(...) 0
