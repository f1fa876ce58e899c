/* The device's heap: heap.c. */
#pragma once
#include "machine.h"

/* The block that an address is in, also a freed one, which has no bytes; false: in none. */
bool sim_heap_find(uintptr_t address, uintptr_t *begin, size_t *bytes);

/* What the linker has kernels call for malloc() and so on. */
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
noreturn void *__wrap___cxa_allocate_exception(size_t bytes);
noreturn void __wrap___cxa_rethrow(void);
