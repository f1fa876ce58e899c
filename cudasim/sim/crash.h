/* Crashes of kernels, which the processor reports by a signal: the launch fails, and the process goes on.
 */
#pragma once
#include <stdint.h>

void sim_catch_crashes(void);   /* from here on */
void sim_release_crashes(void); /* ends what the last call of sim_catch_crashes() began */
void sim_have_signal_stack(
    void); /* for this OS thread: a kernel may have used up the stack that it runs on */
uintptr_t sim_instruction_of(const void *context); /* that a signal came at */
uintptr_t sim_stack_pointer_of(const void *context);
