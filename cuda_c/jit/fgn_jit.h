/* Kernels that are compiled for one call (jit/jit.h): what the caller of the library provides. */
#pragma once

#ifdef __cplusplus
extern "C" {
#endif

/* Compiles CUDA C for the current device and returns its kernel, as fgn_load_kernel() gives it, or NULL if
 * that fails. It may be called in any thread that launches, and by two of them at a time. */
typedef const void *(*fgn_jit_compiler)(const char *source);

/* From now on, a call that is made for the third time has its kernel compiled; the third call waits for that.
 * NULL, as at the beginning: nothing is compiled. Kernels that exist are still used. */
void fgn_set_jit_compiler(fgn_jit_compiler compiler);

/* Loads machine code (a cubin), which stays loaded, and returns its kernel of this name; NULL if it has none
 * or if the device cannot run it. */
const void *fgn_load_kernel(const void *image, const char *name);

/* How many launches of the process ran a kernel that was compiled for them. */
unsigned long long fgn_jit_launches(void);

#ifdef __cplusplus
} /* extern "C" */
#endif
