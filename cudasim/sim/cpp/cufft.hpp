/* cuFFT for programs: transforms of one to three dimensions in float and double, by fourier.hpp, which
 * computes in doubles and rounds once. cuFFT Library documentation. Not supported: 16-bit floats, callbacks,
 * several GPUs. */
#pragma once
#include "fourier.hpp"
#include "library_work.hpp"
#include <mutex>

#define CUFFT_VERSION 12000
#define CUFFT_FORWARD -1
#define CUFFT_INVERSE 1

enum cufftResult_t {
    CUFFT_SUCCESS = 0,
    CUFFT_INVALID_PLAN = 1,
    CUFFT_ALLOC_FAILED = 2,
    CUFFT_INVALID_TYPE = 3,
    CUFFT_INVALID_VALUE = 4,
    CUFFT_INTERNAL_ERROR = 5,
    CUFFT_EXEC_FAILED = 6,
    CUFFT_SETUP_FAILED = 7,
    CUFFT_INVALID_SIZE = 8,
    CUFFT_UNALIGNED_DATA = 9,
    CUFFT_INCOMPLETE_PARAMETER_LIST = 10,
    CUFFT_INVALID_DEVICE = 11,
    CUFFT_PARSE_ERROR = 12,
    CUFFT_NO_WORKSPACE = 13,
    CUFFT_NOT_IMPLEMENTED = 14,
    CUFFT_LICENSE_ERROR = 15,
    CUFFT_NOT_SUPPORTED = 16
};
typedef cufftResult_t cufftResult;
enum cufftType_t {
    CUFFT_R2C = 0x2a,
    CUFFT_C2R = 0x2c,
    CUFFT_C2C = 0x29,
    CUFFT_D2Z = 0x6a,
    CUFFT_Z2D = 0x6c,
    CUFFT_Z2Z = 0x69
};
typedef cufftType_t cufftType;

struct sim_fft_plan {
    bool is_made;
    int rank;
    long long n[3], batch;
    /* The layout of elements on each side: their distances, and the sizes of the array around them. */
    struct side {
        long long sizes[3], stride, distance;
    } in, out;
    bool is_plain; /* as sizes say, so that it depends on whether both sides are the same memory */
    cufftType type;
    cudaStream_t stream;

    bool from_real() const {
        return type == CUFFT_R2C || type == CUFFT_D2Z;
    }
    bool to_real() const {
        return type == CUFFT_C2R || type == CUFFT_Z2D;
    }
    bool is_double() const {
        return type == CUFFT_D2Z || type == CUFFT_Z2D || type == CUFFT_Z2Z;
    }
    side plain(bool is_real, bool is_in_place) const {
        side of = {{n[0], n[1], n[2]}, 1, 1};
        if (from_real() || to_real())
            of.sizes[rank - 1] = !is_real      ? n[rank - 1] / 2 + 1
                                 : is_in_place ? 2 * (n[rank - 1] / 2 + 1)
                                               : n[rank - 1];
        for (int i = 0; i < rank; i++)
            of.distance *= of.sizes[i];
        return of;
    }
};
/* Handles count from 1. */
struct sim_fft_plans {
    std::mutex mutex;
    std::vector<std::unique_ptr<sim_fft_plan>> all;
};
inline sim_fft_plans &sim_fft_all() {
    static sim_fft_plans plans;
    return plans;
}
inline sim_fft_plan *sim_fft_of(cufftHandle handle) {
    sim_fft_plans &plans = sim_fft_all();
    std::lock_guard<std::mutex> lock(plans.mutex);
    return handle > 0 && (size_t)handle <= plans.all.size() ? plans.all[handle - 1].get() : 0;
}

/* ---- What is computed ---- */

/* The place of each element of one transform, in the order of its indices; last: the innermost one. */
template <class F>
void sim_fft_each(const sim_fft_plan &plan, const sim_fft_plan::side &side, long long last, F f) {
    long long sizes[3] = {1, 1, 1}, of[3] = {1, 1, 1};
    for (int i = 0; i < plan.rank; i++) {
        sizes[3 - plan.rank + i] = i == plan.rank - 1 ? last : plan.n[i];
        of[3 - plan.rank + i] = side.sizes[i];
    }
    size_t i = 0;
    for (long long x = 0; x < sizes[0]; x++)
        for (long long y = 0; y < sizes[1]; y++)
            for (long long z = 0; z < sizes[2]; z++)
                f(i++, ((x * of[1] + y) * of[2] + z) * side.stride);
}
/* Transforms along one dimension of an array, where elements are `stride` apart. */
inline void sim_fft_along(const sim_fourier &fourier, std::vector<sim_complex> &a, size_t n, size_t stride) {
    std::vector<sim_complex> line(n);
    for (size_t begin = 0; begin < a.size(); begin += n * stride)
        for (size_t i = begin; i < begin + stride; i++) {
            fourier.run(&a[i], stride, line.data());
            for (size_t k = 0; k < n; k++)
                a[i + k * stride] = line[k];
        }
}
template <class R> void sim_fft_run(const sim_fft_plan &plan, const void *in, void *out, int direction) {
    cudaDataType real = sizeof(R) == 4 ? CUDA_R_32F : CUDA_R_64F;
    cudaDataType complex = sizeof(R) == 4 ? CUDA_C_32F : CUDA_C_64F;
    bool from_real = plan.from_real(), to_real = plan.to_real(), is_in_place = in == out;
    sim_fft_plan::side from = plan.is_plain ? plan.plain(from_real, is_in_place) : plan.in;
    sim_fft_plan::side to = plan.is_plain ? plan.plain(to_real, is_in_place) : plan.out;
    long long n = plan.n[plan.rank - 1], half = n / 2 + 1, lines = 1;
    std::vector<std::unique_ptr<sim_fourier>> fourier;
    for (int i = 0; i < plan.rank; i++) {
        fourier.emplace_back(new sim_fourier((size_t)plan.n[i], direction));
        lines *= i < plan.rank - 1 ? plan.n[i] : 1;
    }
    /* Reads everything before it writes, because both may be the same memory with different layouts. */
    std::vector<std::vector<sim_complex>> all((size_t)plan.batch);
    for (size_t b = 0; b < all.size(); b++) {
        std::vector<sim_complex> &a = all[b];
        a.resize((size_t)(lines * (to_real ? half : n)));
        sim_fft_each(plan, from, to_real ? half : n, [&](size_t i, long long place) {
            size_t at = (size_t)(place + (long long)b * from.distance);
            a[i] = from_real ? sim_read_as<double>(in, real, at) : sim_read_as<sim_complex>(in, complex, at);
        });
    }
    for (size_t b = 0; b < all.size(); b++) {
        std::vector<sim_complex> &a = all[b];
        size_t stride = (size_t)(to_real ? half : n);
        for (int i = plan.rank - 2; i >= 0; stride *= (size_t)plan.n[i--])
            sim_fft_along(*fourier[i], a, (size_t)plan.n[i], stride);
        if (to_real) { /* the other half is the first one's conjugate */
            std::vector<sim_complex> whole((size_t)(lines * n));
            for (long long line = 0; line < lines; line++)
                for (long long k = 0; k < half; k++) {
                    sim_complex value = a[line * half + k];
                    bool is_own = k == 0 || 2 * k == n;
                    whole[line * n + k] = is_own ? sim_complex(value.real()) : value;
                    if (!is_own)
                        whole[line * n + n - k] = conj(value);
                }
            a.swap(whole);
        }
        sim_fft_along(*fourier[plan.rank - 1], a, (size_t)n, 1);
        sim_fft_each(plan, to, from_real ? half : n, [&](size_t i, long long place) {
            size_t at = (size_t)(place + (long long)b * to.distance);
            size_t of = from_real ? i / half * n + i % half : i;
            if (to_real)
                sim_write_as(out, real, at, a[of].real());
            else
                sim_write_as(out, complex, at, a[of]);
        });
        std::vector<sim_complex>().swap(a);
    }
}
inline cufftResult sim_fft_exec(cufftHandle handle, cufftType type, const void *in, void *out,
                                int direction) {
    sim_fft_plan *plan = sim_fft_of(handle);
    if (!plan || !plan->is_made)
        return CUFFT_INVALID_PLAN;
    if (type != plan->type)
        return CUFFT_INVALID_TYPE;
    if (!in || !out || (direction != CUFFT_FORWARD && direction != CUFFT_INVERSE))
        return CUFFT_INVALID_VALUE;
    sim_library_work(plan->stream, [=, of = *plan] {
        if (of.is_double())
            sim_fft_run<double>(of, in, out, direction);
        else
            sim_fft_run<float>(of, in, out, direction);
    });
    return CUFFT_SUCCESS;
}

/* ---- Plans ---- */

inline cufftResult cufftCreate(cufftHandle *handle) {
    sim_fft_plans &plans = sim_fft_all();
    std::lock_guard<std::mutex> lock(plans.mutex);
    plans.all.emplace_back(new sim_fft_plan());
    *handle = (cufftHandle)plans.all.size();
    return CUFFT_SUCCESS;
}
inline cufftResult cufftDestroy(cufftHandle handle) {
    if (!sim_fft_of(handle))
        return CUFFT_INVALID_PLAN;
    sim_fft_all().all[handle - 1].reset();
    return CUFFT_SUCCESS;
}
template <class I>
cufftResult sim_fft_make(cufftHandle handle, int rank, const I *n, const I *inembed, long long istride,
                         long long idist, const I *onembed, long long ostride, long long odist,
                         cufftType type, long long batch, size_t *bytes) {
    sim_fft_plan *plan = sim_fft_of(handle);
    if (!plan || plan->is_made)
        return CUFFT_INVALID_PLAN;
    if (type != CUFFT_C2C && type != CUFFT_Z2Z && type != CUFFT_R2C && type != CUFFT_C2R &&
        type != CUFFT_D2Z && type != CUFFT_Z2D)
        return CUFFT_INVALID_TYPE;
    if (rank < 1 || rank > 3 || !n)
        return CUFFT_INVALID_VALUE;
    *plan = {true, rank, {1, 1, 1}, batch, {}, {}, !inembed || !onembed, type, plan->stream};
    plan->in = {{1, 1, 1}, istride, idist};
    plan->out = {{1, 1, 1}, ostride, odist};
    size_t elements = (size_t)batch;
    for (int i = 0; i < rank; i++) {
        if (n[i] < 1 || batch < 1) {
            plan->is_made = false;
            return CUFFT_INVALID_SIZE;
        }
        plan->n[i] = n[i];
        elements *= (size_t)n[i];
        if (!plan->is_plain)
            plan->in.sizes[i] = inembed[i], plan->out.sizes[i] = onembed[i];
    }
    if (bytes) /* which nothing here needs; a GPU's is about as large */
        *bytes = elements * (plan->is_double() ? 16 : 8);
    return CUFFT_SUCCESS;
}
inline cufftResult cufftMakePlanMany(cufftHandle handle, int rank, int *n, int *inembed, int istride,
                                     int idist, int *onembed, int ostride, int odist, cufftType type,
                                     int batch, size_t *bytes) {
    return sim_fft_make(handle, rank, n, inembed, istride, idist, onembed, ostride, odist, type, batch,
                        bytes);
}
inline cufftResult cufftMakePlanMany64(cufftHandle handle, int rank, long long *n, long long *inembed,
                                       long long istride, long long idist, long long *onembed,
                                       long long ostride, long long odist, cufftType type, long long batch,
                                       size_t *bytes) {
    return sim_fft_make(handle, rank, n, inembed, istride, idist, onembed, ostride, odist, type, batch,
                        bytes);
}
inline cufftResult cufftMakePlan1d(cufftHandle handle, int nx, cufftType type, int batch, size_t *bytes) {
    return cufftMakePlanMany(handle, 1, &nx, 0, 1, 0, 0, 1, 0, type, batch, bytes);
}
inline cufftResult cufftMakePlan2d(cufftHandle handle, int nx, int ny, cufftType type, size_t *bytes) {
    int n[] = {nx, ny};
    return cufftMakePlanMany(handle, 2, n, 0, 1, 0, 0, 1, 0, type, 1, bytes);
}
inline cufftResult cufftMakePlan3d(cufftHandle handle, int nx, int ny, int nz, cufftType type,
                                   size_t *bytes) {
    int n[] = {nx, ny, nz};
    return cufftMakePlanMany(handle, 3, n, 0, 1, 0, 0, 1, 0, type, 1, bytes);
}
/* Makes a plan at once, or none if that fails. */
template <class F> cufftResult sim_fft_planned(cufftHandle *handle, F make) {
    cufftHandle made;
    cufftCreate(&made);
    cufftResult result = make(made);
    if (result == CUFFT_SUCCESS)
        *handle = made;
    else
        cufftDestroy(made);
    return result;
}
inline cufftResult cufftPlanMany(cufftHandle *handle, int rank, int *n, int *inembed, int istride, int idist,
                                 int *onembed, int ostride, int odist, cufftType type, int batch) {
    return sim_fft_planned(handle, [=](cufftHandle made) {
        return cufftMakePlanMany(made, rank, n, inembed, istride, idist, onembed, ostride, odist, type, batch,
                                 0);
    });
}
inline cufftResult cufftPlan1d(cufftHandle *handle, int nx, cufftType type, int batch) {
    return sim_fft_planned(handle,
                           [=](cufftHandle made) { return cufftMakePlan1d(made, nx, type, batch, 0); });
}
inline cufftResult cufftPlan2d(cufftHandle *handle, int nx, int ny, cufftType type) {
    return sim_fft_planned(handle, [=](cufftHandle made) { return cufftMakePlan2d(made, nx, ny, type, 0); });
}
inline cufftResult cufftPlan3d(cufftHandle *handle, int nx, int ny, int nz, cufftType type) {
    return sim_fft_planned(handle,
                           [=](cufftHandle made) { return cufftMakePlan3d(made, nx, ny, nz, type, 0); });
}
inline cufftResult cufftSetStream(cufftHandle handle, cudaStream_t stream) {
    sim_fft_plan *plan = sim_fft_of(handle);
    if (!plan)
        return CUFFT_INVALID_PLAN;
    return plan->stream = stream, CUFFT_SUCCESS;
}
inline cufftResult cufftGetSize(cufftHandle handle, size_t *bytes) {
    sim_fft_plan *plan = sim_fft_of(handle);
    if (!plan || !plan->is_made)
        return CUFFT_INVALID_PLAN;
    *bytes = (size_t)(plan->n[0] * plan->n[1] * plan->n[2] * plan->batch) * (plan->is_double() ? 16 : 8);
    return CUFFT_SUCCESS;
}
/* Transforms need no memory from the program here. */
inline cufftResult cufftSetWorkArea(cufftHandle handle, void *) {
    return sim_fft_of(handle) ? CUFFT_SUCCESS : CUFFT_INVALID_PLAN;
}
inline cufftResult cufftSetAutoAllocation(cufftHandle handle, int) {
    return sim_fft_of(handle) ? CUFFT_SUCCESS : CUFFT_INVALID_PLAN;
}
inline cufftResult cufftGetVersion(int *version) {
    return *version = CUFFT_VERSION, CUFFT_SUCCESS;
}
template <class F> cufftResult sim_fft_estimate(F make) {
    cufftHandle handle;
    cufftResult result = sim_fft_planned(&handle, make);
    if (result == CUFFT_SUCCESS)
        cufftDestroy(handle);
    return result;
}
inline cufftResult cufftEstimate1d(int nx, cufftType type, int batch, size_t *bytes) {
    return sim_fft_estimate([=](cufftHandle made) { return cufftMakePlan1d(made, nx, type, batch, bytes); });
}
inline cufftResult cufftEstimate2d(int nx, int ny, cufftType type, size_t *bytes) {
    return sim_fft_estimate([=](cufftHandle made) { return cufftMakePlan2d(made, nx, ny, type, bytes); });
}
inline cufftResult cufftEstimate3d(int nx, int ny, int nz, cufftType type, size_t *bytes) {
    return sim_fft_estimate([=](cufftHandle made) { return cufftMakePlan3d(made, nx, ny, nz, type, bytes); });
}
inline cufftResult cufftEstimateMany(int rank, int *n, int *inembed, int istride, int idist, int *onembed,
                                     int ostride, int odist, cufftType type, int batch, size_t *bytes) {
    return sim_fft_estimate([=](cufftHandle made) {
        return cufftMakePlanMany(made, rank, n, inembed, istride, idist, onembed, ostride, odist, type, batch,
                                 bytes);
    });
}

/* ---- Transforms ---- */

inline cufftResult cufftExecC2C(cufftHandle plan, cufftComplex *in, cufftComplex *out, int direction) {
    return sim_fft_exec(plan, CUFFT_C2C, in, out, direction);
}
inline cufftResult cufftExecZ2Z(cufftHandle plan, cufftDoubleComplex *in, cufftDoubleComplex *out,
                                int direction) {
    return sim_fft_exec(plan, CUFFT_Z2Z, in, out, direction);
}
inline cufftResult cufftExecR2C(cufftHandle plan, cufftReal *in, cufftComplex *out) {
    return sim_fft_exec(plan, CUFFT_R2C, in, out, CUFFT_FORWARD);
}
inline cufftResult cufftExecD2Z(cufftHandle plan, cufftDoubleReal *in, cufftDoubleComplex *out) {
    return sim_fft_exec(plan, CUFFT_D2Z, in, out, CUFFT_FORWARD);
}
inline cufftResult cufftExecC2R(cufftHandle plan, cufftComplex *in, cufftReal *out) {
    return sim_fft_exec(plan, CUFFT_C2R, in, out, CUFFT_INVERSE);
}
inline cufftResult cufftExecZ2D(cufftHandle plan, cufftDoubleComplex *in, cufftDoubleReal *out) {
    return sim_fft_exec(plan, CUFFT_Z2D, in, out, CUFFT_INVERSE);
}

/* ---- By type; and what is refused ---- */

inline cufftResult cufftXtMakePlanMany(cufftHandle handle, int rank, long long *n, long long *inembed,
                                       long long istride, long long idist, cudaDataType in,
                                       long long *onembed, long long ostride, long long odist,
                                       cudaDataType out, long long batch, size_t *bytes, cudaDataType) {
    static const struct {
        cudaDataType in, out;
        cufftType type;
    } types[] = {{CUDA_C_32F, CUDA_C_32F, CUFFT_C2C}, {CUDA_R_32F, CUDA_C_32F, CUFFT_R2C},
                 {CUDA_C_32F, CUDA_R_32F, CUFFT_C2R}, {CUDA_C_64F, CUDA_C_64F, CUFFT_Z2Z},
                 {CUDA_R_64F, CUDA_C_64F, CUFFT_D2Z}, {CUDA_C_64F, CUDA_R_64F, CUFFT_Z2D}};
    for (auto of : types)
        if (of.in == in && of.out == out)
            return sim_fft_make(handle, rank, n, inembed, istride, idist, onembed, ostride, odist, of.type,
                                batch, bytes);
    sim_library_lacks("cufftXtMakePlanMany", "transform from numbers of the type", in);
    return CUFFT_NOT_SUPPORTED;
}
inline cufftResult cufftXtExec(cufftHandle handle, void *in, void *out, int direction) {
    sim_fft_plan *plan = sim_fft_of(handle);
    if (!plan)
        return CUFFT_INVALID_PLAN;
    int only = plan->from_real() ? CUFFT_FORWARD : plan->to_real() ? CUFFT_INVERSE : direction;
    return sim_fft_exec(handle, plan->type, in, out, only);
}

enum cufftXtSubFormat {
    CUFFT_XT_FORMAT_INPUT,
    CUFFT_XT_FORMAT_OUTPUT,
    CUFFT_XT_FORMAT_INPLACE,
    CUFFT_XT_FORMAT_INPLACE_SHUFFLED,
    CUFFT_XT_FORMAT_1D_INPUT_SHUFFLED
};
enum cufftXtCopyType { CUFFT_COPY_HOST_TO_DEVICE, CUFFT_COPY_DEVICE_TO_HOST, CUFFT_COPY_DEVICE_TO_DEVICE };
enum cufftXtCallbackType {
    CUFFT_CB_LD_COMPLEX,
    CUFFT_CB_LD_COMPLEX_DOUBLE,
    CUFFT_CB_LD_REAL,
    CUFFT_CB_LD_REAL_DOUBLE,
    CUFFT_CB_ST_COMPLEX,
    CUFFT_CB_ST_COMPLEX_DOUBLE,
    CUFFT_CB_ST_REAL,
    CUFFT_CB_ST_REAL_DOUBLE
};
typedef struct cudaXtDesc_t cudaXtDesc;
struct cudaLibXtDesc {
    int version;
    cudaXtDesc *descriptor;
    int library, subFormat;
    void *libDescriptor;
};
typedef cufftComplex (*cufftCallbackLoadC)(void *, size_t, void *, void *);
typedef cufftDoubleComplex (*cufftCallbackLoadZ)(void *, size_t, void *, void *);
typedef cufftReal (*cufftCallbackLoadR)(void *, size_t, void *, void *);
typedef cufftDoubleReal (*cufftCallbackLoadD)(void *, size_t, void *, void *);
typedef void (*cufftCallbackStoreC)(void *, size_t, cufftComplex, void *, void *);
typedef void (*cufftCallbackStoreZ)(void *, size_t, cufftDoubleComplex, void *, void *);
typedef void (*cufftCallbackStoreR)(void *, size_t, cufftReal, void *, void *);
typedef void (*cufftCallbackStoreD)(void *, size_t, cufftDoubleReal, void *, void *);
#define SIM_MISSING_FFT(name) SIM_MISSING(cufftResult, cufft##name)
SIM_MISSING_FFT(GetProperty)
SIM_MISSING_FFT(GetSize1d)
SIM_MISSING_FFT(GetSize2d)
SIM_MISSING_FFT(GetSize3d)
SIM_MISSING_FFT(GetSizeMany)
SIM_MISSING_FFT(GetSizeMany64)
SIM_MISSING_FFT(SetCompatibilityMode)
SIM_MISSING_FFT(SetPlanPropertyInt64)
SIM_MISSING_FFT(GetPlanPropertyInt64)
SIM_MISSING_FFT(ResetPlanProperty)
SIM_MISSING_FFT(XtGetSizeMany)
SIM_MISSING_FFT(XtSetGPUs)
SIM_MISSING_FFT(XtMalloc)
SIM_MISSING_FFT(XtMemcpy)
SIM_MISSING_FFT(XtFree)
SIM_MISSING_FFT(XtSetWorkArea)
SIM_MISSING_FFT(XtSetWorkAreaPolicy)
SIM_MISSING_FFT(XtSetDistribution)
SIM_MISSING_FFT(XtQueryPlan)
SIM_MISSING_FFT(XtExecDescriptor)
SIM_MISSING_FFT(XtExecDescriptorC2C)
SIM_MISSING_FFT(XtExecDescriptorR2C)
SIM_MISSING_FFT(XtExecDescriptorC2R)
SIM_MISSING_FFT(XtExecDescriptorZ2Z)
SIM_MISSING_FFT(XtExecDescriptorD2Z)
SIM_MISSING_FFT(XtExecDescriptorZ2D)
SIM_MISSING_FFT(XtSetCallback)
SIM_MISSING_FFT(XtSetJITCallback)
SIM_MISSING_FFT(XtClearCallback)
SIM_MISSING_FFT(XtSetCallbackSharedSize)
