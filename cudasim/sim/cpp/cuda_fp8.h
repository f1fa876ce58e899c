#include "float8.hpp"
