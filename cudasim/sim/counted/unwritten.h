/* Reads of global memory that nobody has written, where the caller says which memory was given so. The map of
 * what has been written is the caller's, for it lasts from launch to launch. */
#pragma once
#include "access.h"

/* Of a place that has such a map. Ends the launch when the access reads what nobody has written. */
void unwritten_access(const struct recorder *recorder, const struct access *access);
