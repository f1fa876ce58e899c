/* v = x W^T + bias: the first kernel of gemm_groupnorm_hardtanh and of matmul_groupnorm_leakyrelu_sum.
 *
 * A thread computes one output. It reads both rows in float4s, 16 bytes at a time, if all rows begin at a
 * multiple of 16 bytes. */
__global__ void gemm_float4(const float *x, const float *weight, const float *bias, float *v, int batch,
                            int in_features, int out_features) {
    int64_t row = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    int column = blockIdx.y * blockDim.y + threadIdx.y;
    if (row >= batch || column >= out_features)
        return;
    const float *x_row = x + row * in_features;
    const float *weight_row = weight + (int64_t)column * in_features;
    int fours = in_features % 4 == 0 ? in_features / 4 : 0;
    float sum = 0.0f;
    for (int i = 0; i < fours; i++) {
        float4 a = ((const float4 *)x_row)[i];
        float4 b = ((const float4 *)weight_row)[i];
        sum += a.x * b.x + a.y * b.y + a.z * b.z + a.w * b.w;
    }
    for (int k = 4 * fours; k < in_features; k++)
        sum += x_row[k] * weight_row[k];
    v[row * out_features + column] = sum + bias[column];
}
