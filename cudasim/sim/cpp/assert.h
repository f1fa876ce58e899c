/* assert() in a kernel: a fault with the text of the condition. */
#include "language.hpp"

#undef assert
#ifdef NDEBUG
#define assert(condition) ((void)0)
#else
#define assert(...) ((__VA_ARGS__) ? (void)0 : sim_assertion_failed(SIM_HERE, #__VA_ARGS__))
#endif
