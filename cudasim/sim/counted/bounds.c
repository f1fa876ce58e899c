/* What the compiler calls when an access leaves its array or variable: -fsanitize=bounds for an index,
 * -fsanitize=object-size for a pointer. If the compiler knows where a pointer points, it also finds an
 * overrun into a neighbouring array that the kernel may touch. */
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
    if (recorder)
        fault_object(recorder, PC, address, check->kind == 1 ? COUNTED_STORE : COUNTED_LOAD,
                     check->type->name);
}
