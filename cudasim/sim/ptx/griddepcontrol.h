/* griddepcontrol on the simulator, where launches run one after the other: it does nothing. */
#pragma once

#include "sim/portable.h"

static inline void griddepcontrol_launch_dependents(void) {}

static inline void griddepcontrol_wait(void) {}
