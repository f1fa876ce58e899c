/* The sentences that describe faults. */
#pragma once
#include "access.h"

struct spinner;

/* `self` waits in vain, and so do all others; `other`: one of them, or NULL. */
noreturn void fault_spinning(const struct spinner *self, const struct spinner *other);
/* Each reports the running thread's access and ends the launch. */
noreturn void fault_out_of_bounds(struct recorder *recorder, const struct access *access);
noreturn void fault_index(uintptr_t pc, long long index, const char *array);
noreturn void fault_misaligned(const struct recorder *recorder, const struct access *access);
noreturn void fault_uninitialised(const struct recorder *recorder, const struct access *access);
noreturn void fault_unwritten(const struct recorder *recorder, const struct access *access);
/* An access of the running thread to its stack, outside of where its arrays can be. */
noreturn void fault_local(const struct recorder *recorder, uintptr_t pc, counted_operation operation);
/* An access to a value of `type` at `address` that is not wholly inside the pointer's array. */
noreturn void fault_object(struct recorder *recorder, uintptr_t pc, uintptr_t address,
                           counted_operation operation, const char *type);
noreturn void fault_constant(const struct recorder *recorder, const struct access *access);
noreturn void fault_static_shared(size_t bytes);
noreturn void fault_race(const struct recorder *recorder, const struct access *access,
                         const struct past *other);
void warn_of_same_value(const struct recorder *recorder, const struct access *access,
                        const struct past *other);
