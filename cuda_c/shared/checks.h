/* The checks and errors that the files of the C API share; checks.cu defines them. */
#pragma once

#include "shared/rung.h"

/* Returns `status`, and keeps the sentence for fgn_last_error(). */
fgn_status fail(fgn_status status, const char *format, ...);

/* Returns FGN_LAUNCH_FAILED with the runtime's message, or FGN_OK if there was no error. */
fgn_status status_of(cudaError_t error, const char *what);

/* Checks a chain's sizes, groups, types and operators, whatever runs it, but not its pointers. */
fgn_status check_chain(const fgn_chain *chain);

/* Parts of check_chain() that others need too. */
fgn_status check_sizes(long long batch, long long in_features, long long out_features);
fgn_status check_groups(long long groups, long long channels);
fgn_status check_types(fgn_type type, fgn_type vector_type);
fgn_status check_operators(const char *list, int count, const fgn_pointwise *step);

/* The alignment in bytes of halves and partial sums, in `prepared` and in a workspace. */
#define SCRATCH_ALIGNMENT 16

/* Check a pointer, which may not be NULL, for `alignment`; and a vector, which may be NULL. */
fgn_status check_aligned(const char *name, const void *pointer, int alignment);
fgn_status check_vector(const char *name, const void *vector, fgn_type type);

/* Checks a chain's pointers: the weight, what is prepared of it, the vectors and the tensors. */
fgn_status check_parameters(const fgn_plan *plan, const fgn_chain *chain);

/* Checks the pointers of a list's operands. */
fgn_status check_operands(const char *list, int count, const fgn_pointwise *step, fgn_type vector_type,
                          fgn_type type);

fgn_status check_pointer(const char *name, const void *pointer);
fgn_status check_workspace(unsigned long long needed, const void *workspace,
                           unsigned long long workspace_bytes);

bool overlap(const void *a, int64_t a_bytes, const void *b, int64_t b_bytes);

/* Checks that y overlaps nothing that a call reads: kernels may write y before they have read all inputs. */
fgn_status check_no_overlap(const char *name, const void *pointer, int64_t bytes, const void *y,
                            int64_t y_bytes);
fgn_status check_y_overlaps_nothing(const fgn_plan *plan, const fgn_chain *chain, const void *x,
                                    const void *y, const void *workspace);
