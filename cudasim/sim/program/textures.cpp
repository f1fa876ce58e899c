/* Texture and surface objects, and mipmapped arrays, of a program: ../cpp/program_arrays.hpp. Linked into
 * each program, so that no program has to compile it. */
#include "../cpp/program.hpp"
#include <map>
#include <vector>

#define CALLED (sim_called{__func__, sim_file, sim_line, "a texture or surface object"})

/* What an object was made with, for those who ask. */
namespace {
struct made_with {
    cudaResourceDesc resource;
    cudaTextureDesc how;
    void *levels; /* device memory; NULL: there is one */
};
} // namespace
static std::map<unsigned long long, made_with> &objects() {
    static std::map<unsigned long long, made_with> known;
    return known;
}

/* ---- Mipmapped arrays ---- */

struct cudaMipmappedArray {
    std::vector<cudaArray_t> levels;
};
static size_t halved(size_t size, unsigned times) {
    return size ? std::max<size_t>(size >> times, 1) : 0;
}
/* There are at most as many levels as it takes to come to a single element. */
cudaError_t cudaMallocMipmappedArray(cudaMipmappedArray_t *array, const cudaChannelFormatDesc *format,
                                     cudaExtent extent, unsigned levels, unsigned flags, const char *sim_file,
                                     int sim_line) {
    if (!array || !format || !extent.width)
        return sim_says(cudaErrorInvalidValue);
    bool has_layers = flags & (cudaArrayLayered | cudaArrayCubemap);
    size_t largest = std::max({extent.width, extent.height, has_layers ? 0 : extent.depth});
    unsigned most = 1;
    while (largest >> most)
        most++;
    auto made = new cudaMipmappedArray();
    for (unsigned level = 0; level < std::min(std::max(levels, 1u), most); level++) {
        cudaExtent of = {halved(extent.width, level), halved(extent.height, level),
                         has_layers ? extent.depth : halved(extent.depth, level)};
        made->levels.push_back(0);
        if (cudaError_t error =
                cudaMalloc3DArray(&made->levels.back(), format, of, flags, sim_file, sim_line))
            return error;
    }
    *array = made;
    return sim_says(cudaSuccess);
}
cudaError_t cudaGetMipmappedArrayLevel(cudaArray_t *array, cudaMipmappedArray_const_t of, unsigned level) {
    if (!array || !of || level >= of->levels.size())
        return sim_says(cudaErrorInvalidValue);
    *array = of->levels[level];
    return sim_says(cudaSuccess);
}
cudaError_t cudaFreeMipmappedArray(cudaMipmappedArray_t array, const char *sim_file, int sim_line) {
    cudaError_t error = array ? cudaSuccess : sim_says(cudaSuccess);
    for (size_t i = 0; array && i < array->levels.size() && !error; i++)
        error = cudaFreeArray(array->levels[i], sim_file, sim_line);
    delete array;
    return error;
}

/* ---- Objects ---- */

/* How elements are converted for a kernel; -1 if CUDA has no such texture. */
static int sim_conversion_of(const cudaChannelFormatDesc &format, cudaTextureReadMode mode) {
    if (format.f == cudaChannelFormatKindFloat)
        return format.x == 16 ? SIM_OF_HALF : SIM_NONE;
    if (mode == cudaReadModeElementType)
        return SIM_NONE;
    bool is_signed = format.f == cudaChannelFormatKindSigned;
    return format.x == 8    ? is_signed ? SIM_OF_INT8 : SIM_OF_UINT8
           : format.x == 16 ? is_signed ? SIM_OF_INT16 : SIM_OF_UINT16
                            : -1;
}
static sim_texture sim_of_memory(const void *data, const cudaChannelFormatDesc &format, size_t width,
                                 size_t height, size_t depth, size_t row_bytes) {
    return {data,
            (int)width,
            (int)(height ? height : 1),
            (int)(depth ? depth : 1),
            sim_channels_of(format),
            0,
            0,
            {},
            (int)sim_texel_bytes(format),
            SIM_NONE,
            row_bytes,
            0,
            1,
            0,
            0,
            0,
            0};
}
static sim_texture sim_of_array(cudaArray_const_t array) {
    const cudaExtent &of = array->extent;
    return sim_of_memory(array->data, array->format, of.width, of.height, of.depth, array->row_bytes());
}
/* Structs in device memory, of which the first is the object. */
static cudaError_t put(void **made, const sim_texture *textures, size_t count, sim_called called) {
    size_t bytes = count * sizeof *textures;
    cudaError_t error = sim_error(sim_memory_take(made, bytes, SIM_DEVICE_MEMORY, called));
    return error ? error
                 : sim_error(sim_memory_copy(*made, bytes, textures, bytes, bytes, 1, cudaMemcpyHostToDevice,
                                             0, true, called));
}
static cudaError_t give_back(unsigned long long object, sim_called called) {
    void *levels = objects()[object].levels;
    objects().erase(object);
    if (levels)
        sim_error(sim_memory_give_back(levels, SIM_DEVICE_MEMORY, called));
    return sim_error(sim_memory_give_back((void *)object, SIM_DEVICE_MEMORY, called));
}
/* An error, or the element's format and the texture of each level. */
static cudaError_t textures_of(const cudaResourceDesc &resource, cudaChannelFormatDesc *format,
                               std::vector<sim_texture> *to) {
    const auto &of = resource.res;
    switch (resource.resType) {
    case cudaResourceTypeArray:
        *format = of.array.array->format;
        to->push_back(sim_of_array(of.array.array));
        return cudaSuccess;
    case cudaResourceTypeMipmappedArray:
        *format = of.mipmap.mipmap->levels[0]->format;
        for (cudaArray_t level : of.mipmap.mipmap->levels)
            to->push_back(sim_of_array(level));
        return cudaSuccess;
    case cudaResourceTypeLinear:
        *format = of.linear.desc;
        to->push_back(sim_of_memory(of.linear.devPtr, *format,
                                    of.linear.sizeInBytes / sim_texel_bytes(*format), 1, 1,
                                    of.linear.sizeInBytes));
        return cudaSuccess;
    case cudaResourceTypePitch2D:
        *format = of.pitch2D.desc;
        to->push_back(sim_of_memory(of.pitch2D.devPtr, *format, of.pitch2D.width, of.pitch2D.height, 1,
                                    of.pitch2D.pitchInBytes));
        return cudaSuccess;
    }
    return cudaErrorInvalidValue;
}
cudaError_t cudaCreateTextureObject(cudaTextureObject_t *object, const cudaResourceDesc *resource,
                                    const cudaTextureDesc *how, const cudaResourceViewDesc *view,
                                    const char *sim_file, int sim_line) {
    std::vector<sim_texture> levels;
    cudaChannelFormatDesc format;
    if (!object || !resource || !how)
        return sim_says(cudaErrorInvalidValue);
    if (cudaError_t error = textures_of(*resource, &format, &levels))
        return sim_says(error);
    const float *border = how->borderColor;
    bool has_color = border[0] != 0 || border[1] != 0 || border[2] != 0 || border[3] != 0;
    if (view || how->sRGB || has_color || how->seamlessCubemap)
        return sim_says(cudaErrorNotSupported);
    int conversion = sim_conversion_of(format, how->readMode);
    bool gives_floats = format.f == cudaChannelFormatKindFloat || conversion > 0;
    if (conversion < 0 || (how->filterMode == cudaFilterModeLinear && !gives_floats))
        return sim_says(cudaErrorInvalidValue);
    for (sim_texture &texture : levels) {
        texture.conversion = conversion;
        texture.is_linear = how->filterMode == cudaFilterModeLinear;
        texture.is_normalized = how->normalizedCoords;
        for (int d = 0; d < 3; d++) {
            /* CUDA C++ programming guide: wrap and mirror are for normalized coordinates; otherwise they
               mean clamp. */
            bool repeats =
                how->addressMode[d] == cudaAddressModeWrap || how->addressMode[d] == cudaAddressModeMirror;
            texture.address_modes[d] =
                repeats && !how->normalizedCoords ? cudaAddressModeClamp : how->addressMode[d];
        }
    }
    void *made, *all = 0;
    sim_texture first = levels[0];
    if (resource->resType == cudaResourceTypeMipmappedArray) {
        if (!how->normalizedCoords)
            return sim_says(cudaErrorInvalidValue); /* which levels of different sizes need */
        if (cudaError_t error = put(&all, levels.data(), levels.size(), CALLED))
            return error;
        first.levels = (const sim_texture *)all, first.level_count = (int)levels.size();
        first.blends_levels = how->mipmapFilterMode == cudaFilterModeLinear;
        first.level_bias = how->mipmapLevelBias;
        first.least_level = how->minMipmapLevelClamp, first.most_level = how->maxMipmapLevelClamp;
    }
    if (cudaError_t error = put(&made, &first, 1, CALLED))
        return error;
    *object = (cudaTextureObject_t)made;
    objects()[*object] = {*resource, *how, all};
    return cudaSuccess;
}
cudaError_t cudaDestroyTextureObject(cudaTextureObject_t object, const char *sim_file, int sim_line) {
    return give_back(object, CALLED);
}
cudaError_t cudaCreateSurfaceObject(cudaSurfaceObject_t *object, const cudaResourceDesc *resource,
                                    const char *sim_file, int sim_line) {
    if (!object || !resource || resource->resType != cudaResourceTypeArray)
        return sim_says(cudaErrorInvalidValue);
    sim_texture texture = sim_of_array(resource->res.array.array);
    void *made;
    if (cudaError_t error = put(&made, &texture, 1, CALLED))
        return error;
    *object = (cudaSurfaceObject_t)made;
    objects()[*object] = {*resource, {}, 0};
    return cudaSuccess;
}
cudaError_t cudaDestroySurfaceObject(cudaSurfaceObject_t object, const char *sim_file, int sim_line) {
    return give_back(object, CALLED);
}

/* ---- What they were made with ---- */

template <class T> static cudaError_t tell(T *to, unsigned long long object, T made_with::*which) {
    auto found = objects().find(object);
    if (!to || found == objects().end())
        return sim_says(cudaErrorInvalidValue);
    *to = found->second.*which;
    return sim_says(cudaSuccess);
}
cudaError_t cudaGetTextureObjectResourceDesc(cudaResourceDesc *of, cudaTextureObject_t object) {
    return tell(of, object, &made_with::resource);
}
cudaError_t cudaGetTextureObjectTextureDesc(cudaTextureDesc *of, cudaTextureObject_t object) {
    return tell(of, object, &made_with::how);
}
cudaError_t cudaGetTextureObjectResourceViewDesc(cudaResourceViewDesc *, cudaTextureObject_t) {
    return sim_says(cudaErrorInvalidValue);
}
cudaError_t cudaGetSurfaceObjectResourceDesc(cudaResourceDesc *of, cudaSurfaceObject_t object) {
    return tell(of, object, &made_with::resource);
}
