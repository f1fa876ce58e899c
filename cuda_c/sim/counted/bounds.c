/* What the compiler calls where an access leaves the array or variable that it is made of: -fsanitize=bounds
 * for an index, -fsanitize=object-size for a pointer. It sees an overrun into a neighbour, which is memory
 * that the kernel may touch, where it can tell what the pointer points into. */
#include "recorder.h"

/* The compiler's descriptions; the GNU and LLVM runtimes agree on them. */
struct bounds_type {
    uint16_t kind; /* 0: integer */
    uint16_t info; /* of an integer: bit 0, signed; the rest, log2 of its bits */
    char name[];   /* in quotes */
};
struct bounds_place {
    const char *file;
    uint32_t line;
    uint32_t column;
};
struct bounds_check {
    struct bounds_place place;
    const struct bounds_type *array;
    const struct bounds_type *index;
};
struct object_check {
    struct bounds_place place;
    const struct bounds_type *type;
    unsigned char log_alignment;
    unsigned char kind; /* 0: a load; 1: a store */
};

#define PC ((uintptr_t)__builtin_return_address(0))

void __ubsan_handle_out_of_bounds(const struct bounds_check *check, uintptr_t index);
void __ubsan_handle_out_of_bounds(const struct bounds_check *check, uintptr_t index) {
    if (!recorder)
        return; /* host code of a kernel file */
    unsigned bits = 1u << (check->index->info >> 1);
    bool is_signed = check->index->info & 1;
    long long value = (long long)index;
    if (bits < 64) /* the compiler hands over the bits of a narrower index, extended or not */
        value = is_signed ? (long long)((uint64_t)value << (64 - bits)) >> (64 - bits)
                          : (long long)((uint64_t)value << (64 - bits) >> (64 - bits));
    fault_index(PC, value, check->array->name);
}

void __ubsan_handle_type_mismatch_v1(const struct object_check *check, uintptr_t address);
void __ubsan_handle_type_mismatch_v1(const struct object_check *check, uintptr_t address) {
    if (recorder)
        fault_object(recorder, PC, address, check->kind == 1 ? COUNTED_STORE : COUNTED_LOAD,
                     check->type->name);
}
