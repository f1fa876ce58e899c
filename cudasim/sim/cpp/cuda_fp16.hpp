#include "half.hpp"
