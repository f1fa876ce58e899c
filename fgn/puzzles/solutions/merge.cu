__global__ void merge(int *c, const int *a, const int *b, int n, int m) {
    // BEGIN SOLUTION: an element's place is its own number and how many of the other list come before it.
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n + m)
        return;
    bool is_of_a = i < n;
    int own = is_of_a ? i : i - n;
    int key = is_of_a ? a[own] : b[own];
    const int *other = is_of_a ? b : a;
    int low = 0, high = is_of_a ? m : n;
    while (low < high) {
        int middle = (low + high) / 2;
        if (other[middle] < key || (!is_of_a && other[middle] == key))
            low = middle + 1;
        else
            high = middle;
    }
    c[own + low] = key;
    // END SOLUTION
}
