/* griddepcontrol on the simulator, where one launch follows the other: nothing to do. */
#pragma once

#include "sim/portable.h"

static inline void griddepcontrol_launch_dependents(void) {}

static inline void griddepcontrol_wait(void) {}
