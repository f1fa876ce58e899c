/* memset(), memcpy() and memmove() in a kernel: see ../memory.c. A copy of as many bytes as an instruction
 * takes is one instruction, as with nvcc, and the compiler makes it and tells the counted build of it. A copy
 * of any other number of bytes, such as 12, it would make of several and tell nobody. */
#pragma once
#include "language.hpp"

SIM_INLINE bool sim_is_one_instruction(size_t bytes) {
    return __builtin_constant_p(bytes) && bytes <= 16 && (bytes & (bytes - 1)) == 0;
}
SIM_INLINE void *sim_set_bytes(void *to, int value, size_t bytes) {
    return sim_is_one_instruction(bytes) ? __builtin_memset(to, value, bytes) : sim_memset(to, value, bytes);
}
SIM_INLINE void *sim_copy_bytes(void *to, const void *from, size_t bytes) {
    return sim_is_one_instruction(bytes) ? __builtin_memmove(to, from, bytes) : sim_memmove(to, from, bytes);
}
namespace std {
using ::sim_copy_bytes;
using ::sim_set_bytes;
} // namespace std

#define memset(...) sim_set_bytes(__VA_ARGS__)
#define memcpy(...) sim_copy_bytes(__VA_ARGS__)
#define memmove(...) sim_copy_bytes(__VA_ARGS__)
