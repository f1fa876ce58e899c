/* The compiler's description of a place and a type for its sanitizers' runtime; GNU's and LLVM's agree. */
#pragma once
#include <stdint.h>

struct undefined_type {
    uint16_t kind; /* 0: integer; 1: floating point */
    uint16_t info; /* of an integer: bit 0, signed; the rest, log2 of its bits. Of a float: its bits */
    char name[];   /* in quotes */
};
struct undefined_place {
    const char *file;
    uint32_t line;
    uint32_t column;
};

static inline unsigned undefined_bits(const struct undefined_type *type) {
    return 1u << (type->info >> 1);
}

/* The compiler passes the bits of a narrower integer, extended or not. */
static inline long long undefined_integer(const struct undefined_type *type, uintptr_t value) {
    unsigned unused = 64 - undefined_bits(type);
    return type->info & 1 ? (long long)((uint64_t)value << unused) >> unused
                          : (long long)((uint64_t)value << unused >> unused);
}
