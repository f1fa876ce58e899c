/* memset(), memcpy() and memmove() in a kernel: see ../memory.c. A copy of as few bytes as an instruction
 * takes is one instruction, as with nvcc, and the compiler makes it. */
#pragma once
#include "language.hpp"

enum { SIM_FEW_BYTES = 16 };

SIM_INLINE void *sim_set_bytes(void *to, int value, size_t bytes) {
    bool is_small = __builtin_constant_p(bytes) && bytes <= SIM_FEW_BYTES;
    return is_small ? __builtin_memset(to, value, bytes) : sim_memset(to, value, bytes);
}
SIM_INLINE void *sim_copy_bytes(void *to, const void *from, size_t bytes) {
    bool is_small = __builtin_constant_p(bytes) && bytes <= SIM_FEW_BYTES;
    return is_small ? __builtin_memmove(to, from, bytes) : sim_memmove(to, from, bytes);
}
namespace std {
using ::sim_copy_bytes;
using ::sim_set_bytes;
} // namespace std

#define memset(...) sim_set_bytes(__VA_ARGS__)
#define memcpy(...) sim_copy_bytes(__VA_ARGS__)
#define memmove(...) sim_copy_bytes(__VA_ARGS__)
