/* Arrays, textures and surfaces of a program: CUDA Runtime API, "Texture Object Management" and "Memory
 * Management". An array is device memory with contiguous elements, row after row; the object is a struct
 * sim_texture in device memory, which kernels read. A mipmapped array is one array for each level.
 * Not supported: seamless cube maps, border colours other than zero, views. */
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

SIM_HOST cudaError_t cudaDeviceGetTexture1DLinearMaxWidth(size_t *elements, const cudaChannelFormatDesc *of,
                                                          int device) {
    cudaError_t error = sim_error(sim_device_exists(device));
    if (error || !elements || !of)
        return error ? error : sim_says(cudaErrorInvalidValue);
    *elements = (size_t)sim_properties(device).maxTexture1DLinear;
    return error;
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

typedef struct cudaMipmappedArray *cudaMipmappedArray_t;
typedef const cudaMipmappedArray *cudaMipmappedArray_const_t;
cudaError_t cudaMallocMipmappedArray(cudaMipmappedArray_t *array, const cudaChannelFormatDesc *format,
                                     cudaExtent extent, unsigned levels, unsigned flags = 0, SIM_CALLED);
cudaError_t cudaGetMipmappedArrayLevel(cudaArray_t *array, cudaMipmappedArray_const_t of, unsigned level);
cudaError_t cudaFreeMipmappedArray(cudaMipmappedArray_t array, SIM_CALLED);

/* The address of byte x of row y. */
SIM_HOST char *sim_in_array(cudaArray_const_t array, size_t x, size_t y) {
    return array->data + y * array->row_bytes() + x;
}
SIM_HOST cudaError_t cudaMemcpy2DToArrayAsync(cudaArray_t to, size_t x, size_t y, const void *from,
                                              size_t pitch, size_t width, size_t rows, cudaMemcpyKind kind,
                                              cudaStream_t stream = 0, SIM_CALLED, bool waits = false) {
    if (!waits && sim_is_captured(stream))
        return sim_capture_copy(stream, sim_in_array(to, x, y), to->row_bytes(), from, pitch, width, rows,
                                kind, SIM_CALLED_AS(0));
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
    if (!waits && sim_is_captured(stream))
        return sim_capture_copy(stream, to, pitch, sim_in_array(from, x, y), from->row_bytes(), width, rows,
                                kind, SIM_CALLED_AS(0));
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

/* Into a graph, where the stream is captured. */
cudaError_t sim_copy_3d(const cudaMemcpy3DParms *copy, cudaStream_t stream, bool waits, sim_called called);
SIM_HOST cudaError_t cudaMemcpy3DAsync(const cudaMemcpy3DParms *copy, cudaStream_t stream = 0, SIM_CALLED) {
    return sim_copy_3d(copy, stream, false, SIM_CALLED_AS(0));
}
SIM_HOST cudaError_t cudaMemcpy3D(const cudaMemcpy3DParms *copy, SIM_CALLED) {
    return sim_copy_3d(copy, 0, true, SIM_CALLED_AS(0));
}
struct cudaMemcpy3DPeerParms {
    cudaArray_t srcArray;
    cudaPos srcPos;
    cudaPitchedPtr srcPtr;
    int srcDevice;
    cudaArray_t dstArray;
    cudaPos dstPos;
    cudaPitchedPtr dstPtr;
    int dstDevice;
    cudaExtent extent;
};
SIM_HOST cudaError_t sim_copy_3d_peer(const cudaMemcpy3DPeerParms *of, cudaStream_t stream, bool waits,
                                      sim_called called) {
    if (!of || !sim_is_on(of->srcArray ? of->srcArray->data : of->srcPtr.ptr, of->srcDevice) ||
        !sim_is_on(of->dstArray ? of->dstArray->data : of->dstPtr.ptr, of->dstDevice))
        return sim_says(cudaErrorInvalidValue);
    cudaMemcpy3DParms copy = {of->srcArray, of->srcPos, of->srcPtr, of->dstArray,
                              of->dstPos,   of->dstPtr, of->extent, cudaMemcpyDeviceToDevice};
    return sim_copy_3d(&copy, stream, waits, called);
}
SIM_HOST cudaError_t cudaMemcpy3DPeerAsync(const cudaMemcpy3DPeerParms *of, cudaStream_t stream = 0,
                                           SIM_CALLED) {
    return sim_copy_3d_peer(of, stream, false, SIM_CALLED_AS(0));
}
SIM_HOST cudaError_t cudaMemcpy3DPeer(const cudaMemcpy3DPeerParms *of, SIM_CALLED) {
    return sim_copy_3d_peer(of, 0, true, SIM_CALLED_AS(0));
}
enum cudaMemcpy3DOperandType { cudaMemcpyOperandTypePointer = 1, cudaMemcpyOperandTypeArray };
struct cudaOffset3D {
    size_t x, y, z;
};
struct cudaMemcpy3DOperand {
    cudaMemcpy3DOperandType type;
    union {
        struct {
            void *ptr;
            size_t rowLength, layerHeight; /* 0: as the extent */
            cudaMemLocation locHint;
        } ptr;
        struct {
            cudaArray_t array;
            cudaOffset3D offset;
        } array;
    } op;
};
struct cudaMemcpy3DBatchOp {
    cudaMemcpy3DOperand src, dst;
    cudaExtent extent;
    cudaMemcpySrcAccessOrder srcAccessOrder;
    unsigned flags;
};
SIM_HOST void sim_set_operand(const cudaMemcpy3DOperand &of, const cudaExtent &extent, cudaArray_t *array,
                              cudaPos *at, cudaPitchedPtr *plain) {
    const auto &op = of.op;
    if (of.type == cudaMemcpyOperandTypeArray)
        *array = op.array.array, *at = {op.array.offset.x, op.array.offset.y, op.array.offset.z};
    else
        *plain = {op.ptr.ptr, op.ptr.rowLength ? op.ptr.rowLength : extent.width, extent.width,
                  op.ptr.layerHeight ? op.ptr.layerHeight : extent.height};
}
SIM_HOST cudaError_t cudaMemcpy3DBatchAsync(size_t count, cudaMemcpy3DBatchOp *all, unsigned long long flags,
                                            cudaStream_t stream, SIM_CALLED) {
    cudaError_t error = count && all && !flags && stream ? cudaSuccess : sim_says(cudaErrorInvalidValue);
    for (size_t i = 0; i < count && !error; i++) {
        cudaMemcpy3DParms copy = {};
        copy.extent = all[i].extent, copy.kind = cudaMemcpyDefault;
        sim_set_operand(all[i].src, copy.extent, &copy.srcArray, &copy.srcPos, &copy.srcPtr);
        sim_set_operand(all[i].dst, copy.extent, &copy.dstArray, &copy.dstPos, &copy.dstPtr);
        error = sim_copy_3d(&copy, stream, false, SIM_CALLED_AS(0));
    }
    return error;
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
            cudaMipmappedArray_t mipmap;
        } mipmap;
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
cudaError_t cudaCreateTextureObject(cudaTextureObject_t *object, const cudaResourceDesc *resource,
                                    const cudaTextureDesc *how, const cudaResourceViewDesc *view = 0,
                                    SIM_CALLED);
cudaError_t cudaDestroyTextureObject(cudaTextureObject_t object, SIM_CALLED);
cudaError_t cudaGetTextureObjectResourceDesc(cudaResourceDesc *of, cudaTextureObject_t object);
cudaError_t cudaGetTextureObjectTextureDesc(cudaTextureDesc *of, cudaTextureObject_t object);
/* There are no views, and so none to tell. */
cudaError_t cudaGetTextureObjectResourceViewDesc(cudaResourceViewDesc *of, cudaTextureObject_t object);
cudaError_t cudaCreateSurfaceObject(cudaSurfaceObject_t *object, const cudaResourceDesc *resource,
                                    SIM_CALLED);
cudaError_t cudaDestroySurfaceObject(cudaSurfaceObject_t object, SIM_CALLED);
cudaError_t cudaGetSurfaceObjectResourceDesc(cudaResourceDesc *of, cudaSurfaceObject_t object);

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
