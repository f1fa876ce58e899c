__global__ void scale_by_vectors(float *y, const float *x, int n) {
    // BEGIN SOLUTION: this thread's four elements in one access; single ones where four are not left.
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (4 * i + 3 < n) {
        float4 v = ((const float4 *)x)[i];
        ((float4 *)y)[i] =
            make_float4(3.0f * v.x - 1.0f, 3.0f * v.y - 1.0f, 3.0f * v.z - 1.0f, 3.0f * v.w - 1.0f);
    } else {
        for (int j = 4 * i; j < n; j++)
            y[j] = 3.0f * x[j] - 1.0f;
    }
    // END SOLUTION
}
