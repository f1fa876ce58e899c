/* Arithmetic that C++ leaves undefined but a GPU defines: a conversion to an integer that cannot hold the
 * number, and a shift by at least the number of bits. This processor would continue with another value than a
 * GPU, so such an operation is reported. An index that leaves its array is reported too, and a function that
 * ends without its return. Kernels in C++ are compiled with
 * -fsanitize=float-cast-overflow,shift-exponent,bounds,return, for the instrumentation only. Explicit
 * casts and most shifts do not come here: they have the GPU's value (cpp/conversions.hpp, cpp/shifts.hpp). */
#include "undefined.h"
#include "machine.h"
#include "watch.h"
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

void sim_shifts_too_far(unsigned bits, unsigned count);
void sim_shifts_too_far(unsigned bits, unsigned count) {
    if (sim_is_in_kernel())
        if (WATCHED)
            watch_shift(__builtin_return_address(0), bits, count);
}

#ifndef __SANITIZE_ADDRESS__ /* whose build has the sanitizers' own runtime */

noreturn void __ubsan_handle_missing_return(void *data);
noreturn void __ubsan_handle_missing_return(void *data) {
    static const char what[] = "comes to the end of a function that returns a value, without a return";
    const struct undefined_place *place = data;
    struct sim_site site = {place->file, (int)place->line};
    if (sim_is_in_kernel())
        sim_report_call(SIM_CRASH, &site, "%s", what);
    fflush(stdout);
    fprintf(stderr, "cudasim: %s:%u: the host code %s\n", place->file, place->line, what);
    signal(SIGABRT, SIG_DFL);
    abort();
}

#ifndef SIM_COUNTED /* which says more: counted/bounds.c */
struct bounds {
    struct undefined_place place;
    const struct undefined_type *array;
    const struct undefined_type *index;
};

void __ubsan_handle_out_of_bounds(void *data, void *index);
void __ubsan_handle_out_of_bounds(void *data, void *index) {
    const struct bounds *check = data;
    if (!sim_is_in_kernel())
        return;
    struct sim_site site = {check->place.file, (int)check->place.line};
    sim_report_call(SIM_OUT_OF_BOUNDS, &site, "uses index %lld on an array of type %s",
                    undefined_integer(check->index, (uintptr_t)index), check->array->name);
}
#endif

struct shift {
    struct undefined_place place;
    const struct undefined_type *shifted;
    const struct undefined_type *count;
};
struct conversion {
    struct undefined_place place;
    const struct undefined_type *from;
    const struct undefined_type *to;
};

/* The compiler calls the next two with numbers instead of pointers; a wide number comes by its address. */
void __ubsan_handle_shift_out_of_bounds(void *data, void *shifted, void *count);
void __ubsan_handle_shift_out_of_bounds(void *data, void *shifted, void *count) {
    const struct shift *check = data;
    (void)shifted;
    if (!sim_is_in_kernel())
        return;
    struct sim_site site = {check->place.file, (int)check->place.line};
    unsigned bits = undefined_bits(check->shifted);
    sim_report_call(
        SIM_UNDEFINED, &site,
        "shifts a number of %u bits by %lld, which C++ leaves undefined (a GPU's instruction takes "
        "such a count for %u); let the kernel shift by less than %u",
        bits, undefined_integer(check->count, (uintptr_t)count), bits, bits);
}

struct division {
    struct undefined_place place;
    const struct undefined_type *type;
};

/* AArch64 has no signal for it: its quotient is 0 (elsewhere crash.c reports it). */
void __ubsan_handle_divrem_overflow(void *data, void *dividend, void *divisor);
void __ubsan_handle_divrem_overflow(void *data, void *dividend, void *divisor) {
    const struct division *check = data;
    (void)dividend;
    (void)divisor;
    if (!sim_is_in_kernel())
        return;
    struct sim_site site = {check->place.file, (int)check->place.line};
    sim_report_call(SIM_CRASH, &site,
                    "divides an integer by zero, or the smallest one by -1, which CUDA leaves undefined");
}

/* A float or double comes by its bits. */
static double value_of(const struct undefined_type *type, uintptr_t bits) {
    float narrow;
    double value;
    uint32_t low = (uint32_t)bits;
    uint64_t all = bits;
    memcpy(&narrow, &low, sizeof narrow);
    memcpy(&value, &all, sizeof value);
    return type->info == 32 ? narrow : value;
}

void __ubsan_handle_float_cast_overflow(void *data, void *value);
void __ubsan_handle_float_cast_overflow(void *data, void *value) {
    const struct conversion *check = data;
    if (!sim_is_in_kernel())
        return;
    struct sim_site site = {check->place.file, (int)check->place.line};
    sim_report_call(
        SIM_UNDEFINED, &site,
        "converts %g to %s, which cannot hold it, and C++ leaves that undefined (a GPU's instruction "
        "takes the nearest that it can hold, and 0 for NaN); write a cast to int, or "
        "__float2int_rz(), if that is meant",
        value_of(check->from, (uintptr_t)value), check->to->name);
}

#endif
