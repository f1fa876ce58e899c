/* CUDA's vector types and their constructors, for C and for C++. uint3 is in sim.h.
 *
 * Their alignments are CUDA's: a vector of two or four is one access of a GPU, of at most 16 bytes. */
#pragma once

/* clang returns a struct of 3 or 6 bytes as one number and does not report its store; so it has to return
 * such a struct in memory. */
#if defined(__clang__) && defined(__x86_64__)
#define SIM_IN_MEMORY __attribute__((ms_abi))
#else
#define SIM_IN_MEMORY
#endif

/* A GPU reads such a struct at once. clang would read only the members that are used; its own vectors it
 * reads at once. In C++ such a vector is no class, so a kernel could not define operators for it, nor point
 * to a member. */
#if defined(__clang__) && !defined(__cplusplus)
#define SIM_TWO(name, element, bytes) typedef element name __attribute__((ext_vector_type(2)))
#define SIM_FOUR(name, element, bytes) typedef element name __attribute__((ext_vector_type(4)))
#else
#define SIM_TWO(name, element, bytes)                                                                        \
    typedef struct __attribute__((aligned(bytes))) name {                                                    \
        element x, y;                                                                                        \
    } name
#define SIM_FOUR(name, element, bytes)                                                                       \
    typedef struct __attribute__((aligned(bytes))) name {                                                    \
        element x, y, z, w;                                                                                  \
    } name
#endif

#define SIM_ONE_AND_TWO(name, element, bytes_of_two)                                                         \
    typedef struct name##1 {                                                                                 \
        element x;                                                                                           \
    }                                                                                                        \
    name##1;                                                                                                 \
    SIM_TWO(name##2, element, bytes_of_two);
#define SIM_ONE_TO_THREE(name, element, bytes_of_two)                                                        \
    SIM_ONE_AND_TWO(name, element, bytes_of_two)                                                             \
    typedef struct name##3 {                                                                                 \
        element x, y, z;                                                                                     \
    }                                                                                                        \
    name##3;
#define SIM_ONE_TO_FOUR(name, element, bytes_of_two)                                                         \
    SIM_ONE_TO_THREE(name, element, bytes_of_two)                                                            \
    SIM_FOUR(name##4, element, 2 * bytes_of_two);
#define SIM_ONE_TO_FOUR_OF_8_BYTES(name, element)                                                            \
    SIM_ONE_TO_THREE(name, element, 16)                                                                      \
    typedef struct __attribute__((aligned(16))) name##4 {                                                    \
        element x, y, z, w;                                                                                  \
    }                                                                                                        \
    name##4;
SIM_ONE_TO_FOUR(char, signed char, 2)
SIM_ONE_TO_FOUR(uchar, unsigned char, 2)
SIM_ONE_TO_FOUR(short, short, 4)
SIM_ONE_TO_FOUR(ushort, unsigned short, 4)
SIM_ONE_TO_FOUR(int, int, 8)
SIM_ONE_AND_TWO(uint, unsigned, 8)
SIM_FOUR(uint4, unsigned, 16);
SIM_ONE_TO_FOUR_OF_8_BYTES(long, long)
SIM_ONE_TO_FOUR_OF_8_BYTES(ulong, unsigned long)
SIM_ONE_TO_FOUR_OF_8_BYTES(longlong, long long)
SIM_ONE_TO_FOUR_OF_8_BYTES(ulonglong, unsigned long long)
SIM_ONE_TO_FOUR(float, float, 8)
SIM_ONE_TO_FOUR_OF_8_BYTES(double, double)

/* make_char1() to make_char4() and so on. of_three: what the function has that returns three. */
#define SIM_MAKING(name, element, of_three)                                                                  \
    static inline name##1 make_##name##1(element x) {                                                        \
        name##1 v = {x};                                                                                     \
        return v;                                                                                            \
    }                                                                                                        \
    static inline name##2 make_##name##2(element x, element y) {                                             \
        name##2 v = {x, y};                                                                                  \
        return v;                                                                                            \
    }                                                                                                        \
    static inline of_three name##3 make_##name##3(element x, element y, element z) {                         \
        name##3 v = {x, y, z};                                                                               \
        return v;                                                                                            \
    }                                                                                                        \
    static inline name##4 make_##name##4(element x, element y, element z, element w) {                       \
        name##4 v = {x, y, z, w};                                                                            \
        return v;                                                                                            \
    }
SIM_MAKING(char, signed char, SIM_IN_MEMORY)
SIM_MAKING(uchar, unsigned char, SIM_IN_MEMORY)
SIM_MAKING(short, short, SIM_IN_MEMORY)
SIM_MAKING(ushort, unsigned short, SIM_IN_MEMORY)
SIM_MAKING(int, int, )
SIM_MAKING(uint, unsigned, )
SIM_MAKING(long, long, )
SIM_MAKING(ulong, unsigned long, )
SIM_MAKING(longlong, long long, )
SIM_MAKING(ulonglong, unsigned long long, )
SIM_MAKING(float, float, )
SIM_MAKING(double, double, )
