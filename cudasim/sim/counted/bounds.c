/* What the compiler calls where an access leaves the array or variable that it is made of: -fsanitize=bounds
 * for an index, -fsanitize=object-size for a pointer. The compiler finds an overrun into a neighbouring
 * array, which the kernel may touch, where it knows what the pointer points into. clang, which accesses the
 * parts of a float4 each by itself, calls this with -fsanitize=alignment for a float4 at a wrong address too.
 */
#include "../undefined.h"
#include "recorder.h"

struct bounds_check {
    struct undefined_place place;
    const struct undefined_type *array;
    const struct undefined_type *index;
};
struct object_check {
    struct undefined_place place;
    const struct undefined_type *type;
    unsigned char log_alignment;
    unsigned char kind; /* 0: a load; 1: a store */
};

#define PC ((uintptr_t)__builtin_return_address(0))

void __ubsan_handle_out_of_bounds(const struct bounds_check *check, uintptr_t index);
void __ubsan_handle_out_of_bounds(const struct bounds_check *check, uintptr_t index) {
    if (!recorder)
        return; /* host code of a kernel file */
    long long value = undefined_integer(check->index, index);
    fault_index(PC, value, check->array->name);
}

void __ubsan_handle_type_mismatch_v1(const struct object_check *check, uintptr_t address);
void __ubsan_handle_type_mismatch_v1(const struct object_check *check, uintptr_t address) {
    if (!recorder)
        return;
    unsigned bytes = 1u << check->log_alignment;
    struct access access = {.pc = PC,
                            .address = address,
                            .bytes = bytes,
                            .operation = check->kind == 1 ? COUNTED_STORE : COUNTED_LOAD,
                            .thread = recorder->thread};
    if ((address & (bytes - 1)) && (access.place = place_of(recorder, address, 1)))
        fault_misaligned(recorder, &access);
    fault_object(recorder, PC, address, access.operation, check->type->name);
}
