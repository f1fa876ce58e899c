#include "cub_block.hpp"
