/* NVML for programs that ask for a card's name, clocks and memory: what the runtime says of it. NVML API
 * Reference Guide. */
#pragma once
#ifdef SIM_HOST
#include "library_forms.hpp"
#include "program.hpp"
#include <string.h>

enum nvmlReturn_t {
    NVML_SUCCESS = 0,
    NVML_ERROR_UNINITIALIZED = 1,
    NVML_ERROR_INVALID_ARGUMENT = 2,
    NVML_ERROR_NOT_SUPPORTED = 3,
    NVML_ERROR_NOT_FOUND = 6,
    NVML_ERROR_INSUFFICIENT_SIZE = 7
};
enum nvmlClockType_t { NVML_CLOCK_GRAPHICS, NVML_CLOCK_SM, NVML_CLOCK_MEM, NVML_CLOCK_VIDEO };
#define NVML_DEVICE_NAME_BUFFER_SIZE 64
typedef struct sim_nvml_device *nvmlDevice_t; /* the number of a device, and one */

inline const char *nvmlErrorString(nvmlReturn_t error) {
    return error == NVML_SUCCESS ? "The operation was successful" : "The operation failed";
}
inline constexpr sim_ignores<nvmlReturn_t> nvmlInit, nvmlInit_v2, nvmlShutdown;
inline nvmlReturn_t nvmlDeviceGetCount(unsigned *count) {
    int devices = 0;
    cudaGetDeviceCount(&devices);
    return *count = (unsigned)devices, NVML_SUCCESS;
}
inline nvmlReturn_t nvmlDeviceGetHandleByIndex(unsigned index, nvmlDevice_t *device) {
    unsigned count;
    nvmlDeviceGetCount(&count);
    if (index >= count)
        return NVML_ERROR_INVALID_ARGUMENT;
    return *device = (nvmlDevice_t)(uintptr_t)(index + 1), NVML_SUCCESS;
}
inline nvmlReturn_t nvmlDeviceGetHandleByPciBusId(const char *bus, nvmlDevice_t *device) {
    int index;
    if (cudaDeviceGetByPCIBusId(&index, bus) != cudaSuccess)
        return NVML_ERROR_NOT_FOUND;
    return nvmlDeviceGetHandleByIndex((unsigned)index, device);
}
inline nvmlReturn_t nvmlDeviceGetName(nvmlDevice_t device, char *name, unsigned size) {
    cudaDeviceProp card;
    cudaGetDeviceProperties(&card, (int)(uintptr_t)device - 1);
    if (strlen(card.name) >= size)
        return NVML_ERROR_INSUFFICIENT_SIZE;
    return strcpy(name, card.name), NVML_SUCCESS;
}
/* In MHz. */
inline nvmlReturn_t nvmlDeviceGetClockInfo(nvmlDevice_t device, nvmlClockType_t which, unsigned *clock) {
    int kilohertz;
    if (which == NVML_CLOCK_VIDEO)
        return NVML_ERROR_NOT_SUPPORTED;
    cudaDeviceGetAttribute(&kilohertz,
                           which == NVML_CLOCK_MEM ? cudaDevAttrMemoryClockRate : cudaDevAttrClockRate,
                           (int)(uintptr_t)device - 1);
    return *clock = (unsigned)kilohertz / 1000, NVML_SUCCESS;
}
inline nvmlReturn_t nvmlDeviceGetMaxClockInfo(nvmlDevice_t device, nvmlClockType_t which, unsigned *clock) {
    return nvmlDeviceGetClockInfo(device, which, clock);
}
#endif
