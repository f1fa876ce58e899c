/* The device's heap: heap.c. */
#pragma once
#include "machine.h"
#include <stdarg.h>
#include <time.h>

/* Finds the block that contains an address. A freed block has no bytes. Returns false if there is none. */
bool sim_heap_find(uintptr_t address, uintptr_t *begin, size_t *bytes);
/* All that it can have. */
void sim_heap_bounds(uintptr_t *begin, uintptr_t *end);

/* For a program, whose host code has malloc() and exit() of its own (program/wrapped.cpp). */
void *sim_device_malloc(size_t bytes);
void sim_device_free(void *memory, uintptr_t pc);
/* pc: behind the kernel's call, where a crash is told. */
int sim_device_printf(const char *format, va_list arguments, uintptr_t pc)
    __attribute__((format(printf, 1, 0)));
noreturn void sim_device_refuses(const char *what, const char *instead, uintptr_t pc);

/* What kernels call instead of malloc() and so on. */
void *__wrap_malloc(size_t bytes);
void *__wrap_calloc(size_t count, size_t bytes);
void *__wrap__Znwm(size_t bytes);
void *__wrap__Znam(size_t bytes);
void __wrap_free(void *memory);
void __wrap__ZdlPv(void *memory);
void __wrap__ZdlPvm(void *memory, size_t bytes);
void __wrap__ZdaPv(void *memory);
void __wrap__ZdaPvm(void *memory, size_t bytes);
noreturn void __wrap_exit(int status);
noreturn void __wrap__Exit(int status);
noreturn void __wrap__exit(int status);
noreturn void __wrap_abort(void);
noreturn int __wrap_system(const char *command);
int __wrap_printf(const char *format, ...) __attribute__((format(printf, 1, 2)));
clock_t __wrap_clock(void);
noreturn void *__wrap___cxa_allocate_exception(size_t bytes);
noreturn void __wrap___cxa_rethrow(void);
