#include "cooperative.hpp"
