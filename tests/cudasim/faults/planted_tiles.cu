/* Right kernels that work on tiles in shared memory or on words of global memory.
 * tests/cudasim/test_planted.py plants mistakes in them, one at a time. */
#include <float.h>

__global__ void tree_sum(const float *x, float *y, int n) {
    __shared__ float s[256];
    int t = threadIdx.x, i = blockIdx.x * 256 + t;
    s[t] = i < n ? x[i] : 0;
    __syncthreads();
    for (int h = 128; h > 0; h /= 2) {
        if (t < h)
            s[t] += s[t + h];
        __syncthreads();
    }
    if (t == 0)
        y[blockIdx.x] = s[0];
}

__global__ void atomic_histogram(const int *x, int *h, int n) {
    __shared__ int s[64];
    if (threadIdx.x < 64)
        s[threadIdx.x] = 0;
    __syncthreads();
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        atomicAdd(&s[x[i]], 1);
    __syncthreads();
    if (threadIdx.x < 64)
        atomicAdd(&h[threadIdx.x], s[threadIdx.x]);
}

#define T 16
__global__ void tiled_matmul(const float *a, const float *b, float *c, int n) {
    __shared__ float as[T][T], bs[T][T];
    int x = threadIdx.x, y = threadIdx.y, row = blockIdx.y * T + y, col = blockIdx.x * T + x;
    float sum = 0;
    for (int t = 0; t < (n + T - 1) / T; t++) {
        as[y][x] = row < n && t * T + x < n ? a[row * n + t * T + x] : 0;
        bs[y][x] = t * T + y < n && col < n ? b[(t * T + y) * n + col] : 0;
        __syncthreads();
        for (int k = 0; k < T; k++)
            sum += as[y][k] * bs[k][x];
        __syncthreads();
    }
    if (row < n && col < n)
        c[row * n + col] = sum;
}

__global__ void double_buffer(const float *x, float *y, int tiles) {
    __shared__ float s[2][128];
    int t = threadIdx.x;
    float sum = 0;
    s[0][t] = x[t];
    __syncthreads();
    for (int i = 0; i < tiles; i++) {
        if (i + 1 < tiles)
            s[(i + 1) & 1][t] = x[(i + 1) * 128 + t];
        for (int j = 0; j < 128; j++)
            sum += s[i & 1][j] * (j + t);
        __syncthreads();
    }
    y[t] = sum;
}

__global__ void transpose(const float *x, float *y, int w, int h) {
    __shared__ float t[32][33];
    int i = blockIdx.x * 32 + threadIdx.x, j = blockIdx.y * 32 + threadIdx.y;
    for (int r = 0; r < 32; r += 8)
        if (i < w && j + r < h)
            t[threadIdx.y + r][threadIdx.x] = x[(j + r) * w + i];
    __syncthreads();
    i = blockIdx.y * 32 + threadIdx.x;
    j = blockIdx.x * 32 + threadIdx.y;
    for (int r = 0; r < 32; r += 8)
        if (i < h && j + r < w)
            y[(j + r) * h + i] = t[threadIdx.x][threadIdx.y + r];
}

__global__ void stencil(const float *x, float *y, int n) {
    __shared__ float s[130];
    int t = threadIdx.x, i = blockIdx.x * 128 + t;
    s[t + 1] = i < n ? x[i] : 0;
    if (t == 0)
        s[0] = i > 0 ? x[i - 1] : 0;
    if (t == 127)
        s[129] = i + 1 < n ? x[i + 1] : 0;
    __syncthreads();
    if (i < n)
        y[i] = s[t] + s[t + 1] + s[t + 2];
}

__global__ void hillis_steele_scan(const int *x, int *y) {
    __shared__ int s[2][128];
    int t = threadIdx.x, in = 0;
    s[0][t] = x[t];
    __syncthreads();
    for (int d = 1; d < 128; d *= 2) {
        s[1 - in][t] = t >= d ? s[in][t] + s[in][t - d] : s[in][t];
        in = 1 - in;
        __syncthreads();
    }
    y[t] = s[in][t];
}

__global__ void softmax_rows(const float *x, float *y, int cols) {
    extern __shared__ float s[];
    int t = threadIdx.x;
    const float *row = x + blockIdx.x * cols;
    float m = -FLT_MAX;
    for (int c = t; c < cols; c += blockDim.x)
        m = fmaxf(m, row[c]);
    s[t] = m;
    __syncthreads();
    for (int h = blockDim.x / 2; h; h /= 2) {
        if (t < h)
            s[t] = fmaxf(s[t], s[t + h]);
        __syncthreads();
    }
    m = s[0];
    __syncthreads();
    float sum = 0;
    for (int c = t; c < cols; c += blockDim.x)
        sum += expf(row[c] - m);
    s[t] = sum;
    __syncthreads();
    for (int h = blockDim.x / 2; h; h /= 2) {
        if (t < h)
            s[t] += s[t + h];
        __syncthreads();
    }
    for (int c = t; c < cols; c += blockDim.x)
        y[blockIdx.x * cols + c] = expf(row[c] - m) / s[0];
}

__global__ void flash_minimal(const float *q, const float *kk, const float *v, float *o, int n) {
    const int D = 16, B = 16;
    extern __shared__ float sh[];
    float *ks = sh, *vs = sh + B * D, *sc = sh + 2 * B * D;
    int t = threadIdx.x;
    float qr[D], acc[D], m = -1e30f, l = 0;
    for (int d = 0; d < D; d++)
        qr[d] = q[(blockIdx.x * B + t) * D + d], acc[d] = 0;
    for (int j = 0; j < n / B; j++) {
        for (int d = 0; d < D; d++) {
            ks[t * D + d] = kk[(j * B + t) * D + d];
            vs[t * D + d] = v[(j * B + t) * D + d];
        }
        __syncthreads();
        float mx = m;
        for (int i = 0; i < B; i++) {
            float s = 0;
            for (int d = 0; d < D; d++)
                s += qr[d] * ks[i * D + d];
            sc[t * B + i] = s;
            mx = fmaxf(mx, s);
        }
        float c = expf(m - mx), sum = 0;
        for (int d = 0; d < D; d++)
            acc[d] *= c;
        for (int i = 0; i < B; i++) {
            float p = expf(sc[t * B + i] - mx);
            sum += p;
            for (int d = 0; d < D; d++)
                acc[d] += p * vs[i * D + d];
        }
        l = l * c + sum;
        m = mx;
        __syncthreads();
    }
    for (int d = 0; d < D; d++)
        o[(blockIdx.x * B + t) * D + d] = acc[d] / l;
}

__global__ void life(const unsigned char *in, unsigned char *out, int w, int h) {
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= w || y >= h)
        return;
    int n = 0;
    for (int dy = -1; dy <= 1; dy++)
        for (int dx = -1; dx <= 1; dx++)
            if (dx || dy)
                n += in[((y + dy + h) % h) * w + (x + dx + w) % w];
    out[y * w + x] = n == 3 || (n == 2 && in[y * w + x]);
}

__global__ void bitonic(int *x) {
    __shared__ int s[256];
    int t = threadIdx.x;
    s[t] = x[t];
    __syncthreads();
    for (int k = 2; k <= 256; k *= 2)
        for (int j = k / 2; j > 0; j /= 2) {
            int p = t ^ j;
            if (p > t) {
                bool up = (t & k) == 0;
                if ((s[t] > s[p]) == up) {
                    int v = s[t];
                    s[t] = s[p];
                    s[p] = v;
                }
            }
            __syncthreads();
        }
    x[t] = s[t];
}

__global__ void grid_stride_axpy(float *y, const float *x, float a, int n) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        y[i] += a * x[i];
}

__global__ void vector_copy(const float4 *x, float4 *y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n / 4)
        y[i] = x[i];
}

__constant__ float w[9];
__global__ void convolution_constant(const float *x, float *y, int n) {
    __shared__ float s[18][18];
    int tx = threadIdx.x, ty = threadIdx.y;
    for (int i = ty; i < 18; i += 16)
        for (int j = tx; j < 18; j += 16) {
            int gx = blockIdx.x * 16 + j - 1, gy = blockIdx.y * 16 + i - 1;
            s[i][j] = gx >= 0 && gx < n && gy >= 0 && gy < n ? x[gy * n + gx] : 0;
        }
    __syncthreads();
    float sum = 0;
    for (int i = 0; i < 3; i++)
        for (int j = 0; j < 3; j++)
            sum += w[i * 3 + j] * s[ty + i][tx + j];
    int gx = blockIdx.x * 16 + tx, gy = blockIdx.y * 16 + ty;
    if (gx < n && gy < n)
        y[gy * n + gx] = sum;
}

template <int C> __global__ void row_norm_multi(const float *x, float *y, float eps) {
    __shared__ float mean, var;
    const float *r = x + blockIdx.x * C;
    if (threadIdx.x == 0) {
        float s = 0;
        for (int i = 0; i < C; i++)
            s += r[i];
        mean = s / C;
    }
    __syncthreads();
    if (threadIdx.x == 32) {
        float s = 0;
        for (int i = 0; i < C; i++)
            s += (r[i] - mean) * (r[i] - mean);
        var = s / C;
    }
    __syncthreads();
    for (int i = threadIdx.x; i < C; i += blockDim.x)
        y[blockIdx.x * C + i] = (r[i] - mean) * rsqrtf(var + eps);
}
