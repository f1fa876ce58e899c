/* A captured launch keeps copies of its arguments, of whichever type, and destroys them with the graph: right
 * if it says ok. */
#include <cstdio>

struct Counted { /* is copied by its constructor, and counts what lives */
    static int alive;
    float by;
    const Counted *self;
    explicit Counted(float by) : by(by), self(this) {
        alive++;
    }
    Counted(const Counted &of) : by(of.by), self(this) {
        alive++;
    }
    ~Counted() {
        alive--;
    }
};
int Counted::alive = 0;
struct alignas(64) Wide {
    double a[8];
};

__global__ void compute(float *x, Counted counted, char offset, Wide wide) {
    x[threadIdx.x] = x[threadIdx.x] * counted.by + (float)wide.a[threadIdx.x % 8] + offset;
}
template <class T> __global__ void add(T *x, T value) {
    x[threadIdx.x] += value;
}

int main() {
    float *x;
    cudaGraph_t graph;
    cudaGraphExec_t runs;
    cudaStream_t stream;
    cudaMallocManaged(&x, 32 * sizeof *x);
    cudaStreamCreate(&stream);
    for (int i = 0; i < 32; i++)
        x[i] = (float)i;
    cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal);
    {
        Counted two(2);
        Wide wide = {{0, 1, 2, 3, 4, 5, 6, 7}};
        compute<<<1, 32, 0, stream>>>(x, two, 1, wide);
        add<<<1, 32, 0, stream>>>(x, 0.5f);
        two.by = 9;
        wide.a[3] = 99;
    }
    cudaStreamEndCapture(stream, &graph);
    cudaGraphInstantiate(&runs, graph, 0, 0, 0);
    bool is_kept = Counted::alive > 0;
    cudaGraphLaunch(runs, stream);
    cudaGraphLaunch(runs, stream);
    cudaStreamSynchronize(stream);
    cudaGraphExecDestroy(runs);
    cudaGraphDestroy(graph);
    bool is_right = true;
    for (int i = 0; i < 32; i++) {
        float once = 2.0f * (float)i + (float)(i % 8) + 1.5f;
        is_right = is_right && x[i] == 2 * once + (float)(i % 8) + 1.5f;
    }
    cudaStreamDestroy(stream);
    cudaFree(x);
    printf(is_kept && Counted::alive == 0 && is_right ? "ok\n" : "wrong: %d alive, %d\n", Counted::alive,
           is_right);
}
