/* 16-bit floats: comparisons of what is no number, and rounding in a direction. */
#include <cstdio>
#include <cuda_bf16.h>
#include <cuda_fp16.h>

__global__ void compare(bool *is) {
    __half none = __float2half(nanf("")), one = __float2half(1.0f), two = __float2half(2.0f);
    __half2 nones = __half2half2(none), ones = __half2half2(one);
    is[0] = !__hne(none, one) && __hneu(none, one) && __hne(one, two) && none != one;
    is[1] = __low2float(__hne2(nones, ones)) == 0 && !__hbne2(nones, ones) && __hbequ2(nones, ones);
    is[2] = __heq2_mask(__halves2half2(one, two), ones) == 0xffff && __low2float(__hisnan2(nones)) == 1;
}
__global__ void round_them(float *y) {
    y[0] = __half2float(__float2half_rz(1.9999f));
    y[1] = __half2float(__float2half_ru(1.0001f));
    y[2] = __half2float(__float2half_rd(-1.0001f));
    y[3] = __half2float(__float2half_rz(1e9f));
    y[4] = __half2float(__int2half_rd(2049));
    y[5] = __half2float(__int2half_ru(2049));
    y[6] = __half2float(__float2half_rd(-1e-10f));
    y[7] = __bfloat162float(__float2bfloat16_rz(1.99999f));
    __half2 product = __hcmadd(__floats2half2_rn(1, 2), __floats2half2_rn(3, 4), __floats2half2_rn(1, 1));
    y[8] = __low2float(product);
    y[9] = __high2float(product);
}

int main() {
    const float right[] = {2047.0f / 1024, 1025.0f / 1024, -1025.0f / 1024, 65504,        2048,
                           2050,           -0x1p-24f,      255.0f / 128,    1 + 3 - 8.0f, 1 + 4 + 6};
    bool *is;
    float *y;
    cudaMallocManaged(&is, 3);
    cudaMallocManaged(&y, sizeof right);
    compare<<<1, 1>>>(is);
    round_them<<<1, 1>>>(y);
    cudaDeviceSynchronize();
    for (int i = 0; i < 3; i++)
        if (!is[i])
            printf("comparison %d is wrong\n", i);
    for (int i = 0; i < 10; i++)
        if (y[i] != right[i])
            printf("%d: %g, expected %g\n", i, y[i], right[i]);
    cudaFree(is);
    cudaFree(y);
    printf("ok\n");
}
