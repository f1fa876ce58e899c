#include "curand.h" /* as NVIDIA's does */
