/* Surfaces: images that a kernel reads and writes, by the byte along a row and by the row. CUDA C++
 * programming guide, "Surface Functions". A surface is the same struct as a texture. */
#pragma once
#include "textures.hpp"

typedef cudaTextureObject_t cudaSurfaceObject_t;
enum cudaSurfaceBoundaryMode { cudaBoundaryModeZero, cudaBoundaryModeClamp, cudaBoundaryModeTrap };

SIM_INLINE int sim_clamped(int i, int size) {
    return i < 0 ? 0 : i < size ? i : size - 1;
}

/* The texel that begins at byte x of a row; null if there is none and that is no error. */
template <class T>
SIM_INLINE T *sim_surface_texel(cudaSurfaceObject_t surface, int x, int y, int z,
                                cudaSurfaceBoundaryMode mode, const sim_site *site) {
    const sim_texture &s = sim_texture_of<T>(surface);
    if (x % (int)sizeof(T))
        sim_assertion_failed(site, "x of a surface function is in bytes, a multiple of the element's size");
    x /= (int)sizeof(T);
    bool is_inside = x >= 0 && x < s.width && y >= 0 && y < s.height && z >= 0 && z < s.depth;
    if (!is_inside && mode == cudaBoundaryModeTrap)
        sim_assertion_failed(site, "a surface function's x and y are inside the surface");
    if (!is_inside && mode == cudaBoundaryModeZero)
        return 0;
    x = sim_clamped(x, s.width), y = sim_clamped(y, s.height), z = sim_clamped(z, s.depth);
    return (T *)((char *)s.data + ((size_t)z * s.height + y) * s.row_bytes) + x;
}
template <class T> SIM_INLINE T sim_surface_read(const T *texel) {
    return texel ? *texel : T();
}
template <class T> SIM_INLINE void sim_surface_write(T *texel, T value) {
    if (texel)
        *texel = value;
}

#define SIM_BOUNDARY cudaSurfaceBoundaryMode mode = cudaBoundaryModeTrap, SIM_CALLED_FROM
#define SIM_TEXEL(y, z) sim_surface_texel<T>(surface, x, y, z, mode, SIM_CALLER)

template <class T> SIM_INLINE T surf1Dread(cudaSurfaceObject_t surface, int x, SIM_BOUNDARY) {
    return sim_surface_read(SIM_TEXEL(0, 0));
}
template <class T> SIM_INLINE void surf1Dread(T *to, cudaSurfaceObject_t surface, int x, SIM_BOUNDARY) {
    *to = sim_surface_read(SIM_TEXEL(0, 0));
}
template <class T> SIM_INLINE void surf1Dwrite(T value, cudaSurfaceObject_t surface, int x, SIM_BOUNDARY) {
    sim_surface_write(SIM_TEXEL(0, 0), value);
}
template <class T> SIM_INLINE T surf2Dread(cudaSurfaceObject_t surface, int x, int y, SIM_BOUNDARY) {
    return sim_surface_read(SIM_TEXEL(y, 0));
}
template <class T>
SIM_INLINE void surf2Dread(T *to, cudaSurfaceObject_t surface, int x, int y, SIM_BOUNDARY) {
    *to = sim_surface_read(SIM_TEXEL(y, 0));
}
template <class T>
SIM_INLINE void surf2Dwrite(T value, cudaSurfaceObject_t surface, int x, int y, SIM_BOUNDARY) {
    sim_surface_write(SIM_TEXEL(y, 0), value);
}
template <class T>
SIM_INLINE T surf2DLayeredread(cudaSurfaceObject_t surface, int x, int y, int layer, SIM_BOUNDARY) {
    return sim_surface_read(SIM_TEXEL(y, layer));
}
template <class T>
SIM_INLINE void surf2DLayeredwrite(T value, cudaSurfaceObject_t surface, int x, int y, int layer,
                                   SIM_BOUNDARY) {
    sim_surface_write(SIM_TEXEL(y, layer), value);
}
template <class T> SIM_INLINE T surf3Dread(cudaSurfaceObject_t surface, int x, int y, int z, SIM_BOUNDARY) {
    return sim_surface_read(SIM_TEXEL(y, z));
}
template <class T>
SIM_INLINE void surf3Dread(T *to, cudaSurfaceObject_t surface, int x, int y, int z, SIM_BOUNDARY) {
    *to = sim_surface_read(SIM_TEXEL(y, z));
}
template <class T>
SIM_INLINE void surf3Dwrite(T value, cudaSurfaceObject_t surface, int x, int y, int z, SIM_BOUNDARY) {
    sim_surface_write(SIM_TEXEL(y, z), value);
}
