#include "Half.h"
