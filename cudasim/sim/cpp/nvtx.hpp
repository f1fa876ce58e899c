/* NVTX, by which a program names its phases for a profiler; here it does nothing. */
#pragma once
#include "library_forms.hpp"
#include <stddef.h>
#include <stdint.h>

enum {
    NVTX_VERSION = 3,
    NVTX_COLOR_UNKNOWN = 0,
    NVTX_COLOR_ARGB = 1,
    NVTX_MESSAGE_UNKNOWN = 0,
    NVTX_MESSAGE_TYPE_ASCII = 1,
    NVTX_PAYLOAD_UNKNOWN = 0,
    NVTX_PAYLOAD_TYPE_UNSIGNED_INT64 = 1,
    NVTX_PAYLOAD_TYPE_INT64 = 2,
    NVTX_PAYLOAD_TYPE_DOUBLE = 3
};
typedef uint64_t nvtxRangeId_t;
typedef struct nvtxDomainRegistration_st *nvtxDomainHandle_t;
typedef struct nvtxStringRegistration_st *nvtxStringHandle_t;
union nvtxMessageValue_t {
    const char *ascii;
    const wchar_t *unicode;
    nvtxStringHandle_t registered;
};
struct nvtxEventAttributes_t {
    uint16_t version, size;
    uint32_t category;
    int32_t colorType;
    uint32_t color;
    int32_t payloadType, reserved0;
    union payload_t {
        uint64_t ullValue;
        int64_t llValue;
        double dValue;
    } payload;
    int32_t messageType;
    nvtxMessageValue_t message;
};
enum { NVTX_EVENT_ATTRIB_STRUCT_SIZE = sizeof(nvtxEventAttributes_t) };

inline constexpr sim_ignores<int, const char *> nvtxRangePushA, nvtxRangePush;
inline constexpr sim_ignores<int, const nvtxEventAttributes_t *> nvtxRangePushEx;
inline constexpr sim_ignores<int> nvtxRangePop;
inline constexpr sim_ignores<nvtxRangeId_t, const char *> nvtxRangeStartA, nvtxRangeStart;
inline constexpr sim_ignores<nvtxRangeId_t, const nvtxEventAttributes_t *> nvtxRangeStartEx;
inline constexpr sim_ignores<void, nvtxRangeId_t> nvtxRangeEnd;
inline constexpr sim_ignores<void, const char *> nvtxMarkA, nvtxMark;
inline constexpr sim_ignores<void, const nvtxEventAttributes_t *> nvtxMarkEx;
inline constexpr sim_ignores<void, uint32_t, const char *> nvtxNameOsThreadA;
inline constexpr sim_ignores<nvtxDomainHandle_t, const char *> nvtxDomainCreateA;
inline constexpr sim_ignores<void, nvtxDomainHandle_t> nvtxDomainDestroy;
inline constexpr sim_ignores<int, nvtxDomainHandle_t, const nvtxEventAttributes_t *> nvtxDomainRangePushEx;
inline constexpr sim_ignores<int, nvtxDomainHandle_t> nvtxDomainRangePop;
