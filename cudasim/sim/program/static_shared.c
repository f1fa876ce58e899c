/* A kernel's static shared memory: the __shared__ arrays that it declares itself. Each is a thread-local
 * variable of the program, whose name in C++ begins with its function's (Itanium C++ ABI, "Scope Encoding").
 * Those of the functions that it calls are not among them, for nothing tells who calls whom. */
#define _GNU_SOURCE
#include "../elf_symbols.h"
#include "program.h"
#include <dlfcn.h>
#include <elf.h>
#include <stdio.h>
#include <string.h>

static const char *name_at(const struct sim_symbols *symbols, uintptr_t value) {
    for (size_t i = 0; i < symbols->count; i++)
        if (ELF64_ST_TYPE(symbols->all[i].st_info) == STT_FUNC && symbols->all[i].st_value == value)
            return symbols->names + symbols->all[i].st_name;
    return NULL;
}

size_t sim_program_static_shared(const void *kernel) {
    Dl_info of;
    struct sim_symbols symbols;
    if (!dladdr(kernel, &of) || !sim_symbols_open(&symbols, sim_program_file(of.dli_fname)))
        return 0;
    size_t bytes = 0;
    char begins[4096] = "";
    const char *name = name_at(&symbols, (uintptr_t)kernel - (uintptr_t)of.dli_fbase);
    if (name && strncmp(name, "_Z", 2) == 0)
        snprintf(begins, sizeof begins, "_ZZ%sE", name + 2);
    else if (name) /* extern "C" */
        snprintf(begins, sizeof begins, "_ZZ%zu%sE", strlen(name), name);
    for (size_t i = 0; *begins && i < symbols.count; i++)
        if (ELF64_ST_TYPE(symbols.all[i].st_info) == STT_TLS &&
            strncmp(symbols.names + symbols.all[i].st_name, begins, strlen(begins)) == 0)
            bytes += symbols.all[i].st_size;
    sim_symbols_close(&symbols);
    return bytes;
}
