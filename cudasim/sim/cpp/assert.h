/* assert() in a kernel: a fault with the text of the condition. */
#include "language.hpp"

#undef assert
#ifdef NDEBUG
#define assert(condition) ((void)0)
#else
/* A function that is constexpr may have it, but no variable that is static. */
#define assert(...)                                                                                          \
    ((__VA_ARGS__) ? (void)0 : sim_assertion_failed(sim_site_at(__FILE__, __LINE__), #__VA_ARGS__))
#endif
