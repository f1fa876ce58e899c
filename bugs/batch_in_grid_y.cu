/* The rows go along y of the grid, which ends at 65535 blocks.
 *
 * Why people make it: x for columns and y for rows is how matrices are drawn.
 *
 * What one sees: Right up to 65535 blocks of rows; beyond that the launch fails and nothing runs.
 *
 * Found by: the check of launches, on a large batch. */
__global__ void gemm_float4(const float *x, const float *weight, const float *bias, float *v, int batch,
                            int in_features, int out_features) {
    int64_t row = (int64_t)blockIdx.y * blockDim.y + threadIdx.y;
    int column = blockIdx.x * blockDim.x + threadIdx.x;
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
