#include "bfloat16.hpp"
