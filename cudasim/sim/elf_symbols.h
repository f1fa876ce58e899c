/* The symbols in a library's or an executable's file, static ones among them: elf_symbols.c. */
#pragma once
#include <link.h>
#include <stdbool.h>
#include <stddef.h>

struct sim_symbols {
    unsigned char *image;
    size_t bytes;
    const ElfW(Sym) * all;
    size_t count; /* 0 in a file that was stripped of them */
    const char *names;
};
bool sim_symbols_open(struct sim_symbols *symbols, const char *file); /* false: it cannot be read */
void sim_symbols_close(struct sim_symbols *symbols);
/* "": the symbol is in none. */
const char *sim_symbol_section(const struct sim_symbols *symbols, const ElfW(Sym) * symbol);
