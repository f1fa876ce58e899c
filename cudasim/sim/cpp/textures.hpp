/* Textures: memory that is read by coordinates, with a filter and a rule for what is outside.
 *
 * Coordinates, filters and address modes are those of the CUDA C++ programming guide, "Texture Fetching".
 * Weights of a linear filter are exact here; a GPU keeps 8 bits of their fraction. live/textures.py makes the
 * struct. */
#pragma once
#include "intrinsics.hpp"

typedef unsigned long long cudaTextureObject_t;
enum cudaTextureReadMode { cudaReadModeElementType, cudaReadModeNormalizedFloat };
enum cudaTextureAddressMode {
    cudaAddressModeWrap,
    cudaAddressModeClamp,
    cudaAddressModeMirror,
    cudaAddressModeBorder
};
enum cudaTextureFilterMode { cudaFilterModePoint, cudaFilterModeLinear };

struct sim_texture {
    const void *data;
    int width, height, depth;
    int channels;
    int is_linear, address_mode, is_normalized;
    int texel_bytes;
};

/* The texture, if its texels are of type T. */
template <class T> SIM_INLINE const sim_texture &sim_texture_of(cudaTextureObject_t texture) {
    static const sim_site here = {__FILE__, __LINE__};
    const sim_texture &t = *(const sim_texture *)texture;
    if (t.texel_bytes != sizeof(T))
        sim_assertion_failed(
            &here, "a texture's or surface's elements have the type that the kernel reads or writes");
    return t;
}

/* The index that an address mode makes of one outside; -1 for a border. */
SIM_INLINE int sim_addressed(int i, int size, int mode) {
    if (i >= 0 && i < size)
        return i;
    if (mode == cudaAddressModeBorder)
        return -1;
    if (mode == cudaAddressModeClamp)
        return i < 0 ? 0 : size - 1;
    int period = mode == cudaAddressModeMirror ? 2 * size : size, j = (i % period + period) % period;
    return j < size ? j : period - 1 - j;
}

template <class T> SIM_INLINE T sim_texel(const sim_texture &t, int x, int y, int z) {
    x = sim_addressed(x, t.width, t.address_mode);
    y = sim_addressed(y, t.height, t.address_mode);
    z = sim_addressed(z, t.depth, t.address_mode);
    if (x < 0 || y < 0 || z < 0)
        return T();
    return ((const T *)t.data)[((size_t)z * t.height + y) * t.width + x];
}

template <class T> struct sim_channels { /* a vector's channels, as floats to weigh */
    using element = std::remove_reference_t<decltype(((T *)0)->x)>;
    static constexpr int count = sizeof(T) / sizeof(element);
};
template <class T> SIM_INLINE void sim_add_weighed(T &sum, T texel, float weight) {
    if constexpr (std::is_arithmetic<T>::value) {
        sum += (T)(weight * (float)texel);
    } else {
        using E = typename sim_channels<T>::element;
        for (int c = 0; c < sim_channels<T>::count; c++)
            ((E *)&sum)[c] += (E)(weight * (float)((const E *)&texel)[c]);
    }
}

template <class T>
SIM_INLINE T sim_fetched(cudaTextureObject_t object, float x, float y, float z, int dimensions) {
    const sim_texture &t = sim_texture_of<T>(object);
    if (t.is_normalized) {
        x *= (float)t.width;
        y *= (float)t.height;
        z *= (float)t.depth;
    }
    if (!t.is_linear)
        return sim_texel<T>(t, (int)floorf(x), dimensions > 1 ? (int)floorf(y) : 0,
                            dimensions > 2 ? (int)floorf(z) : 0);
    float at[3] = {x - 0.5f, dimensions > 1 ? y - 0.5f : 0.0f, dimensions > 2 ? z - 0.5f : 0.0f};
    T sum{};
    for (int corner = 0; corner < 1 << dimensions; corner++) {
        float weight = 1.0f;
        int place[3];
        for (int d = 0; d < 3; d++) {
            float low = floorf(at[d]), fraction = at[d] - low;
            bool is_high = corner >> d & 1;
            place[d] = (int)low + is_high;
            if (d < dimensions)
                weight *= is_high ? fraction : 1.0f - fraction;
        }
        if (weight != 0.0f)
            sim_add_weighed(sum, sim_texel<T>(t, place[0], place[1], place[2]), weight);
    }
    return sum;
}

template <class T> SIM_INLINE T tex1Dfetch(cudaTextureObject_t texture, int x) {
    const sim_texture &t = sim_texture_of<T>(texture);
    return x >= 0 && x < t.width ? ((const T *)t.data)[x] : T();
}
template <class T> SIM_INLINE T tex1D(cudaTextureObject_t texture, float x) {
    return sim_fetched<T>(texture, x, 0, 0, 1);
}
template <class T> SIM_INLINE T tex2D(cudaTextureObject_t texture, float x, float y) {
    return sim_fetched<T>(texture, x, y, 0, 2);
}
template <class T> SIM_INLINE T tex3D(cudaTextureObject_t texture, float x, float y, float z) {
    return sim_fetched<T>(texture, x, y, z, 3);
}
template <class T> SIM_INLINE T tex2DLod(cudaTextureObject_t texture, float x, float y, float) {
    return tex2D<T>(texture, x, y);
}
template <class T> SIM_INLINE void tex1Dfetch(T *to, cudaTextureObject_t texture, int x) {
    *to = tex1Dfetch<T>(texture, x);
}
template <class T> SIM_INLINE void tex2D(T *to, cudaTextureObject_t texture, float x, float y) {
    *to = tex2D<T>(texture, x, y);
}

/* Layers: images of one size, of which none is between two. */
template <class T> SIM_INLINE T tex2DLayered(cudaTextureObject_t texture, float x, float y, int layer) {
    sim_texture one = sim_texture_of<T>(texture);
    int chosen = layer < 0 ? 0 : layer < one.depth ? layer : one.depth - 1;
    one.data = (const T *)one.data + (size_t)chosen * one.width * one.height;
    one.depth = 1;
    return sim_fetched<T>((cudaTextureObject_t)&one, x, y, 0, 2);
}

/* ---- Texture references (CUDA 11 and before): variables that Python binds, kernel.symbols.bind() ---- */

enum { cudaTextureType1D = 1, cudaTextureType2D, cudaTextureType3D };

template <class T, int dimensions = 1, enum cudaTextureReadMode mode = cudaReadModeElementType>
struct texture {
    static_assert(mode == cudaReadModeElementType, "textures that make floats of integers are not simulated");
    cudaTextureObject_t object;
    operator cudaTextureObject_t() const {
        static const sim_site here = {__FILE__, __LINE__};
        if (!object)
            sim_assertion_failed(&here, "a texture reference is bound: kernel.symbols.bind(name, texture)");
        return object;
    }
};
template <class T, int d, enum cudaTextureReadMode m>
SIM_INLINE T tex1Dfetch(const texture<T, d, m> &reference, int x) {
    return tex1Dfetch<T>((cudaTextureObject_t)reference, x);
}
template <class T, int d, enum cudaTextureReadMode m>
SIM_INLINE T tex1D(const texture<T, d, m> &reference, float x) {
    return tex1D<T>((cudaTextureObject_t)reference, x);
}
template <class T, int d, enum cudaTextureReadMode m>
SIM_INLINE T tex2D(const texture<T, d, m> &reference, float x, float y) {
    return tex2D<T>((cudaTextureObject_t)reference, x, y);
}
template <class T, int d, enum cudaTextureReadMode m>
SIM_INLINE T tex3D(const texture<T, d, m> &reference, float x, float y, float z) {
    return tex3D<T>((cudaTextureObject_t)reference, x, y, z);
}
