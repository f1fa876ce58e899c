/* The registers of wgmma: see registers.c. */
#pragma once
#include "access.h"

struct used_registers; /* the tool's state: of each thread, once one has asked for a product; else NULL */

void registers_free(struct used_registers *registers);
void registers_block_begins(struct used_registers *registers);
/* The running thread accesses its stack, which has the registers of wgmma. */
void registers_access(struct recorder *recorder, uintptr_t pc, uintptr_t address, unsigned bytes,
                      bool writes);
