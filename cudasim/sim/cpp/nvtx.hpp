/* NVTX, by which a program names its phases for a profiler; here it does nothing. */
#pragma once
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

inline int nvtxRangePushA(const char *) {
    return 0;
}
inline int nvtxRangePush(const char *) {
    return 0;
}
inline int nvtxRangePushEx(const nvtxEventAttributes_t *) {
    return 0;
}
inline int nvtxRangePop() {
    return 0;
}
inline nvtxRangeId_t nvtxRangeStartA(const char *) {
    return 0;
}
inline nvtxRangeId_t nvtxRangeStart(const char *) {
    return 0;
}
inline nvtxRangeId_t nvtxRangeStartEx(const nvtxEventAttributes_t *) {
    return 0;
}
inline void nvtxRangeEnd(nvtxRangeId_t) {}
inline void nvtxMarkA(const char *) {}
inline void nvtxMark(const char *) {}
inline void nvtxMarkEx(const nvtxEventAttributes_t *) {}
inline void nvtxNameOsThreadA(uint32_t, const char *) {}
inline nvtxDomainHandle_t nvtxDomainCreateA(const char *) {
    return 0;
}
inline void nvtxDomainDestroy(nvtxDomainHandle_t) {}
inline int nvtxDomainRangePushEx(nvtxDomainHandle_t, const nvtxEventAttributes_t *) {
    return 0;
}
inline int nvtxDomainRangePop(nvtxDomainHandle_t) {
    return 0;
}
