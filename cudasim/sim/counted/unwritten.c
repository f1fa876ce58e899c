/* Reads of unwritten global memory: see unwritten.h. */
#include "unwritten.h"
#include "recorder.h"

void unwritten_access(const struct recorder *self, const struct access *access) {
    unsigned char *written = access->place->written + (access->address - access->place->begin);
    if (access->operation != COUNTED_STORE && memchr(written, 0, access->bytes))
        fault_unwritten(self, access);
    if (access->operation != COUNTED_LOAD)
        memset(written, 1, access->bytes);
}
