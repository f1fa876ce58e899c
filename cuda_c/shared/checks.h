/* The checks and the errors that the files of the C API share; they are in api.cu. */
#pragma once

#include "shared/rung.h"

/* Returns `status`, with the sentence as fgn_last_error(). */
fgn_status fail(fgn_status status, const char *format, ...);

/* FGN_LAUNCH_FAILED with the runtime's words, unless all went well. */
fgn_status status_of(cudaError_t error, const char *what);

/* Sizes, groups, types and operators of a chain, whatever runs it; pointers are not looked at. */
fgn_status check_chain(const fgn_chain *chain);

fgn_status check_pointer(const char *name, const void *pointer);
fgn_status check_workspace(unsigned long long needed, const void *workspace,
                           unsigned long long workspace_bytes);
