/* The functions that simd.hpp has for two integers of 16 bits and for four of 8 in a word. It includes this
 * once for each, and says what a name ends in and which type a part has. */

/* Of two words, and of one: the value for a part x of the first, and y of the second. */
#define SIM_OF_TWO(name, T, value)                                                                           \
    SIM_WHERE_CALLED SIM_INLINE unsigned SIM_NAME(name)(unsigned a, unsigned b) {                            \
        return sim_parts<T>(a, b, [](int x, int y) { return value; });                                       \
    }
#define SIM_OF_ONE(name, T, value)                                                                           \
    SIM_WHERE_CALLED SIM_INLINE unsigned SIM_NAME(name)(unsigned a) {                                        \
        return sim_parts<T>(a, 0, [](int x, int) { return value; });                                         \
    }
SIM_OF_TWO(__vadd, SIM_UNSIGNED, x + y)
SIM_OF_TWO(__vaddss, SIM_SIGNED, sim_saturated<SIM_SIGNED>(x + y))
SIM_OF_TWO(__vaddus, SIM_UNSIGNED, sim_saturated<SIM_UNSIGNED>(x + y))
SIM_OF_TWO(__vsub, SIM_UNSIGNED, x - y)
SIM_OF_TWO(__vsubss, SIM_SIGNED, sim_saturated<SIM_SIGNED>(x - y))
SIM_OF_TWO(__vsubus, SIM_UNSIGNED, sim_saturated<SIM_UNSIGNED>(x - y))
SIM_OF_TWO(__vabsdiffs, SIM_SIGNED, x < y ? y - x : x - y)
SIM_OF_TWO(__vabsdiffu, SIM_UNSIGNED, x < y ? y - x : x - y)
SIM_OF_TWO(__vavgs, SIM_SIGNED, sim_half_of(x + y))
SIM_OF_TWO(__vavgu, SIM_UNSIGNED, (x + y + 1) >> 1)
SIM_OF_TWO(__vhaddu, SIM_UNSIGNED, (x + y) >> 1)
SIM_OF_TWO(__vmaxs, SIM_SIGNED, x < y ? y : x)
SIM_OF_TWO(__vmins, SIM_SIGNED, x < y ? x : y)
SIM_OF_TWO(__vmaxu, SIM_UNSIGNED, x < y ? y : x)
SIM_OF_TWO(__vminu, SIM_UNSIGNED, x < y ? x : y)
SIM_OF_ONE(__vneg, SIM_SIGNED, -x)
SIM_OF_ONE(__vnegss, SIM_SIGNED, sim_saturated<SIM_SIGNED>(-x))
SIM_OF_ONE(__vabs, SIM_SIGNED, x < 0 ? -x : x)
SIM_OF_ONE(__vabsss, SIM_SIGNED, sim_saturated<SIM_SIGNED>(x < 0 ? -x : x))
/* All bits where the comparison holds, and 1 where it does. */
#define SIM_OF_COMPARISON(name, T, is)                                                                       \
    SIM_OF_TWO(__vcmp##name, T, x is y ? -1 : 0)                                                             \
    SIM_OF_TWO(__vset##name, T, x is y)
SIM_OF_COMPARISON(eq, SIM_UNSIGNED, ==)
SIM_OF_COMPARISON(ne, SIM_UNSIGNED, !=)
SIM_OF_COMPARISON(ges, SIM_SIGNED, >=)
SIM_OF_COMPARISON(geu, SIM_UNSIGNED, >=)
SIM_OF_COMPARISON(gts, SIM_SIGNED, >)
SIM_OF_COMPARISON(gtu, SIM_UNSIGNED, >)
SIM_OF_COMPARISON(les, SIM_SIGNED, <=)
SIM_OF_COMPARISON(leu, SIM_UNSIGNED, <=)
SIM_OF_COMPARISON(lts, SIM_SIGNED, <)
SIM_OF_COMPARISON(ltu, SIM_UNSIGNED, <)
#undef SIM_OF_ONE
#undef SIM_OF_TWO
#undef SIM_OF_COMPARISON
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
