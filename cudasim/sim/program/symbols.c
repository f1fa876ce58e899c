/* The program's variables in device memory. Each device has its own values. The process has one set of
 * variables, with the values of the device that used it last; the other devices' values are kept here. */
#include "program.h"
#include <string.h>

struct variable {
    struct variable *next;
    void *address;
    size_t bytes;
    const char *name;
    unsigned char *kept; /* the values on each device, one after the other */
};
static struct variable *variables;
static int resident;

void sim_symbol_is_known(void *address, size_t bytes, const char *name) {
    struct variable *known = sim_program_memory(NULL, sizeof *known);
    *known = (struct variable){variables, address, bytes, name, NULL};
    variables = known;
}

const char *sim_symbol_name(const void *address) {
    for (const struct variable *of = variables; of; of = of->next)
        if (of->address == address)
            return of->name;
    return NULL;
}

void sim_symbols_become(int device) {
    if (sim_gpu_count() == 1)
        return;
    for (struct variable *of = variables; of; of = of->next) {
        if (!of->kept) { /* what the source says that they begin with */
            of->kept = sim_program_memory(NULL, (size_t)sim_gpu_count() * of->bytes);
            for (int i = 0; i < sim_gpu_count(); i++)
                memcpy(of->kept + (size_t)i * of->bytes, of->address, of->bytes);
        }
        if (device != resident) {
            memcpy(of->kept + (size_t)resident * of->bytes, of->address, of->bytes);
            memcpy(of->address, of->kept + (size_t)device * of->bytes, of->bytes);
        }
    }
    resident = device;
}
