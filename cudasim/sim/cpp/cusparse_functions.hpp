/* What cuSPARSE computes, for cusparse.hpp. */
#pragma once
#include "cusparse.hpp"

/* ---- Elements ---- */

inline int64_t sim_index(const void *from, cusparseIndexType_t type, int64_t i) {
    return type == CUSPARSE_INDEX_32I ? ((const int *)from)[i] : ((const int64_t *)from)[i];
}
inline void sim_set_index(void *to, cusparseIndexType_t type, int64_t i, int64_t value) {
    if (type == CUSPARSE_INDEX_32I)
        ((int *)to)[i] = (int)value;
    else
        ((int64_t *)to)[i] = value;
    size_t bytes = type == CUSPARSE_INDEX_32I ? 4 : 8;
    sim_memory_is_written((char *)to + (size_t)i * bytes, bytes);
}
inline double sim_conjugate_of(double a) {
    return a;
}
inline std::complex<double> sim_conjugate_of(std::complex<double> a) {
    return std::conj(a);
}
/* offsets: from 0, one more than there are lines. */
inline void sim_set_offsets(const cusparseSpMatDescr &to, const std::vector<int64_t> &offsets) {
    for (size_t i = 0; i < offsets.size(); i++)
        sim_set_index(to.offsets, to.offset, (int64_t)i, offsets[i] + to.base);
}
/* Calls f(row, column, place) for each stored element, by rows or columns as the format has them. */
template <class F> void sim_sparse_each(const cusparseSpMatDescr &a, int batch, F f) {
    int64_t first = batch * a.offsets_apart, begins = batch * a.values_apart;
    if (a.format == CUSPARSE_FORMAT_COO) {
        for (int64_t i = begins; i < begins + a.nnz; i++)
            f(sim_index(a.offsets, a.offset, i) - a.base, sim_index(a.indices, a.index, i) - a.base, i);
        return;
    }
    bool by_rows = a.format == CUSPARSE_FORMAT_CSR;
    for (int64_t line = 0; line < (by_rows ? a.rows : a.columns); line++) {
        int64_t end = sim_index(a.offsets, a.offset, first + line + 1) - a.base;
        for (int64_t i = sim_index(a.offsets, a.offset, first + line) - a.base; i < end; i++) {
            int64_t other = sim_index(a.indices, a.index, begins + i) - a.base;
            f(by_rows ? line : other, by_rows ? other : line, begins + i);
        }
    }
}
inline size_t sim_place(const cusparseDnMatDescr &a, int batch, int64_t row, int64_t column) {
    return (size_t)(batch * a.apart +
                    (a.order == CUSPARSE_ORDER_COL ? row + column * a.ld : row * a.ld + column));
}
template <class W>
W sim_sparse_operand(const cusparseDnMatDescr &a, int batch, cusparseOperation_t op, int64_t row,
                     int64_t column) {
    if (op == CUSPARSE_OPERATION_NON_TRANSPOSE)
        return sim_read_as<W>(a.values, a.type, sim_place(a, batch, row, column));
    W value = sim_read_as<W>(a.values, a.type, sim_place(a, batch, column, row));
    return op == CUSPARSE_OPERATION_TRANSPOSE ? value : sim_conjugate_of(value);
}
/* alpha or beta, which is read at the call where the host has it. */
template <class W> struct sim_sparse_scalar {
    const void *at;
    cudaDataType type;
    W value;
    sim_sparse_scalar(cusparseHandle_t handle, const void *from, cudaDataType type)
        : at(handle->mode == CUSPARSE_POINTER_MODE_DEVICE ? from : 0), type(type),
          value(at ? W() : sim_read_as<W>(from, type, 0)) {}
    W get() const {
        return at ? sim_read_as<W>(at, type, 0) : value;
    }
};
/* Calls f with a zero of the type to compute in. */
template <class F> void sim_sparse_in(cudaDataType compute, F f) {
    if (compute == CUDA_C_32F || compute == CUDA_C_64F)
        f(std::complex<double>());
    else
        f(0.0);
}
/* An operand that is complex wants a result that is. */
inline bool sim_sparse_fits(const char *function, cudaDataType compute, cudaDataType of) {
    bool is_complex = of == CUDA_C_32F || of == CUDA_C_64F;
    if (compute != CUDA_R_32F && compute != CUDA_R_64F && compute != CUDA_C_32F && compute != CUDA_C_64F)
        return sim_library_lacks(function, "computing in the type", compute), false;
    if (is_complex != (compute == CUDA_C_32F || compute == CUDA_C_64F))
        return sim_library_lacks(function, "product with a value of the type", of), false;
    return true;
}
inline bool sim_sparse_fit(const char *function, cudaDataType compute,
                           std::initializer_list<cudaDataType> of) {
    return std::all_of(of.begin(), of.end(),
                       [=](auto one) { return sim_sparse_fits(function, compute, one); });
}
/* values[at] = scale sum + rest values[at], which is read only where it counts. */
template <class W> void sim_sparse_store(void *values, cudaDataType type, size_t at, W scale, W sum, W rest) {
    sum *= scale;
    if (rest != W())
        sum += rest * sim_read_as<W>(values, type, at);
    sim_write_as(values, type, at, sum);
}

/* ---- Products ---- */

inline cusparseStatus_t sim_sparse_product(const char *function, cusparseHandle_t handle,
                                           cusparseOperation_t opa, cusparseOperation_t opb,
                                           const void *alpha, const cusparseSpMatDescr &a,
                                           const cusparseDnMatDescr &b, const void *beta,
                                           const cusparseDnMatDescr &c, cudaDataType compute) {
    if (!handle)
        return CUSPARSE_STATUS_NOT_INITIALIZED;
    if (!sim_sparse_fit(function, compute, {a.type, b.type, c.type}))
        return CUSPARSE_STATUS_NOT_SUPPORTED;
    bool is_turned = opa != CUSPARSE_OPERATION_NON_TRANSPOSE,
         is_b_turned = opb != CUSPARSE_OPERATION_NON_TRANSPOSE;
    if (c.rows != (is_turned ? a.columns : a.rows) ||
        (is_b_turned ? b.columns : b.rows) != (is_turned ? a.rows : a.columns) ||
        c.columns != (is_b_turned ? b.rows : b.columns))
        return CUSPARSE_STATUS_INVALID_VALUE;
    sim_sparse_in(compute, [&](auto zero) {
        using W = decltype(zero);
        sim_sparse_scalar<W> by(handle, alpha, compute), before(handle, beta, compute);
        sim_library_work(handle->stream, [=] {
            for (int batch = 0; batch < c.count; batch++) {
                std::vector<W> sums((size_t)(c.rows * c.columns));
                sim_sparse_each(a, a.count > 1 ? batch : 0, [&](int64_t row, int64_t column, int64_t i) {
                    W value = sim_read_as<W>(a.values, a.type, (size_t)i);
                    if (is_turned)
                        std::swap(row, column);
                    if (opa == CUSPARSE_OPERATION_CONJUGATE_TRANSPOSE)
                        value = sim_conjugate_of(value);
                    for (int64_t j = 0; j < c.columns; j++)
                        sums[(size_t)(row * c.columns + j)] +=
                            value * sim_sparse_operand<W>(b, b.count > 1 ? batch : 0, opb, column, j);
                });
                W scale = by.get(), rest = before.get();
                for (int64_t row = 0; row < c.rows; row++)
                    for (int64_t j = 0; j < c.columns; j++)
                        sim_sparse_store(c.values, c.type, sim_place(c, batch, row, j), scale,
                                         sums[(size_t)(row * c.columns + j)], rest);
            }
        });
    });
    return CUSPARSE_STATUS_SUCCESS;
}
inline cusparseStatus_t cusparseSpMV(cusparseHandle_t handle, cusparseOperation_t op, const void *alpha,
                                     cusparseConstSpMatDescr_t a, cusparseConstDnVecDescr_t x,
                                     const void *beta, cusparseDnVecDescr_t y, cudaDataType compute,
                                     cusparseSpMVAlg_t, void *) {
    return sim_sparse_product(__func__, handle, op, CUSPARSE_OPERATION_NON_TRANSPOSE, alpha, *a, *x, beta, *y,
                              compute);
}
inline cusparseStatus_t cusparseSpMM(cusparseHandle_t handle, cusparseOperation_t opa,
                                     cusparseOperation_t opb, const void *alpha, cusparseConstSpMatDescr_t a,
                                     cusparseConstDnMatDescr_t b, const void *beta, cusparseDnMatDescr_t c,
                                     cudaDataType compute, cusparseSpMMAlg_t, void *) {
    return sim_sparse_product(__func__, handle, opa, opb, alpha, *a, *b, beta, *c, compute);
}
inline constexpr auto cusparseSpMV_bufferSize = sim_asks_buffer_of(cusparseSpMV);
inline constexpr auto cusparseSpMV_preprocess = sim_ignores_as(cusparseSpMV);
inline constexpr auto cusparseSpMM_bufferSize = sim_asks_buffer_of(cusparseSpMM);

/* ---- Vectors ---- */

inline cusparseStatus_t cusparseAxpby(cusparseHandle_t handle, const void *alpha, cusparseConstSpVecDescr_t x,
                                      const void *beta, cusparseDnVecDescr_t y) {
    if (!handle)
        return CUSPARSE_STATUS_NOT_INITIALIZED;
    if (x->type != CUDA_R_32F && x->type != CUDA_R_64F && x->type != CUDA_C_32F && x->type != CUDA_C_64F)
        return sim_library_lacks(__func__, "values of the type", x->type), CUSPARSE_STATUS_NOT_SUPPORTED;
    if (x->size != y->rows || x->type != y->type)
        return CUSPARSE_STATUS_INVALID_VALUE;
    sim_sparse_in(x->type, [&](auto zero) {
        using W = decltype(zero);
        sim_sparse_scalar<W> by(handle, alpha, x->type), before(handle, beta, x->type);
        sim_library_work(handle->stream, [=, x = *x, y = (cusparseDnMatDescr)*y] {
            W scale = by.get(), rest = before.get();
            std::map<int64_t, W> added;
            for (int64_t i = 0; i < x.nnz; i++)
                added[sim_index(x.indices, x.index, i) - x.base] +=
                    scale * sim_read_as<W>(x.values, x.type, (size_t)i);
            auto next = added.begin();
            for (int64_t i = 0; i < y.rows; i++) {
                W sum = rest == W() ? W() : rest * sim_read_as<W>(y.values, y.type, (size_t)i);
                if (next != added.end() && next->first == i)
                    sum += next++->second;
                sim_write_as(y.values, y.type, (size_t)i, sum);
            }
        });
    });
    return CUSPARSE_STATUS_SUCCESS;
}
/* Copies elements of y to x (Gather) or back. */
inline cusparseStatus_t sim_sparse_copy(cusparseHandle_t handle, const cusparseSpVecDescr &x,
                                        const cusparseDnMatDescr &y, bool gathers) {
    if (!handle)
        return CUSPARSE_STATUS_NOT_INITIALIZED;
    if (x.type != y.type)
        return CUSPARSE_STATUS_INVALID_VALUE;
    sim_library_work(handle->stream, [=] {
        size_t bytes = sim_bytes_of(x.type);
        for (int64_t i = 0; i < x.nnz; i++) {
            char *of_x = (char *)x.values + (size_t)i * bytes;
            char *of_y = (char *)y.values + (size_t)(sim_index(x.indices, x.index, i) - x.base) * bytes;
            memcpy(gathers ? of_x : of_y, gathers ? of_y : of_x, bytes);
            sim_memory_is_written(gathers ? of_x : of_y, bytes);
        }
    });
    return CUSPARSE_STATUS_SUCCESS;
}
inline cusparseStatus_t cusparseGather(cusparseHandle_t handle, cusparseConstDnVecDescr_t y,
                                       cusparseSpVecDescr_t x) {
    return sim_sparse_copy(handle, *x, *y, true);
}
inline cusparseStatus_t cusparseScatter(cusparseHandle_t handle, cusparseConstSpVecDescr_t x,
                                        cusparseDnVecDescr_t y) {
    return sim_sparse_copy(handle, *x, *y, false);
}

/* ---- Dense from sparse ---- */

inline cusparseStatus_t cusparseSparseToDense(cusparseHandle_t handle, cusparseConstSpMatDescr_t a,
                                              cusparseDnMatDescr_t b, cusparseSparseToDenseAlg_t, void *) {
    if (!handle)
        return CUSPARSE_STATUS_NOT_INITIALIZED;
    if (a->rows != b->rows || a->columns != b->columns || a->type != b->type)
        return CUSPARSE_STATUS_INVALID_VALUE;
    sim_library_work(handle->stream, [a = *a, b = *b] {
        sim_sparse_in(a.type, [&](auto zero) {
            using W = decltype(zero);
            for (int64_t row = 0; row < b.rows; row++)
                for (int64_t column = 0; column < b.columns; column++)
                    sim_write_as(b.values, b.type, sim_place(b, 0, row, column), W());
            sim_sparse_each(a, 0, [&](int64_t row, int64_t column, int64_t i) {
                sim_write_as(b.values, b.type, sim_place(b, 0, row, column),
                             sim_read_as<W>(a.values, a.type, (size_t)i));
            });
        });
    });
    return CUSPARSE_STATUS_SUCCESS;
}
inline constexpr auto cusparseSparseToDense_bufferSize = sim_asks_buffer_of(cusparseSparseToDense);

/* ---- What is refused ---- */

#define SIM_MISSING_SPARSE(name) SIM_MISSING(cusparseStatus_t, cusparse##name)
SIM_MISSING_SPARSE(SpVV)
SIM_MISSING_SPARSE(SpVV_bufferSize)
SIM_MISSING_SPARSE(Rot)
SIM_MISSING_SPARSE(SpMM_preprocess)
SIM_MISSING_SPARSE(SpMMOp)
SIM_MISSING_SPARSE(SpSV_updateMatrix)
SIM_MISSING_SPARSE(SpSM_updateMatrix)
SIM_MISSING_SPARSE(SpGEMM_getNumProducts)
SIM_MISSING_SPARSE(SpGEMM_estimateMemory)
SIM_MISSING_SPARSE(Xcoosort_bufferSizeExt)
SIM_MISSING_SPARSE(XcoosortByRow)
SIM_MISSING_SPARSE(XcoosortByColumn)
SIM_MISSING_SPARSE(CreateBsr)
SIM_MISSING_SPARSE(CreateBlockedEll)
SIM_MISSING_SPARSE(CreateSlicedEll)
SIM_MISSING_SPARSE(Xcsr2coo)
SIM_MISSING_SPARSE(Xcoo2csr)
SIM_MISSING_SPARSE(Snnz)
SIM_MISSING_SPARSE(Dnnz)
SIM_MISSING_SPARSE(Scsrgeam2)
SIM_MISSING_SPARSE(Dcsrgeam2)
SIM_MISSING_SPARSE(Sgtsv2)
SIM_MISSING_SPARSE(Dgtsv2)
