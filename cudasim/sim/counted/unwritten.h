/* Reads of unwritten global memory. The caller marks unwritten memory by a map, and owns the map, because it
 * lasts from launch to launch. */
#pragma once
#include "access.h"

/* For a place with such a map: ends the launch if the access reads unwritten memory. */
void unwritten_access(const struct recorder *recorder, const struct access *access);
