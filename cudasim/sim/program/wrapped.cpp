/* What the linker has a program call for the C library's functions, and C++'s: in a kernel the device's own
 * (../heap.c), and in host code those that the program means. Linked into each program, for only there
 * `__real_` and the name are the functions themselves. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <time.h>

extern "C" {
bool sim_program_is_in_kernel(void);
long long sim_clock(void);
void *sim_device_malloc(size_t bytes);
void sim_device_free(void *memory, uintptr_t pc);
int sim_device_printf(const char *format, va_list arguments, uintptr_t pc);
void sim_device_refuses(const char *what, const char *instead, uintptr_t pc);

extern __thread const void *sim_program_frees;
void sim_program_begins_at(const void *address);
__attribute__((constructor)) static void begin(void) {
    sim_program_begins_at((const void *)begin);
}
}

#define PC ((uintptr_t)__builtin_return_address(0))
static bool is_in_kernel(void) {
    return sim_program_is_in_kernel();
}

/* A crash within tells what host code frees. */
template <class Free> static void free_by(Free real, void *memory, uintptr_t pc) {
    if (is_in_kernel()) {
        sim_device_free(memory, pc);
        return;
    }
    sim_program_frees = memory;
    real(memory);
    sim_program_frees = NULL;
}

extern "C" {
void *__real_malloc(size_t bytes);
void *__wrap_malloc(size_t bytes) {
    return is_in_kernel() ? sim_device_malloc(bytes) : __real_malloc(bytes);
}
void *__real_calloc(size_t count, size_t bytes);
void *__wrap_calloc(size_t count, size_t bytes) {
    size_t all;
    if (!is_in_kernel())
        return __real_calloc(count, bytes);
    void *memory = __builtin_mul_overflow(count, bytes, &all) ? NULL : sim_device_malloc(all);
    return memory ? __builtin_memset(memory, 0, all) : NULL;
}
void __real_free(void *memory);
void __wrap_free(void *memory) {
    free_by(__real_free, memory, PC);
}
void *__real__Znwm(size_t bytes);
void *__wrap__Znwm(size_t bytes) {
    return is_in_kernel() ? sim_device_malloc(bytes) : __real__Znwm(bytes);
}
void *__real__Znam(size_t bytes);
void *__wrap__Znam(size_t bytes) {
    return is_in_kernel() ? sim_device_malloc(bytes) : __real__Znam(bytes);
}
void __real__ZdlPv(void *memory);
void __wrap__ZdlPv(void *memory) {
    free_by(__real__ZdlPv, memory, PC);
}
void __wrap__ZdlPvm(void *memory, size_t) {
    free_by(__real__ZdlPv, memory, PC);
}
void __real__ZdaPv(void *memory);
void __wrap__ZdaPv(void *memory) {
    free_by(__real__ZdaPv, memory, PC);
}
void __wrap__ZdaPvm(void *memory, size_t) {
    free_by(__real__ZdaPv, memory, PC);
}

void __real_exit(int status);
void __wrap_exit(int status) {
    if (is_in_kernel())
        sim_device_refuses("calls exit()", "return, or __trap()", PC);
    __real_exit(status);
}
void __real__Exit(int status);
void __wrap__Exit(int status) {
    if (is_in_kernel())
        sim_device_refuses("calls _Exit()", "return, or __trap()", PC);
    __real__Exit(status);
}
void __real__exit(int status);
void __wrap__exit(int status) {
    if (is_in_kernel())
        sim_device_refuses("calls _exit()", "return, or __trap()", PC);
    __real__exit(status);
}
void __real_abort(void);
void __wrap_abort(void) {
    if (is_in_kernel())
        sim_device_refuses("calls abort()", "return, or __trap()", PC);
    __real_abort();
}
int __real_system(const char *command);
int __wrap_system(const char *command) {
    if (is_in_kernel())
        sim_device_refuses("calls system()", "compute, and printf()", PC);
    return __real_system(command);
}
int __wrap_printf(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    int count = is_in_kernel() ? sim_device_printf(format, arguments, PC) : vprintf(format, arguments);
    va_end(arguments);
    return count;
}
clock_t __real_clock(void);
clock_t __wrap_clock(void) {
    return is_in_kernel() ? (clock_t)sim_clock() : __real_clock();
}
void *__real___cxa_allocate_exception(size_t bytes);
void *__wrap___cxa_allocate_exception(size_t bytes) {
    if (is_in_kernel())
        sim_device_refuses("throws an exception", "return a code, or __trap()", PC);
    return __real___cxa_allocate_exception(bytes);
}
void __real___cxa_rethrow(void);
void __wrap___cxa_rethrow(void) {
    if (is_in_kernel())
        sim_device_refuses("throws an exception", "return a code, or __trap()", PC);
    __real___cxa_rethrow();
}
}
