__global__ void group_norm(float *y, const float *x, const float *weight, const float *bias, int samples,
                           int groups, int size) {
    // BEGIN SOLUTION: the number of the sample and group of this thread, mean, variance, results.
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= samples * groups)
        return;
    int group = i % groups;
    const float *values = x + i * size;
    float mean = 0.0f;
    for (int c = 0; c < size; c++)
        mean += values[c];
    mean /= size;
    float variance = 0.0f;
    for (int c = 0; c < size; c++) {
        float difference = values[c] - mean;
        variance += difference * difference;
    }
    variance /= size;
    for (int c = 0; c < size; c++) {
        int channel = group * size + c;
        y[i * size + c] = (values[c] - mean) * rsqrtf(variance + 1e-5f) * weight[channel] + bias[channel];
    }
    // END SOLUTION
}
