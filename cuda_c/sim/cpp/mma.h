#include "wmma.hpp"
