/* Transforms of what files have, to others: each is file, file, type, batch, in place (i), stretched (s) or
 * neither (o), sizes, and "," is between them. */
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <cufft.h>
#include <map>
#include <string>
#include <vector>

#define TRY(call)                                                                                            \
    if (int error = (int)(call)) {                                                                           \
        printf("line %d: %d\n", __LINE__, error);                                                            \
        exit(1);                                                                                             \
    }

static int transform(int argc, char **argv) {
    std::map<std::string, cufftType> types = {{"C2C", CUFFT_C2C}, {"Z2Z", CUFFT_Z2Z}, {"R2C", CUFFT_R2C},
                                              {"D2Z", CUFFT_D2Z}, {"C2R", CUFFT_C2R}, {"Z2D", CUFFT_Z2D}};
    cufftType type = types[argv[2]];
    int batch = atoi(argv[3]), rank = argc - 5, n[3], in_sizes[3], out_sizes[3];
    char how = argv[4][0];
    long ins = 1,
         outs = 1; /* elements of one transform, of which a complex one of these types has a half more */
    for (int i = 0; i < rank; i++) {
        n[i] = atoi(argv[5 + i]);
        bool is_last = i == rank - 1;
        int half = n[i] / 2 + 1;
        in_sizes[i] = is_last && (type == CUFFT_C2R || type == CUFFT_Z2D) ? half : n[i];
        out_sizes[i] = is_last && (type == CUFFT_R2C || type == CUFFT_D2Z) ? half : n[i];
        if (is_last && how == 'i' && (type == CUFFT_R2C || type == CUFFT_D2Z))
            in_sizes[i] = 2 * half;
        if (is_last && how == 'i' && (type == CUFFT_C2R || type == CUFFT_Z2D))
            out_sizes[i] = 2 * half;
        ins *= in_sizes[i];
        outs *= out_sizes[i];
    }
    int step = how == 's' ? 3 : 1;
    size_t size = type == CUFFT_Z2Z || type == CUFFT_D2Z || type == CUFFT_Z2D ? 8 : 4;
    size_t size_in = size * (type == CUFFT_R2C || type == CUFFT_D2Z ? 1 : 2) * step * batch * ins;
    size_t size_out = size * (type == CUFFT_C2R || type == CUFFT_Z2D ? 1 : 2) * step * batch * outs;
    std::vector<char> host(size_in), result(size_out);
    FILE *file = fopen(argv[0], "rb");
    if (!file || fread(host.data(), 1, size_in, file) != size_in)
        return 2;
    fclose(file);
    void *in, *out;
    TRY(cudaMalloc(&in, size_in));
    TRY(cudaMemcpy(in, host.data(), size_in, cudaMemcpyHostToDevice));
    if (how == 'i')
        out = in;
    else {
        TRY(cudaMalloc(&out, size_out));
        TRY(cudaMemset(out, 0, size_out));
    }
    cufftHandle plan;
    if (how == 's') {
        TRY(cufftPlanMany(&plan, rank, n, in_sizes, step, step * ins, out_sizes, step, step * outs, type,
                          batch));
    } else if (rank == 1) {
        TRY(cufftPlan1d(&plan, n[0], type, batch));
    } else if (rank == 2) {
        TRY(cufftPlan2d(&plan, n[0], n[1], type));
    } else {
        TRY(cufftPlan3d(&plan, n[0], n[1], n[2], type));
    }
    cudaStream_t stream;
    TRY(cudaStreamCreate(&stream));
    TRY(cufftSetStream(plan, stream));
    switch (type) {
    case CUFFT_C2C:
        TRY(cufftExecC2C(plan, (cufftComplex *)in, (cufftComplex *)out, CUFFT_INVERSE));
        break;
    case CUFFT_Z2Z:
        TRY(cufftExecZ2Z(plan, (cufftDoubleComplex *)in, (cufftDoubleComplex *)out, CUFFT_FORWARD));
        break;
    case CUFFT_R2C:
        TRY(cufftExecR2C(plan, (cufftReal *)in, (cufftComplex *)out));
        break;
    case CUFFT_D2Z:
        TRY(cufftExecD2Z(plan, (cufftDoubleReal *)in, (cufftDoubleComplex *)out));
        break;
    case CUFFT_C2R:
        TRY(cufftExecC2R(plan, (cufftComplex *)in, (cufftReal *)out));
        break;
    case CUFFT_Z2D:
        TRY(cufftExecZ2D(plan, (cufftDoubleComplex *)in, (cufftDoubleReal *)out));
    }
    if (cufftExecC2C(plan + 1, 0, 0, CUFFT_FORWARD) != CUFFT_INVALID_PLAN)
        return 3;
    TRY(cudaStreamSynchronize(stream));
    TRY(cudaMemcpy(result.data(), out, size_out, cudaMemcpyDeviceToHost));
    file = fopen(argv[1], "wb");
    fwrite(result.data(), 1, size_out, file);
    fclose(file);
    TRY(cufftDestroy(plan));
    TRY(cudaStreamDestroy(stream));
    TRY(cudaFree(in));
    if (how != 'i')
        TRY(cudaFree(out));
    return 0;
}

int main(int argc, char **argv) {
    for (int first = 1, last; first < argc; first = last + 1) {
        for (last = first; last < argc && strcmp(argv[last], ",") != 0; last++)
            ;
        if (int wrong = transform(last - first, argv + first))
            return wrong;
    }
}
