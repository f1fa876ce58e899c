/* Reads an ELF file's table of symbols. The loader knows those that other libraries use; a kernel that is
 * `static`, or a __shared__ array, is in the file's own table only. */
#define _GNU_SOURCE
#include "elf_symbols.h"
#include <elf.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static const ElfW(Shdr) * sections_of(const struct sim_symbols *symbols) {
    const ElfW(Ehdr) *header = (const ElfW(Ehdr) *)symbols->image;
    return (const ElfW(Shdr) *)(symbols->image + header->e_shoff);
}

bool sim_symbols_open(struct sim_symbols *symbols, const char *file) {
    int descriptor = open(file, O_RDONLY | O_CLOEXEC);
    struct stat status;
    if (descriptor < 0)
        return false;
    size_t bytes = fstat(descriptor, &status) == 0 ? (size_t)status.st_size : 0;
    unsigned char *image = bytes ? mmap(NULL, bytes, PROT_READ, MAP_PRIVATE, descriptor, 0) : MAP_FAILED;
    close(descriptor);
    if (image == MAP_FAILED)
        return false;
    *symbols = (struct sim_symbols){.image = image, .bytes = bytes};
    const ElfW(Shdr) *sections = sections_of(symbols);
    for (unsigned i = 0; i < ((const ElfW(Ehdr) *)image)->e_shnum; i++)
        if (sections[i].sh_type == SHT_SYMTAB) { /* a file has at most one */
            symbols->all = (const ElfW(Sym) *)(image + sections[i].sh_offset);
            symbols->count = sections[i].sh_size / sizeof *symbols->all;
            symbols->names = (const char *)image + sections[sections[i].sh_link].sh_offset;
        }
    return true;
}

void sim_symbols_close(struct sim_symbols *symbols) {
    munmap(symbols->image, symbols->bytes);
}

const char *sim_symbol_section(const struct sim_symbols *symbols, const ElfW(Sym) * symbol) {
    const ElfW(Ehdr) *header = (const ElfW(Ehdr) *)symbols->image;
    const ElfW(Shdr) *sections = sections_of(symbols);
    if (symbol->st_shndx >= header->e_shnum)
        return "";
    const char *names = (const char *)symbols->image + sections[header->e_shstrndx].sh_offset;
    return names + sections[symbol->st_shndx].sh_name;
}
