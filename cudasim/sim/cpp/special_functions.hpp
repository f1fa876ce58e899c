/* C++'s special functions, std::legendre() and others, which cuda.hpp leaves out of libstdc++. */
#pragma once
#if __cplusplus > 201402L && __has_include(<bits/specfun.h>)
#define _GLIBCXX_USE_STD_SPEC_FUNCS 1
#include <bits/specfun.h>
#endif
