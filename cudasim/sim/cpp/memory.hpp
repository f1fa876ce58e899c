/* memset(), memcpy() and memmove() in a kernel: see ../memory.c. A copy of as many bytes as one instruction
 * moves is one instruction, as with nvcc: the compiler makes it, and the counted build sees it. A copy of any
 * other size, such as 12 bytes, would become several instructions that the counted build does not see. */
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
