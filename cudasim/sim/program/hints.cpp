/* What a program says about its memory, and may ask again: where managed memory should be, and how pinned
 * memory was allocated. It changes nothing else. Linked into each program. */
#include "../cpp/program.hpp"
#include <dlfcn.h>
#include <map>
#include <vector>

/* ---- Managed memory ---- */

/* What was said, in its order, of the bytes of an allocation. */
namespace {
struct hint {
    uintptr_t begin, end;
    int what; /* cudaMemoryAdvise, or PREFETCH */
    cudaMemLocation where;
};
} // namespace
enum { PREFETCH = -1, PAGE = 4096 };
static std::vector<hint> &hints() {
    static std::vector<hint> said;
    return said;
}
static bool is_managed(const void *memory, size_t bytes) {
    const sim_allocation *found = sim_allocation_at(memory);
    Dl_info file;
    if (!found) /* a __managed__ variable is one of the program's, and no allocation */
        return bytes && dladdr(memory, &file);
    return found && found->kind == SIM_MANAGED_MEMORY && bytes &&
           bytes <= found->bytes - (size_t)((const unsigned char *)memory - found->begin);
}
static bool is_place(cudaMemLocation where) {
    bool is_of_host = where.type == cudaMemLocationTypeHost || where.type == cudaMemLocationTypeHostNuma ||
                      where.type == cudaMemLocationTypeHostNumaCurrent;
    return is_of_host ||
           (where.type == cudaMemLocationTypeDevice && where.id >= 0 && where.id < sim_gpu_count());
}
/* A hint holds for whole pages. */
static cudaError_t say(const void *memory, size_t bytes, int what, cudaMemLocation where) {
    uintptr_t begin = (uintptr_t)memory / PAGE * PAGE;
    uintptr_t end = ((uintptr_t)memory + bytes + PAGE - 1) / PAGE * PAGE;
    hints().push_back({begin, end, what, where});
    return sim_says(cudaSuccess);
}
cudaError_t cudaMemAdvise(const void *memory, size_t bytes, cudaMemoryAdvise what, cudaMemLocation where) {
    bool needs_place = what == cudaMemAdviseSetPreferredLocation || what == cudaMemAdviseSetAccessedBy ||
                       what == cudaMemAdviseUnsetAccessedBy;
    if (!is_managed(memory, bytes) || what < cudaMemAdviseSetReadMostly ||
        what > cudaMemAdviseUnsetAccessedBy)
        return sim_says(cudaErrorInvalidValue);
    if (needs_place && !is_place(where))
        return sim_says(cudaErrorInvalidDevice);
    return say(memory, bytes, what, where);
}
cudaError_t cudaMemPrefetchAsync(const void *memory, size_t bytes, cudaMemLocation where, unsigned flags,
                                 cudaStream_t stream) {
    if (!is_managed(memory, bytes) || flags)
        return sim_says(cudaErrorInvalidValue);
    if (!is_place(where))
        return sim_says(cudaErrorInvalidDevice);
    if (sim_is_captured(stream))
        return sim_spoils_capture(stream);
    return say(memory, bytes, PREFETCH, where);
}
cudaError_t cudaMemPrefetchBatchAsync(void **memory, size_t *bytes, size_t count, cudaMemLocation *where,
                                      size_t *begins, size_t where_count, unsigned long long flags,
                                      cudaStream_t stream) {
    if (!memory || !bytes || !where || !begins || !count || !where_count || where_count > count ||
        begins[0] || flags)
        return sim_says(cudaErrorInvalidValue);
    cudaError_t error = cudaSuccess;
    for (size_t i = 0, at = 0; i < count && !error; i++) {
        at += at + 1 < where_count && begins[at + 1] == i;
        error = cudaMemPrefetchAsync(memory[i], bytes[i], where[at], 0, stream);
    }
    return error;
}
cudaError_t cudaMemDiscardBatchAsync(void **memory, size_t *bytes, size_t count, unsigned long long flags,
                                     cudaStream_t) {
    bool is_right = memory && bytes && count && !flags;
    for (size_t i = 0; is_right && i < count; i++)
        is_right = is_managed(memory[i], bytes[i]);
    return sim_says(is_right ? cudaSuccess : cudaErrorInvalidValue);
}

/* What was said last of a page: a flag, or a place. */
namespace {
struct said {
    bool is_read_mostly;
    cudaMemLocation preferred, prefetched;
    std::vector<int> users;
};
} // namespace
static said said_of(uintptr_t page) {
    const cudaMemLocation nowhere = {cudaMemLocationTypeInvalid, cudaInvalidDeviceId};
    said of = {false, nowhere, nowhere, {}};
    for (const hint &each : hints()) {
        if (page < each.begin || page >= each.end)
            continue;
        int device = each.where.type == cudaMemLocationTypeDevice ? each.where.id : cudaCpuDeviceId;
        auto user = std::find(of.users.begin(), of.users.end(), device);
        if (each.what == PREFETCH)
            of.prefetched = each.where;
        else if (each.what <= cudaMemAdviseUnsetReadMostly)
            of.is_read_mostly = each.what == cudaMemAdviseSetReadMostly;
        else if (each.what <= cudaMemAdviseUnsetPreferredLocation)
            of.preferred = each.what == cudaMemAdviseSetPreferredLocation ? each.where : nowhere;
        else if (each.what == cudaMemAdviseSetAccessedBy && user == of.users.end())
            of.users.push_back(device);
        else if (each.what == cudaMemAdviseUnsetAccessedBy && user != of.users.end())
            of.users.erase(user);
    }
    return of;
}
static std::vector<int> values(const said &of, cudaMemRangeAttribute which) {
    auto device = [](cudaMemLocation where) {
        return where.type == cudaMemLocationTypeInvalid  ? (int)cudaInvalidDeviceId
               : where.type == cudaMemLocationTypeDevice ? where.id
                                                         : (int)cudaCpuDeviceId;
    };
    switch (which) {
    case cudaMemRangeAttributeReadMostly:
        return {of.is_read_mostly};
    case cudaMemRangeAttributePreferredLocation:
        return {device(of.preferred)};
    case cudaMemRangeAttributeLastPrefetchLocation:
        return {device(of.prefetched)};
    case cudaMemRangeAttributePreferredLocationType:
        return {of.preferred.type};
    case cudaMemRangeAttributePreferredLocationId:
        return {of.preferred.id};
    case cudaMemRangeAttributeLastPrefetchLocationType:
        return {of.prefetched.type};
    case cudaMemRangeAttributeLastPrefetchLocationId:
        return {of.prefetched.id};
    default:
        return of.users;
    }
}
/* Where the pages of the range differ, nothing was said of the range as a whole. */
cudaError_t cudaMemRangeGetAttribute(void *to, size_t room, cudaMemRangeAttribute which, const void *memory,
                                     size_t bytes) {
    bool is_list = which == cudaMemRangeAttributeAccessedBy;
    if (!to || !is_managed(memory, bytes) || which < cudaMemRangeAttributeReadMostly ||
        which > cudaMemRangeAttributeLastPrefetchLocationId || room % sizeof(int) || !room ||
        (!is_list && room != sizeof(int)))
        return sim_says(cudaErrorInvalidValue);
    uintptr_t first = (uintptr_t)memory / PAGE * PAGE, last = ((uintptr_t)memory + bytes - 1) / PAGE * PAGE;
    std::vector<int> found = values(said_of(first), which);
    std::vector<int> nothing = values(said_of(0), which);
    for (uintptr_t page = first + PAGE; page <= last; page += PAGE) {
        std::vector<int> other = values(said_of(page), which);
        if (is_list)
            found.erase(std::remove_if(found.begin(), found.end(),
                                       [&](int device) {
                                           return std::find(other.begin(), other.end(), device) ==
                                                  other.end();
                                       }),
                        found.end());
        else if (found != other)
            found = nothing;
    }
    for (size_t i = 0; i < room / sizeof(int); i++)
        ((int *)to)[i] = i < found.size() ? found[i] : (int)cudaInvalidDeviceId;
    return sim_says(cudaSuccess);
}
cudaError_t cudaMemRangeGetAttributes(void **to, size_t *rooms, cudaMemRangeAttribute *which, size_t count,
                                      const void *memory, size_t bytes) {
    cudaError_t error = to && rooms && which && count ? cudaSuccess : sim_says(cudaErrorInvalidValue);
    for (size_t i = 0; i < count && !error; i++)
        error = cudaMemRangeGetAttribute(to[i], rooms[i], which[i], memory, bytes);
    return error;
}

/* ---- Pinned memory ---- */

static std::map<const void *, unsigned> &flags_of() {
    static std::map<const void *, unsigned> known;
    return known;
}
void sim_keep_flags(const void *memory, unsigned flags) {
    flags_of()[memory] = flags;
}
cudaError_t cudaHostGetFlags(unsigned *flags, void *memory) {
    const sim_allocation *found = sim_allocation_at(memory);
    if (!flags || !found || found->kind != SIM_PINNED_MEMORY)
        return sim_says(cudaErrorInvalidValue);
    *flags = flags_of()[found->begin];
    return sim_says(cudaSuccess);
}
