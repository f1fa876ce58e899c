/* Errors as in the CUDA runtime: each call returns its own, and cudaGetLastError() returns the last one and
 * forgets it. The first call that waits for a kernel returns the kernel's error, and so does every call from
 * then on: the context is lost. CUDA Runtime API, "Error Handling". */
#define _GNU_SOURCE
#include "program.h"
#include "../heap.h"
#include "../machine.h"
#include <pthread.h>
#include <stdarg.h>
#include <stdlib.h>

static _Thread_local int last;
static int lost, of_kernel;
static unsigned told;
static pthread_mutex_t mutex = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;

void (*sim_program_tell)(void);

/* A kernel that calls the runtime, except for launches and related calls, would wait for itself. */
void sim_program_begins(void) {
    if (sim_is_in_kernel())
        sim_device_refuses("calls the CUDA runtime for more than launches",
                           "launch kernels, whose work is done when this one has ended",
                           (uintptr_t)__builtin_return_address(0));
    pthread_mutex_lock(&mutex);
}

int sim_program_ends(int error) {
    pthread_mutex_unlock(&mutex);
    return error;
}

void *sim_program_memory(void *memory, size_t bytes) {
    memory = realloc(memory, bytes);
    if (!memory) {
        fprintf(stderr, "cudasim: no memory for what the program asks of the runtime\n");
        exit(EXIT_FAILURE);
    }
    return memory;
}

int sim_program_error(int error) {
    if (lost)
        error = lost;
    if (error)
        last = error;
    return error;
}

void sim_program_fails(int error) {
    if (!of_kernel)
        of_kernel = error;
}

bool sim_program_has_failed(void) {
    return of_kernel;
}

int sim_program_waits(void) {
    if (of_kernel && !lost)
        lost = of_kernel;
    return sim_program_error(0);
}

int sim_program_last_error(bool forgets) {
    int error = lost ? lost : last;
    if (forgets)
        last = 0;
    return error;
}

unsigned sim_program_told(void) {
    return told;
}

void sim_program_said(void) {
    told++;
}

void sim_program_say_at(const char *sentence, void **frames, int count) {
    char line[4096];
    bool is_known = false;
    told++;
    fflush(stdout);
    for (int i = 0; i < count && !is_known; i++)
        is_known = sim_program_line_of(frames[i], line, sizeof line);
    fprintf(stderr, "cudasim: %s%s%s\n", is_known ? line : "", is_known ? ": " : "", sentence);
}

void sim_program_say(const struct sim_called *called, const char *format, ...) {
    char text[1200];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    told++;
    fflush(stdout);
    fprintf(stderr, "cudasim: %s at %s:%d: %s\n", called->function, called->file, called->line, text);
}
