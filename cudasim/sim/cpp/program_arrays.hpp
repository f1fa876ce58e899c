/* Arrays, textures and surfaces of a program: CUDA Runtime API, "Texture Object Management" and "Memory
 * Management". An array is device memory with contiguous elements, row after row; the object is a struct
 * sim_texture in device memory, which kernels read. Not supported: mipmaps, seamless cube maps, border
 * colours other than zero. */
#pragma once
#include "program.hpp"

SIM_HOST cudaChannelFormatDesc cudaCreateChannelDesc(int x, int y, int z, int w, cudaChannelFormatKind kind) {
    return {x, y, z, w, kind};
}
template <class T> SIM_HOST cudaChannelFormatDesc cudaCreateChannelDesc() {
    cudaChannelFormatDesc format = {0, 0, 0, 0, cudaChannelFormatKindNone};
    auto set = [&](auto element, int count) {
        using E = decltype(element);
        int bits = (int)sizeof(E) * 8;
        format.x = bits, format.y = count > 1 ? bits : 0;
        format.z = count > 2 ? bits : 0, format.w = count > 3 ? bits : 0;
        bool is_float = std::is_floating_point<E>::value || !std::is_arithmetic<E>::value; /* __half */
        format.f = is_float                   ? cudaChannelFormatKindFloat
                   : std::is_signed<E>::value ? cudaChannelFormatKindSigned
                                              : cudaChannelFormatKindUnsigned;
    };
    if constexpr (sim_channel_count<T>::count > 1 || !std::is_arithmetic<T>::value)
        set(typename sim_channels<T>::element(), sim_channel_count<T>::count);
    else
        set(T(), 1);
    return format;
}
SIM_HOST int sim_channels_of(const cudaChannelFormatDesc &format) {
    return (format.x > 0) + (format.y > 0) + (format.z > 0) + (format.w > 0);
}
SIM_HOST size_t sim_texel_bytes(const cudaChannelFormatDesc &format) {
    return (size_t)(format.x + format.y + format.z + format.w) / 8;
}

/* ---- Arrays ---- */

enum {
    cudaArrayDefault = 0,
    cudaArrayLayered = 1,
    cudaArraySurfaceLoadStore = 2,
    cudaArrayCubemap = 4,
    cudaArrayTextureGather = 8
};
struct cudaArray {
    char *data;
    cudaChannelFormatDesc format;
    cudaExtent extent; /* 0: that dimension is not there */
    unsigned flags;
    size_t row_bytes() const {
        return extent.width * sim_texel_bytes(format);
    }
    size_t rows() const {
        return extent.height ? extent.height : 1;
    }
    size_t bytes() const {
        return row_bytes() * rows() * (extent.depth ? extent.depth : 1);
    }
};
typedef const cudaArray *cudaArray_const_t;

SIM_HOST cudaError_t cudaMalloc3DArray(cudaArray_t *array, const cudaChannelFormatDesc *format,
                                       cudaExtent extent, unsigned flags = 0, SIM_CALLED) {
    bool is_cube = flags & cudaArrayCubemap; /* six faces, and as many times that as there are layers */
    bool are_faces = extent.width == extent.height && extent.depth % 6 == 0 &&
                     (extent.depth == 6 || flags & cudaArrayLayered);
    if (!array || !format || !extent.width || (is_cube && (!extent.depth || !are_faces)))
        return sim_says(cudaErrorInvalidValue);
    cudaArray made = {0, *format, extent, flags};
    cudaError_t error = sim_error(
        sim_memory_take((void **)&made.data, made.bytes(), SIM_DEVICE_MEMORY, SIM_CALLED_AS("an array")));
    if (!error)
        *array = new cudaArray(made);
    return error;
}
SIM_HOST cudaError_t cudaMallocArray(cudaArray_t *array, const cudaChannelFormatDesc *format, size_t width,
                                     size_t height = 0, unsigned flags = 0, SIM_CALLED) {
    return cudaMalloc3DArray(array, format, {width, height, 0}, flags, sim_file, sim_line);
}
SIM_HOST cudaError_t cudaFreeArray(cudaArray_t array, SIM_CALLED) {
    if (!array)
        return sim_says(0);
    cudaError_t error = sim_error(sim_memory_give_back(array->data, SIM_DEVICE_MEMORY, SIM_CALLED_AS(0)));
    delete array;
    return error;
}
SIM_HOST cudaError_t cudaGetChannelDesc(cudaChannelFormatDesc *format, cudaArray_const_t array) {
    *format = array->format;
    return sim_says(0);
}
SIM_HOST cudaError_t cudaArrayGetInfo(cudaChannelFormatDesc *format, cudaExtent *extent, unsigned *flags,
                                      cudaArray_t array) {
    if (format)
        *format = array->format;
    if (extent)
        *extent = array->extent;
    if (flags)
        *flags = array->flags;
    return sim_says(0);
}

/* The address of byte x of row y. */
SIM_HOST char *sim_in_array(cudaArray_const_t array, size_t x, size_t y) {
    return array->data + y * array->row_bytes() + x;
}
SIM_HOST cudaError_t cudaMemcpy2DToArrayAsync(cudaArray_t to, size_t x, size_t y, const void *from,
                                              size_t pitch, size_t width, size_t rows, cudaMemcpyKind kind,
                                              cudaStream_t stream = 0, SIM_CALLED, bool waits = false) {
    return sim_error(sim_memory_copy(sim_in_array(to, x, y), to->row_bytes(), from, pitch, width, rows, kind,
                                     sim_stream_of(stream), waits, SIM_CALLED_AS(0)));
}
SIM_HOST cudaError_t cudaMemcpy2DToArray(cudaArray_t to, size_t x, size_t y, const void *from, size_t pitch,
                                         size_t width, size_t rows, cudaMemcpyKind kind, SIM_CALLED) {
    return cudaMemcpy2DToArrayAsync(to, x, y, from, pitch, width, rows, kind, 0, sim_file, sim_line, true);
}
SIM_HOST cudaError_t cudaMemcpy2DFromArrayAsync(void *to, size_t pitch, cudaArray_const_t from, size_t x,
                                                size_t y, size_t width, size_t rows, cudaMemcpyKind kind,
                                                cudaStream_t stream = 0, SIM_CALLED, bool waits = false) {
    return sim_error(sim_memory_copy(to, pitch, sim_in_array(from, x, y), from->row_bytes(), width, rows,
                                     kind, sim_stream_of(stream), waits, SIM_CALLED_AS(0)));
}
SIM_HOST cudaError_t cudaMemcpy2DFromArray(void *to, size_t pitch, cudaArray_const_t from, size_t x, size_t y,
                                           size_t width, size_t rows, cudaMemcpyKind kind, SIM_CALLED) {
    return cudaMemcpy2DFromArrayAsync(to, pitch, from, x, y, width, rows, kind, 0, sim_file, sim_line, true);
}
/* Copies `bytes` from there on, across the ends of rows. */
SIM_HOST cudaError_t cudaMemcpyToArray(cudaArray_t to, size_t x, size_t y, const void *from, size_t bytes,
                                       cudaMemcpyKind kind, SIM_CALLED) {
    return cudaMemcpy(sim_in_array(to, x, y), from, bytes, kind, sim_file, sim_line);
}
SIM_HOST cudaError_t cudaMemcpyFromArray(void *to, cudaArray_const_t from, size_t x, size_t y, size_t bytes,
                                         cudaMemcpyKind kind, SIM_CALLED) {
    return cudaMemcpy(to, sim_in_array(from, x, y), bytes, kind, sim_file, sim_line);
}
SIM_HOST cudaError_t cudaMemcpyToArrayAsync(cudaArray_t to, size_t x, size_t y, const void *from,
                                            size_t bytes, cudaMemcpyKind kind, cudaStream_t stream = 0,
                                            SIM_CALLED) {
    return cudaMemcpyAsync(sim_in_array(to, x, y), from, bytes, kind, stream, sim_file, sim_line);
}
SIM_HOST cudaError_t cudaMemcpyFromArrayAsync(void *to, cudaArray_const_t from, size_t x, size_t y,
                                              size_t bytes, cudaMemcpyKind kind, cudaStream_t stream = 0,
                                              SIM_CALLED) {
    return cudaMemcpyAsync(to, sim_in_array(from, x, y), bytes, kind, stream, sim_file, sim_line);
}
SIM_HOST cudaError_t cudaMemcpy2DArrayToArray(cudaArray_t to, size_t to_x, size_t to_y,
                                              cudaArray_const_t from, size_t x, size_t y, size_t width,
                                              size_t rows, cudaMemcpyKind kind = cudaMemcpyDeviceToDevice,
                                              SIM_CALLED) {
    return cudaMemcpy2DToArray(to, to_x, to_y, sim_in_array(from, x, y), from->row_bytes(), width, rows, kind,
                               sim_file, sim_line);
}
SIM_HOST cudaError_t cudaMemcpyArrayToArray(cudaArray_t to, size_t to_x, size_t to_y, cudaArray_const_t from,
                                            size_t x, size_t y, size_t bytes,
                                            cudaMemcpyKind kind = cudaMemcpyDeviceToDevice, SIM_CALLED) {
    return cudaMemcpyToArray(to, to_x, to_y, sim_in_array(from, x, y), bytes, kind, sim_file, sim_line);
}

/* An array's part in a 3D copy, in bytes. Positions in an array are in elements, in plain memory in bytes. */
SIM_HOST cudaPitchedPtr sim_pitched(cudaArray_t array, cudaPitchedPtr plain, cudaPos *position) {
    if (!array)
        return plain;
    position->x *= sim_texel_bytes(array->format);
    return {array->data, array->row_bytes(), array->row_bytes(), array->rows()};
}
SIM_HOST cudaError_t cudaMemcpy3DAsync(const cudaMemcpy3DParms *copy, cudaStream_t stream = 0, SIM_CALLED,
                                       bool waits = false) {
    cudaPos from_at = copy->srcPos, to_at = copy->dstPos;
    cudaPitchedPtr from = sim_pitched(copy->srcArray, copy->srcPtr, &from_at);
    cudaPitchedPtr to = sim_pitched(copy->dstArray, copy->dstPtr, &to_at);
    cudaArray_t array = copy->srcArray ? copy->srcArray : copy->dstArray;
    size_t width = copy->extent.width * (array ? sim_texel_bytes(array->format) : 1);
    cudaError_t error = cudaSuccess;
    for (size_t z = 0; z < copy->extent.depth && !error; z++) {
        size_t from_row = (z + from_at.z) * from.ysize + from_at.y;
        size_t to_row = (z + to_at.z) * to.ysize + to_at.y;
        error = sim_error(sim_memory_copy((char *)to.ptr + to_row * to.pitch + to_at.x, to.pitch,
                                          (char *)from.ptr + from_row * from.pitch + from_at.x, from.pitch,
                                          width, copy->extent.height, copy->kind, sim_stream_of(stream),
                                          waits, SIM_CALLED_AS(0)));
    }
    return error;
}
SIM_HOST cudaError_t cudaMemcpy3D(const cudaMemcpy3DParms *copy, SIM_CALLED) {
    return cudaMemcpy3DAsync(copy, 0, sim_file, sim_line, true);
}
/* Each of the extent's planes is set as a part of the pitched memory. */
SIM_HOST cudaError_t cudaMemset3DAsync(cudaPitchedPtr to, int value, cudaExtent extent,
                                       cudaStream_t stream = 0, SIM_CALLED) {
    cudaError_t error = cudaSuccess;
    for (size_t z = 0; z < extent.depth && !error; z++)
        error = cudaMemset2DAsync((char *)to.ptr + z * to.pitch * to.ysize, to.pitch, value, extent.width,
                                  extent.height, stream, sim_file, sim_line);
    return error;
}
SIM_HOST cudaError_t cudaMemset3D(cudaPitchedPtr to, int value, cudaExtent extent, SIM_CALLED) {
    return cudaMemset3DAsync(to, value, extent, 0, sim_file, sim_line);
}

/* ---- Texture and surface objects ---- */

enum cudaResourceType {
    cudaResourceTypeArray,
    cudaResourceTypeMipmappedArray,
    cudaResourceTypeLinear,
    cudaResourceTypePitch2D
};
struct cudaResourceDesc {
    cudaResourceType resType;
    union {
        struct {
            cudaArray_t array;
        } array;
        struct {
            void *devPtr;
            cudaChannelFormatDesc desc;
            size_t sizeInBytes;
        } linear;
        struct {
            void *devPtr;
            cudaChannelFormatDesc desc;
            size_t width, height, pitchInBytes;
        } pitch2D;
    } res;
};
struct cudaTextureDesc {
    cudaTextureAddressMode addressMode[3];
    cudaTextureFilterMode filterMode;
    cudaTextureReadMode readMode;
    int sRGB;
    float borderColor[4];
    int normalizedCoords;
    unsigned maxAnisotropy;
    cudaTextureFilterMode mipmapFilterMode;
    float mipmapLevelBias, minMipmapLevelClamp, maxMipmapLevelClamp;
    int disableTrilinearOptimization, seamlessCubemap;
};
struct cudaResourceViewDesc;

/* How elements are converted for a kernel; -1 if CUDA has no such texture. */
SIM_HOST int sim_conversion_of(const cudaChannelFormatDesc &format, cudaTextureReadMode mode) {
    if (format.f == cudaChannelFormatKindFloat)
        return format.x == 16 ? SIM_OF_HALF : SIM_NONE;
    if (mode == cudaReadModeElementType)
        return SIM_NONE;
    bool is_signed = format.f == cudaChannelFormatKindSigned;
    return format.x == 8    ? is_signed ? SIM_OF_INT8 : SIM_OF_UINT8
           : format.x == 16 ? is_signed ? SIM_OF_INT16 : SIM_OF_UINT16
                            : -1;
}
SIM_HOST sim_texture sim_of_memory(const void *data, const cudaChannelFormatDesc &format, size_t width,
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
            row_bytes};
}
SIM_HOST sim_texture sim_of_array(cudaArray_const_t array) {
    const cudaExtent &of = array->extent;
    return sim_of_memory(array->data, array->format, of.width, of.height, of.depth, array->row_bytes());
}
/* The struct in device memory, which is the object. */
SIM_HOST cudaError_t sim_make_object(cudaTextureObject_t *object, const sim_texture &texture, SIM_CALLED) {
    void *made;
    cudaError_t error = sim_error(sim_memory_take(&made, sizeof texture, SIM_DEVICE_MEMORY,
                                                  SIM_CALLED_AS("a texture or surface object")));
    if (error)
        return error;
    *object = (cudaTextureObject_t)made;
    return cudaMemcpy(made, &texture, sizeof texture, cudaMemcpyHostToDevice, sim_file, sim_line);
}
SIM_HOST cudaError_t cudaCreateTextureObject(cudaTextureObject_t *object, const cudaResourceDesc *resource,
                                             const cudaTextureDesc *how, const cudaResourceViewDesc *view = 0,
                                             SIM_CALLED) {
    const auto &of = resource->res;
    sim_texture texture;
    cudaChannelFormatDesc format;
    switch (resource->resType) {
    case cudaResourceTypeArray:
        format = of.array.array->format;
        texture = sim_of_array(of.array.array);
        break;
    case cudaResourceTypeLinear:
        format = of.linear.desc;
        texture = sim_of_memory(of.linear.devPtr, format, of.linear.sizeInBytes / sim_texel_bytes(format), 1,
                                1, of.linear.sizeInBytes);
        break;
    case cudaResourceTypePitch2D:
        format = of.pitch2D.desc;
        texture = sim_of_memory(of.pitch2D.devPtr, format, of.pitch2D.width, of.pitch2D.height, 1,
                                of.pitch2D.pitchInBytes);
        break;
    default:
        return sim_says(cudaErrorNotSupported);
    }
    const float *border = how->borderColor;
    bool has_color = border[0] != 0 || border[1] != 0 || border[2] != 0 || border[3] != 0;
    texture.conversion = sim_conversion_of(format, how->readMode);
    if (view || how->sRGB || has_color || how->seamlessCubemap)
        return sim_says(cudaErrorNotSupported);
    bool gives_floats = format.f == cudaChannelFormatKindFloat || texture.conversion > 0;
    if (texture.conversion < 0 || (how->filterMode == cudaFilterModeLinear && !gives_floats))
        return sim_says(cudaErrorInvalidValue);
    texture.is_linear = how->filterMode == cudaFilterModeLinear;
    texture.is_normalized = how->normalizedCoords;
    for (int d = 0; d < 3; d++) {
        /* CUDA C++ programming guide: wrap and mirror are for normalized coordinates; otherwise they mean
           clamp. */
        bool repeats =
            how->addressMode[d] == cudaAddressModeWrap || how->addressMode[d] == cudaAddressModeMirror;
        texture.address_modes[d] =
            repeats && !how->normalizedCoords ? cudaAddressModeClamp : how->addressMode[d];
    }
    return sim_make_object(object, texture, sim_file, sim_line);
}
SIM_HOST cudaError_t cudaDestroyTextureObject(cudaTextureObject_t object, SIM_CALLED) {
    return cudaFree((void *)object, sim_file, sim_line);
}
SIM_HOST cudaError_t cudaCreateSurfaceObject(cudaSurfaceObject_t *object, const cudaResourceDesc *resource,
                                             SIM_CALLED) {
    if (resource->resType != cudaResourceTypeArray)
        return sim_says(cudaErrorInvalidValue);
    return sim_make_object(object, sim_of_array(resource->res.array.array), sim_file, sim_line);
}
SIM_HOST cudaError_t cudaDestroySurfaceObject(cudaSurfaceObject_t object, SIM_CALLED) {
    return cudaFree((void *)object, sim_file, sim_line);
}

/* ---- Texture references ---- */

template <class T, int d, cudaTextureReadMode m>
SIM_HOST cudaError_t sim_bind(texture<T, d, m> &reference, const cudaResourceDesc &resource,
                              const char *sim_file, int sim_line) {
    if (reference.object)
        cudaFree((void *)reference.object, sim_file, sim_line);
    cudaTextureDesc how = {};
    for (int i = 0; i < 3; i++)
        how.addressMode[i] = reference.addressMode[i];
    how.filterMode = reference.filterMode, how.normalizedCoords = reference.normalized, how.readMode = m;
    return cudaCreateTextureObject(&reference.object, &resource, &how, 0, sim_file, sim_line);
}
template <class T, int d, cudaTextureReadMode m>
SIM_HOST cudaError_t cudaBindTexture(size_t *offset, texture<T, d, m> &reference, const void *memory,
                                     const cudaChannelFormatDesc &format, size_t bytes = (size_t)-1,
                                     SIM_CALLED) {
    if (offset)
        *offset = 0;
    const sim_allocation *found = sim_allocation_at(memory);
    if (!found)
        return sim_says(cudaErrorInvalidValue);
    size_t most = found->bytes - (size_t)((const unsigned char *)memory - found->begin);
    cudaResourceDesc resource = {cudaResourceTypeLinear, {}};
    /* CUDA's constructor of a reference fixes the type of its elements, which a program may not change. */
    cudaChannelFormatDesc of = format.x ? format : cudaCreateChannelDesc<T>();
    resource.res.linear = {(void *)memory, of, bytes < most ? bytes : most};
    return sim_bind(reference, resource, sim_file, sim_line);
}
template <class T, int d, cudaTextureReadMode m>
SIM_HOST cudaError_t cudaBindTexture(size_t *offset, texture<T, d, m> &reference, const void *memory,
                                     size_t bytes = (size_t)-1, SIM_CALLED) {
    return cudaBindTexture(offset, reference, memory, cudaCreateChannelDesc<T>(), bytes, sim_file, sim_line);
}
/* In C all arguments are pointers. */
template <class T, int d, cudaTextureReadMode m>
SIM_HOST cudaError_t cudaBindTexture(size_t *offset, texture<T, d, m> *reference, const void *memory,
                                     const cudaChannelFormatDesc *format, size_t bytes = (size_t)-1,
                                     SIM_CALLED) {
    return cudaBindTexture(offset, *reference, memory, *format, bytes, sim_file, sim_line);
}
template <class T, int d, cudaTextureReadMode m>
SIM_HOST cudaError_t cudaBindTexture2D(size_t *offset, texture<T, d, m> &reference, const void *memory,
                                       const cudaChannelFormatDesc &format, size_t width, size_t height,
                                       size_t pitch, SIM_CALLED) {
    if (offset)
        *offset = 0;
    cudaResourceDesc resource = {cudaResourceTypePitch2D, {}};
    resource.res.pitch2D = {(void *)memory, format, width, height, pitch};
    return sim_bind(reference, resource, sim_file, sim_line);
}
template <class T, int d, cudaTextureReadMode m>
SIM_HOST cudaError_t cudaBindTextureToArray(texture<T, d, m> &reference, cudaArray_t array, SIM_CALLED) {
    cudaResourceDesc resource = {cudaResourceTypeArray, {}};
    resource.res.array.array = array;
    return sim_bind(reference, resource, sim_file, sim_line);
}
template <class T, int d, cudaTextureReadMode m>
SIM_HOST cudaError_t cudaBindTextureToArray(texture<T, d, m> &reference, cudaArray_t array,
                                            const cudaChannelFormatDesc &, SIM_CALLED) {
    return cudaBindTextureToArray(reference, array, sim_file, sim_line);
}
template <class T, int d, cudaTextureReadMode m>
SIM_HOST cudaError_t cudaUnbindTexture(texture<T, d, m> &reference, SIM_CALLED) {
    cudaError_t error = cudaFree((void *)reference.object, sim_file, sim_line);
    reference.object = 0;
    return error;
}
template <class T, int d, cudaTextureReadMode m>
SIM_HOST cudaError_t cudaUnbindTexture(texture<T, d, m> *reference, SIM_CALLED) {
    return cudaUnbindTexture(*reference, sim_file, sim_line);
}
