/* Textures: memory that is read by coordinates, with a filter and a rule for coordinates outside.
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

/* How a read converts an element: not at all, or to a float from a half or from an integer (scaled to 0 to 1,
 * or -1 to 1, cudaReadModeNormalizedFloat). */
enum sim_conversion { SIM_NONE, SIM_OF_UINT8, SIM_OF_INT8, SIM_OF_UINT16, SIM_OF_INT16, SIM_OF_HALF };

struct sim_texture {
    const void *data;
    int width, height, depth;
    int channels;
    int is_linear, is_normalized;
    int address_modes[3];
    int texel_bytes;
    int conversion;
    size_t row_bytes;
    const sim_texture *levels; /* of a mipmapped array; NULL: this is all */
    int level_count, blends_levels;
    float level_bias, least_level, most_level;
};

/* The texture, if its texels have type T or are converted to it. */
SIM_INLINE const sim_texture &sim_texture_with(cudaTextureObject_t texture, size_t bytes_read) {
    static const sim_site here = {__FILE__, __LINE__};
    const sim_texture &t = *(const sim_texture *)texture;
    int bytes = t.conversion ? t.channels * (int)sizeof(float) : t.texel_bytes;
    if ((size_t)bytes != bytes_read)
        sim_assertion_failed(
            &here, "a texture's or surface's elements have the type that the kernel reads or writes");
    return t;
}
template <class T> SIM_INLINE const sim_texture &sim_texture_of(cudaTextureObject_t texture) {
    return sim_texture_with(texture, sizeof(T));
}

SIM_INLINE float sim_converted(const void *elements, int i, int conversion) {
    switch (conversion) {
    case SIM_OF_UINT8:
        return (float)((const unsigned char *)elements)[i] / 255.0f;
    case SIM_OF_INT8:
        return fmaxf((float)((const signed char *)elements)[i] / 127.0f, -1.0f);
    case SIM_OF_UINT16:
        return (float)((const unsigned short *)elements)[i] / 65535.0f;
    case SIM_OF_INT16:
        return fmaxf((float)((const short *)elements)[i] / 32767.0f, -1.0f);
    default:
        return sim_float_of_half(((const uint16_t *)elements)[i]);
    }
}
template <class T> SIM_INLINE T sim_texel_at(const sim_texture &t, const void *at) {
    if (!t.conversion)
        return *(const T *)at;
    T texel;
    for (int c = 0; c < t.channels; c++)
        ((float *)&texel)[c] = sim_converted(at, c, t.conversion);
    return texel;
}

/* Applies an address mode to an index outside; -1 for a border. */
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

/* NULL for a border. */
SIM_INLINE const char *sim_texel_place(const sim_texture &t, int x, int y, int z) {
    x = sim_addressed(x, t.width, t.address_modes[0]);
    y = sim_addressed(y, t.height, t.address_modes[1]);
    z = sim_addressed(z, t.depth, t.address_modes[2]);
    if (x < 0 || y < 0 || z < 0)
        return 0;
    const char *row = (const char *)t.data + ((size_t)z * t.height + y) * t.row_bytes;
    return row + (size_t)x * t.texel_bytes;
}
template <class T> SIM_INLINE T sim_texel(const sim_texture &t, int x, int y, int z) {
    const char *place = sim_texel_place(t, x, y, z);
    return place ? sim_texel_at<T>(t, place) : T();
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
    return x >= 0 && x < t.width ? sim_texel_at<T>(t, (const char *)t.data + (size_t)x * t.texel_bytes) : T();
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
/* The level nearest to the one that is asked for, or both around it. */
template <class T>
SIM_INLINE T sim_of_level(cudaTextureObject_t object, float x, float y, float z, int dimensions,
                          float level) {
    const sim_texture &t = sim_texture_of<T>(object);
    if (!t.levels)
        return sim_fetched<T>(object, x, y, z, dimensions);
    level =
        fminf(fmaxf(level + t.level_bias, t.least_level), fminf(t.most_level, (float)(t.level_count - 1)));
    level = fmaxf(level, 0.0f);
    float low = floorf(t.blends_levels ? level : level + 0.5f), above = t.blends_levels ? level - low : 0.0f;
    const sim_texture *at = t.levels + (int)low;
    T nearest = sim_fetched<T>((cudaTextureObject_t)at, x, y, z, dimensions), sum{};
    if (above == 0.0f)
        return nearest;
    sim_add_weighed(sum, nearest, 1.0f - above);
    sim_add_weighed(sum, sim_fetched<T>((cudaTextureObject_t)(at + 1), x, y, z, dimensions), above);
    return sum;
}
template <class T> SIM_INLINE T tex1DLod(cudaTextureObject_t texture, float x, float level) {
    return sim_of_level<T>(texture, x, 0, 0, 1, level);
}
template <class T> SIM_INLINE T tex2DLod(cudaTextureObject_t texture, float x, float y, float level) {
    return sim_of_level<T>(texture, x, y, 0, 2, level);
}
template <class T>
SIM_INLINE T tex3DLod(cudaTextureObject_t texture, float x, float y, float z, float level) {
    return sim_of_level<T>(texture, x, y, z, 3, level);
}
template <class T> SIM_INLINE void tex1Dfetch(T *to, cudaTextureObject_t texture, int x) {
    *to = tex1Dfetch<T>(texture, x);
}
template <class T> SIM_INLINE void tex1D(T *to, cudaTextureObject_t texture, float x) {
    *to = tex1D<T>(texture, x);
}
template <class T> SIM_INLINE void tex2D(T *to, cudaTextureObject_t texture, float x, float y) {
    *to = tex2D<T>(texture, x, y);
}
template <class T> SIM_INLINE void tex3D(T *to, cudaTextureObject_t texture, float x, float y, float z) {
    *to = tex3D<T>(texture, x, y, z);
}

/* Layers: images of one size, without interpolation between them. */
template <class T>
SIM_INLINE T sim_layer(cudaTextureObject_t texture, float x, float y, int layer, int dimensions) {
    sim_texture one = sim_texture_of<T>(texture);
    int chosen = layer < 0 ? 0 : layer < one.depth ? layer : one.depth - 1;
    one.data = (const char *)one.data + (size_t)chosen * one.row_bytes * one.height;
    one.depth = 1;
    return sim_fetched<T>((cudaTextureObject_t)&one, x, y, 0, dimensions);
}
template <class T> SIM_INLINE T tex1DLayered(cudaTextureObject_t texture, float x, int layer) {
    return sim_layer<T>(texture, x, 0, layer, 1);
}
template <class T> SIM_INLINE T tex2DLayered(cudaTextureObject_t texture, float x, float y, int layer) {
    return sim_layer<T>(texture, x, y, layer, 2);
}

/* Cube maps: six square layers, of which a direction chooses one. CUDA C++ Programming Guide, "Cubemap
 * Textures". A linear filter stays in its face, as for textures that are not seamless. */
template <class T>
SIM_INLINE T sim_of_cube(cudaTextureObject_t texture, float x, float y, float z, int cube) {
    float a = fabsf(x), b = fabsf(y), c = fabsf(z), m, s, t;
    int face;
    if (a >= b && a >= c)
        face = x >= 0 ? 0 : 1, m = a, s = x >= 0 ? -z : z, t = -y;
    else if (b >= c)
        face = y >= 0 ? 2 : 3, m = b, s = x, t = y >= 0 ? z : -z;
    else
        face = z >= 0 ? 4 : 5, m = c, s = z >= 0 ? x : -x, t = -y;
    const sim_texture &of = sim_texture_of<T>(texture);
    float width = of.is_normalized ? 1.0f : (float)of.width;
    return sim_layer<T>(texture, (s / m + 1) / 2 * width, (t / m + 1) / 2 * width, 6 * cube + face, 2);
}
template <class T> SIM_INLINE T texCubemap(cudaTextureObject_t texture, float x, float y, float z) {
    return sim_of_cube<T>(texture, x, y, z, 0);
}
template <class T>
SIM_INLINE T texCubemapLayered(cudaTextureObject_t texture, float x, float y, float z, int layer) {
    return sim_of_cube<T>(texture, x, y, z, layer);
}

/* Four texels around a place, one channel of each: counter-clockwise, from the lower left one on. */
/* T has four elements, and is one channel of four texels, however many channels these have. */
template <class T> SIM_INLINE T tex2Dgather(cudaTextureObject_t texture, float x, float y, int channel = 0) {
    static_assert(sim_channels<T>::count == 4, "tex2Dgather() gives a vector of 4 elements");
    using E = typename sim_channels<T>::element;
    size_t channels = (size_t)((const sim_texture *)texture)->channels;
    const sim_texture &t = sim_texture_with(texture, channels * sizeof(E));
    int left = (int)floorf((t.is_normalized ? x * (float)t.width : x) - 0.5f);
    int top = (int)floorf((t.is_normalized ? y * (float)t.height : y) - 0.5f);
    T four{};
    for (int i = 0; i < 4; i++) {
        const char *place = sim_texel_place(t, left + (i == 1 || i == 2), top + (i < 2), 0);
        E &element = ((E *)&four)[i];
        if (place)
            element =
                t.conversion ? (E)sim_converted(place, channel, t.conversion) : ((const E *)place)[channel];
    }
    return four;
}

/* ---- Texture references (CUDA 11 and before): variables that Python binds by kernel.symbols.bind(), and a
 * program by cudaBindTexture() ---- */

enum { cudaTextureType1D = 1, cudaTextureType2D, cudaTextureType3D, cudaTextureType2DLayered = 0xf2 };
enum cudaChannelFormatKind {
    cudaChannelFormatKindSigned,
    cudaChannelFormatKindUnsigned,
    cudaChannelFormatKindFloat,
    cudaChannelFormatKindNone
};
struct cudaChannelFormatDesc {
    int x, y, z, w;
    enum cudaChannelFormatKind f;
};

template <class T, int dimensions = 1, enum cudaTextureReadMode mode = cudaReadModeElementType>
struct texture {
    cudaTextureObject_t object;
    int normalized;
    enum cudaTextureFilterMode filterMode;
    enum cudaTextureAddressMode addressMode[3];
    struct cudaChannelFormatDesc channelDesc;
    operator cudaTextureObject_t() const {
        static const sim_site here = {__FILE__, __LINE__};
        if (!object)
            sim_assertion_failed(&here,
                                 "a texture reference is bound: kernel.symbols.bind(name, texture), or "
                                 "cudaBindTexture() in a program");
        return object;
    }
};
/* The result type of a read of a reference: its element type, or float. */
template <class T, enum cudaTextureReadMode mode> struct sim_read {
    using type = T;
};
template <int count> struct sim_floats;
template <> struct sim_floats<1> {
    using type = float;
};
template <> struct sim_floats<2> {
    using type = float2;
};
template <> struct sim_floats<4> {
    using type = float4;
};
template <class T, class = void> struct sim_channel_count {
    static constexpr int count = 1;
};
template <class T> struct sim_channel_count<T, std::void_t<decltype(((T *)0)->x)>> {
    static constexpr int count = sim_channels<T>::count;
};
template <class T> struct sim_read<T, cudaReadModeNormalizedFloat> {
    using type = typename sim_floats<sim_channel_count<T>::count>::type;
};
#define SIM_READ typename sim_read<T, m>::type
template <class T, int d, enum cudaTextureReadMode m>
SIM_INLINE SIM_READ tex1Dfetch(const texture<T, d, m> &reference, int x) {
    return tex1Dfetch<SIM_READ>((cudaTextureObject_t)reference, x);
}
template <class T, int d, enum cudaTextureReadMode m>
SIM_INLINE SIM_READ tex1D(const texture<T, d, m> &reference, float x) {
    return tex1D<SIM_READ>((cudaTextureObject_t)reference, x);
}
template <class T, int d, enum cudaTextureReadMode m>
SIM_INLINE SIM_READ tex2D(const texture<T, d, m> &reference, float x, float y) {
    return tex2D<SIM_READ>((cudaTextureObject_t)reference, x, y);
}
template <class T, int d, enum cudaTextureReadMode m>
SIM_INLINE SIM_READ tex3D(const texture<T, d, m> &reference, float x, float y, float z) {
    return tex3D<SIM_READ>((cudaTextureObject_t)reference, x, y, z);
}
#undef SIM_READ
