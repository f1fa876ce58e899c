/* The functions of cublas.h: letters for what cublas_v2.h has as enumerations, scalars by their values,
 * results returned, and the status kept for cublasGetError(). cuBLAS Library documentation, "Using the cuBLAS
 * Legacy API". */
#pragma once

typedef cublasStatus_t cublasStatus;

struct sim_first_cublas {
    cublasContext *handle;
    cublasStatus_t status;
};
inline sim_first_cublas &sim_first() {
    static sim_first_cublas first{};
    return first;
}
inline cublasStatus_t sim_first_is(cublasStatus_t status) {
    if (status)
        sim_first().status = status;
    return status;
}
inline cublasStatus_t cublasInit() {
    return sim_first().handle ? CUBLAS_STATUS_SUCCESS : cublasCreate(&sim_first().handle);
}
inline cublasStatus_t cublasShutdown() {
    cublasDestroy(sim_first().handle);
    sim_first().handle = 0;
    return CUBLAS_STATUS_SUCCESS;
}
inline cublasStatus_t cublasGetError() {
    return std::exchange(sim_first().status, CUBLAS_STATUS_SUCCESS);
}
inline cublasStatus_t cublasSetKernelStream(cudaStream_t stream) {
    cublasContext *handle = sim_first().handle;
    return sim_first_is(handle ? cublasSetStream(handle, stream) : CUBLAS_STATUS_NOT_INITIALIZED);
}
template <class T> cublasStatus_t cublasAlloc(int count, int bytes, T **memory, SIM_CALLED) {
    bool failed =
        cudaMalloc((void **)memory, (size_t)count * bytes, "memory of cublasAlloc()", sim_file, sim_line);
    return sim_first_is(failed ? CUBLAS_STATUS_ALLOC_FAILED : CUBLAS_STATUS_SUCCESS);
}
SIM_HOST cublasStatus_t cublasFree(const void *memory, SIM_CALLED) {
    return sim_first_is(sim_copied(cudaFree((void *)memory, sim_file, sim_line)));
}

inline bool sim_means(char letter, cublasOperation_t *value) {
    *value = letter == 'n' || letter == 'N'   ? CUBLAS_OP_N
             : letter == 't' || letter == 'T' ? CUBLAS_OP_T
                                              : CUBLAS_OP_C;
    return *value != CUBLAS_OP_C || letter == 'c' || letter == 'C';
}
inline bool sim_means(char letter, cublasFillMode_t *value) {
    *value = letter == 'l' || letter == 'L' ? CUBLAS_FILL_MODE_LOWER : CUBLAS_FILL_MODE_UPPER;
    return *value == CUBLAS_FILL_MODE_LOWER || letter == 'u' || letter == 'U';
}
inline bool sim_means(char letter, cublasSideMode_t *value) {
    *value = letter == 'l' || letter == 'L' ? CUBLAS_SIDE_LEFT : CUBLAS_SIDE_RIGHT;
    return *value == CUBLAS_SIDE_LEFT || letter == 'r' || letter == 'R';
}
inline bool sim_means(char letter, cublasDiagType_t *value) {
    *value = letter == 'u' || letter == 'U' ? CUBLAS_DIAG_UNIT : CUBLAS_DIAG_NON_UNIT;
    return *value == CUBLAS_DIAG_UNIT || letter == 'n' || letter == 'N';
}

/* An argument as cublas_v2.h wants it. */
template <class P> struct sim_of_first {
    P value;
    bool is_right = true;
    template <class G> sim_of_first(G given) {
        if constexpr (std::is_enum_v<P>)
            is_right = sim_means((char)given, &value);
        else
            value = given;
    }
};
template <class T> struct sim_of_first<const T *> {
    T scalar{};
    const T *value;
    bool is_right = true;
    sim_of_first(const sim_of_first &) = delete; /* value may be the scalar's address */
    template <class G> sim_of_first(G given) {
        if constexpr (std::is_convertible_v<G, const T *> && !std::is_arithmetic_v<G>) {
            value = given;
        } else {
            scalar = (T)given;
            value = &scalar;
        }
    }
};
template <class... P> struct sim_first_call {
    cublasStatus_t (*function)(cublasHandle_t, P...);
    constexpr sim_first_call(cublasStatus_t (*of)(cublasHandle_t, P...)) : function(of) {}
    void operator()(sim_of_first<P>... a) const {
        bool are_right = (a.is_right && ...);
        sim_first_is(are_right ? function(sim_first().handle, a.value...) : CUBLAS_STATUS_INVALID_VALUE);
    }
};
/* The last parameter of `function` is where it writes its result. */
template <class R, class F> struct sim_first_result {
    F function;
    template <class... A> R operator()(A... a) const {
        R result{};
        sim_first_is(function(sim_first().handle, a..., &result));
        return result;
    }
};
template <class... P>
constexpr sim_first_call<P...> sim_by_name(cublasStatus_t (*function)(cublasHandle_t, P...)) {
    return function;
}
template <class R, class F> constexpr sim_first_result<R, F> sim_telling(F function) {
    return {function};
}
