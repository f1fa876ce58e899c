/* The functions that simd.hpp has for two integers of 16 bits and for four of 8 in a word. It includes this
 * once for each, and says what a name ends in and which type a part has. */
SIM_WHERE_CALLED SIM_INLINE unsigned SIM_NAME(__vadd)(unsigned a, unsigned b) {
    return sim_parts<SIM_UNSIGNED>(a, b, [](int x, int y) { return x + y; });
}
SIM_WHERE_CALLED SIM_INLINE unsigned SIM_NAME(__vaddss)(unsigned a, unsigned b) {
    return sim_parts<SIM_SIGNED>(a, b, [](int x, int y) { return sim_saturated<SIM_SIGNED>(x + y); });
}
SIM_WHERE_CALLED SIM_INLINE unsigned SIM_NAME(__vaddus)(unsigned a, unsigned b) {
    return sim_parts<SIM_UNSIGNED>(a, b, [](int x, int y) { return sim_saturated<SIM_UNSIGNED>(x + y); });
}
SIM_WHERE_CALLED SIM_INLINE unsigned SIM_NAME(__vsub)(unsigned a, unsigned b) {
    return sim_parts<SIM_UNSIGNED>(a, b, [](int x, int y) { return x - y; });
}
SIM_WHERE_CALLED SIM_INLINE unsigned SIM_NAME(__vsubss)(unsigned a, unsigned b) {
    return sim_parts<SIM_SIGNED>(a, b, [](int x, int y) { return sim_saturated<SIM_SIGNED>(x - y); });
}
SIM_WHERE_CALLED SIM_INLINE unsigned SIM_NAME(__vsubus)(unsigned a, unsigned b) {
    return sim_parts<SIM_UNSIGNED>(a, b, [](int x, int y) { return sim_saturated<SIM_UNSIGNED>(x - y); });
}
SIM_WHERE_CALLED SIM_INLINE unsigned SIM_NAME(__vneg)(unsigned a) {
    return sim_parts<SIM_SIGNED>(a, 0, [](int x, int) { return -x; });
}
SIM_WHERE_CALLED SIM_INLINE unsigned SIM_NAME(__vnegss)(unsigned a) {
    return sim_parts<SIM_SIGNED>(a, 0, [](int x, int) { return sim_saturated<SIM_SIGNED>(-x); });
}
SIM_WHERE_CALLED SIM_INLINE unsigned SIM_NAME(__vabs)(unsigned a) {
    return sim_parts<SIM_SIGNED>(a, 0, [](int x, int) { return x < 0 ? -x : x; });
}
SIM_WHERE_CALLED SIM_INLINE unsigned SIM_NAME(__vabsss)(unsigned a) {
    return sim_parts<SIM_SIGNED>(a, 0, [](int x, int) { return sim_saturated<SIM_SIGNED>(x < 0 ? -x : x); });
}
SIM_WHERE_CALLED SIM_INLINE unsigned SIM_NAME(__vabsdiffs)(unsigned a, unsigned b) {
    return sim_parts<SIM_SIGNED>(a, b, [](int x, int y) { return x < y ? y - x : x - y; });
}
SIM_WHERE_CALLED SIM_INLINE unsigned SIM_NAME(__vabsdiffu)(unsigned a, unsigned b) {
    return sim_parts<SIM_UNSIGNED>(a, b, [](int x, int y) { return x < y ? y - x : x - y; });
}
SIM_WHERE_CALLED SIM_INLINE unsigned SIM_NAME(__vavgs)(unsigned a, unsigned b) {
    return sim_parts<SIM_SIGNED>(a, b, [](int x, int y) { return sim_half_of(x + y); });
}
SIM_WHERE_CALLED SIM_INLINE unsigned SIM_NAME(__vavgu)(unsigned a, unsigned b) {
    return sim_parts<SIM_UNSIGNED>(a, b, [](int x, int y) { return (x + y + 1) >> 1; });
}
SIM_WHERE_CALLED SIM_INLINE unsigned SIM_NAME(__vhaddu)(unsigned a, unsigned b) {
    return sim_parts<SIM_UNSIGNED>(a, b, [](int x, int y) { return (x + y) >> 1; });
}
SIM_WHERE_CALLED SIM_INLINE unsigned SIM_NAME(__vmaxs)(unsigned a, unsigned b) {
    return sim_parts<SIM_SIGNED>(a, b, [](int x, int y) { return x < y ? y : x; });
}
SIM_WHERE_CALLED SIM_INLINE unsigned SIM_NAME(__vmins)(unsigned a, unsigned b) {
    return sim_parts<SIM_SIGNED>(a, b, [](int x, int y) { return x < y ? x : y; });
}
SIM_WHERE_CALLED SIM_INLINE unsigned SIM_NAME(__vmaxu)(unsigned a, unsigned b) {
    return sim_parts<SIM_UNSIGNED>(a, b, [](int x, int y) { return x < y ? y : x; });
}
SIM_WHERE_CALLED SIM_INLINE unsigned SIM_NAME(__vminu)(unsigned a, unsigned b) {
    return sim_parts<SIM_UNSIGNED>(a, b, [](int x, int y) { return x < y ? x : y; });
}
SIM_WHERE_CALLED SIM_INLINE unsigned SIM_NAME(__vcmpeq)(unsigned a, unsigned b) {
    return sim_parts<SIM_UNSIGNED>(a, b, [](int x, int y) { return x == y ? -1 : 0; });
}
SIM_WHERE_CALLED SIM_INLINE unsigned SIM_NAME(__vseteq)(unsigned a, unsigned b) {
    return sim_parts<SIM_UNSIGNED>(a, b, [](int x, int y) { return x == y; });
}
SIM_WHERE_CALLED SIM_INLINE unsigned SIM_NAME(__vcmpne)(unsigned a, unsigned b) {
    return sim_parts<SIM_UNSIGNED>(a, b, [](int x, int y) { return x != y ? -1 : 0; });
}
SIM_WHERE_CALLED SIM_INLINE unsigned SIM_NAME(__vsetne)(unsigned a, unsigned b) {
    return sim_parts<SIM_UNSIGNED>(a, b, [](int x, int y) { return x != y; });
}
SIM_WHERE_CALLED SIM_INLINE unsigned SIM_NAME(__vcmpges)(unsigned a, unsigned b) {
    return sim_parts<SIM_SIGNED>(a, b, [](int x, int y) { return x >= y ? -1 : 0; });
}
SIM_WHERE_CALLED SIM_INLINE unsigned SIM_NAME(__vsetges)(unsigned a, unsigned b) {
    return sim_parts<SIM_SIGNED>(a, b, [](int x, int y) { return x >= y; });
}
SIM_WHERE_CALLED SIM_INLINE unsigned SIM_NAME(__vcmpgeu)(unsigned a, unsigned b) {
    return sim_parts<SIM_UNSIGNED>(a, b, [](int x, int y) { return x >= y ? -1 : 0; });
}
SIM_WHERE_CALLED SIM_INLINE unsigned SIM_NAME(__vsetgeu)(unsigned a, unsigned b) {
    return sim_parts<SIM_UNSIGNED>(a, b, [](int x, int y) { return x >= y; });
}
SIM_WHERE_CALLED SIM_INLINE unsigned SIM_NAME(__vcmpgts)(unsigned a, unsigned b) {
    return sim_parts<SIM_SIGNED>(a, b, [](int x, int y) { return x > y ? -1 : 0; });
}
SIM_WHERE_CALLED SIM_INLINE unsigned SIM_NAME(__vsetgts)(unsigned a, unsigned b) {
    return sim_parts<SIM_SIGNED>(a, b, [](int x, int y) { return x > y; });
}
SIM_WHERE_CALLED SIM_INLINE unsigned SIM_NAME(__vcmpgtu)(unsigned a, unsigned b) {
    return sim_parts<SIM_UNSIGNED>(a, b, [](int x, int y) { return x > y ? -1 : 0; });
}
SIM_WHERE_CALLED SIM_INLINE unsigned SIM_NAME(__vsetgtu)(unsigned a, unsigned b) {
    return sim_parts<SIM_UNSIGNED>(a, b, [](int x, int y) { return x > y; });
}
SIM_WHERE_CALLED SIM_INLINE unsigned SIM_NAME(__vcmples)(unsigned a, unsigned b) {
    return sim_parts<SIM_SIGNED>(a, b, [](int x, int y) { return x <= y ? -1 : 0; });
}
SIM_WHERE_CALLED SIM_INLINE unsigned SIM_NAME(__vsetles)(unsigned a, unsigned b) {
    return sim_parts<SIM_SIGNED>(a, b, [](int x, int y) { return x <= y; });
}
SIM_WHERE_CALLED SIM_INLINE unsigned SIM_NAME(__vcmpleu)(unsigned a, unsigned b) {
    return sim_parts<SIM_UNSIGNED>(a, b, [](int x, int y) { return x <= y ? -1 : 0; });
}
SIM_WHERE_CALLED SIM_INLINE unsigned SIM_NAME(__vsetleu)(unsigned a, unsigned b) {
    return sim_parts<SIM_UNSIGNED>(a, b, [](int x, int y) { return x <= y; });
}
SIM_WHERE_CALLED SIM_INLINE unsigned SIM_NAME(__vcmplts)(unsigned a, unsigned b) {
    return sim_parts<SIM_SIGNED>(a, b, [](int x, int y) { return x < y ? -1 : 0; });
}
SIM_WHERE_CALLED SIM_INLINE unsigned SIM_NAME(__vsetlts)(unsigned a, unsigned b) {
    return sim_parts<SIM_SIGNED>(a, b, [](int x, int y) { return x < y; });
}
SIM_WHERE_CALLED SIM_INLINE unsigned SIM_NAME(__vcmpltu)(unsigned a, unsigned b) {
    return sim_parts<SIM_UNSIGNED>(a, b, [](int x, int y) { return x < y ? -1 : 0; });
}
SIM_WHERE_CALLED SIM_INLINE unsigned SIM_NAME(__vsetltu)(unsigned a, unsigned b) {
    return sim_parts<SIM_UNSIGNED>(a, b, [](int x, int y) { return x < y; });
}
SIM_WHERE_CALLED SIM_INLINE unsigned SIM_NAME(__vsads)(unsigned a, unsigned b) {
    unsigned sum = 0;
    sim_parts<SIM_SIGNED>(a, b, [&](int x, int y) { return sum += (unsigned)(x < y ? y - x : x - y); });
    return sum;
}
SIM_WHERE_CALLED SIM_INLINE unsigned SIM_NAME(__vsadu)(unsigned a, unsigned b) {
    unsigned sum = 0;
    sim_parts<SIM_UNSIGNED>(a, b, [&](int x, int y) { return sum += (unsigned)(x < y ? y - x : x - y); });
    return sum;
}
