/* Races between streams: operations that nothing orders, and that use the same bytes. */
#pragma once
#include "../program/program.h"

/* Each of these operations is the latest one of its stream: a kernel that has run, */
void concurrent_kernel(struct sim_stream *stream, const struct sim_called *called);
/* or a copy or a fill of rows; `from`: NULL for a fill. */
void concurrent_copy(struct sim_stream *stream, const struct sim_called *called, const void *to,
                     size_t to_pitch, const void *from, size_t from_pitch, size_t width, size_t rows);
