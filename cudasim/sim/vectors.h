/* CUDA's vector types and what makes them, for C and for C++. uint3 is in sim.h.
 *
 * Their alignments are CUDA's: a vector of two or four is one access of a GPU, of at most 16 bytes. */
#pragma once

/* clang returns a struct of 3 or 6 bytes as one number, whose store it does not report; so it is told to
 * return it in memory. */
#if defined(__clang__) && defined(__x86_64__)
#define SIM_IN_MEMORY __attribute__((ms_abi))
#else
#define SIM_IN_MEMORY
#endif

/* A GPU reads such a struct at once. clang would read it member by member where it uses single members; a
 * vector of its own it reads at once. In C++ such a vector is no class, so a kernel could define no operators
 * for it, nor point to a member. */
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

typedef struct char1 {
    signed char x;
} char1;
SIM_TWO(char2, signed char, 2);
typedef struct char3 {
    signed char x, y, z;
} char3;
SIM_FOUR(char4, signed char, 4);
typedef struct uchar1 {
    unsigned char x;
} uchar1;
SIM_TWO(uchar2, unsigned char, 2);
typedef struct uchar3 {
    unsigned char x, y, z;
} uchar3;
SIM_FOUR(uchar4, unsigned char, 4);
typedef struct short1 {
    short x;
} short1;
SIM_TWO(short2, short, 4);
typedef struct short3 {
    short x, y, z;
} short3;
SIM_FOUR(short4, short, 8);
typedef struct ushort1 {
    unsigned short x;
} ushort1;
SIM_TWO(ushort2, unsigned short, 4);
typedef struct ushort3 {
    unsigned short x, y, z;
} ushort3;
SIM_FOUR(ushort4, unsigned short, 8);
typedef struct int1 {
    int x;
} int1;
SIM_TWO(int2, int, 8);
typedef struct int3 {
    int x, y, z;
} int3;
SIM_FOUR(int4, int, 16);
typedef struct uint1 {
    unsigned x;
} uint1;
SIM_TWO(uint2, unsigned, 8);
SIM_FOUR(uint4, unsigned, 16);
typedef struct long1 {
    long x;
} long1;
SIM_TWO(long2, long, 16);
typedef struct long3 {
    long x, y, z;
} long3;
typedef struct __attribute__((aligned(16))) long4 {
    long x, y, z, w;
} long4;
typedef struct ulong1 {
    unsigned long x;
} ulong1;
SIM_TWO(ulong2, unsigned long, 16);
typedef struct ulong3 {
    unsigned long x, y, z;
} ulong3;
typedef struct __attribute__((aligned(16))) ulong4 {
    unsigned long x, y, z, w;
} ulong4;
typedef struct longlong1 {
    long long x;
} longlong1;
SIM_TWO(longlong2, long long, 16);
typedef struct longlong3 {
    long long x, y, z;
} longlong3;
typedef struct __attribute__((aligned(16))) longlong4 {
    long long x, y, z, w;
} longlong4;
typedef struct ulonglong1 {
    unsigned long long x;
} ulonglong1;
SIM_TWO(ulonglong2, unsigned long long, 16);
typedef struct ulonglong3 {
    unsigned long long x, y, z;
} ulonglong3;
typedef struct __attribute__((aligned(16))) ulonglong4 {
    unsigned long long x, y, z, w;
} ulonglong4;
typedef struct float1 {
    float x;
} float1;
SIM_TWO(float2, float, 8);
typedef struct float3 {
    float x, y, z;
} float3;
SIM_FOUR(float4, float, 16);
typedef struct double1 {
    double x;
} double1;
SIM_TWO(double2, double, 16);
typedef struct double3 {
    double x, y, z;
} double3;
typedef struct __attribute__((aligned(16))) double4 {
    double x, y, z, w;
} double4;

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
