/* What cuSPARSE computes where a result or a factor is a whole sparse matrix, for cusparse.hpp: products that
 * fill one, and triangular solvers. */
#pragma once
#include "cusparse_functions.hpp"

inline bool sim_sparse_is_csr(const char *function, const cusparseSpMatDescr &of) {
    if (of.format != CUSPARSE_FORMAT_CSR)
        return sim_library_lacks(function, "matrix of the format", of.format), false;
    return true;
}

/* ---- The product of dense matrices, where C has elements ---- */

inline cusparseStatus_t cusparseSDDMM(cusparseHandle_t handle, cusparseOperation_t opa,
                                      cusparseOperation_t opb, const void *alpha,
                                      cusparseConstDnMatDescr_t of_a, cusparseConstDnMatDescr_t of_b,
                                      const void *beta, cusparseSpMatDescr_t of_c, cudaDataType compute,
                                      cusparseSDDMMAlg_t, void *) {
    if (!handle)
        return CUSPARSE_STATUS_NOT_INITIALIZED;
    cusparseDnMatDescr a = *of_a, b = *of_b;
    cusparseSpMatDescr c = *of_c;
    if (!sim_sparse_fit(__func__, compute, {a.type, b.type, c.type}))
        return CUSPARSE_STATUS_NOT_SUPPORTED;
    if (!sim_sparse_is_csr(__func__, c))
        return CUSPARSE_STATUS_NOT_SUPPORTED;
    bool turns_a = opa != CUSPARSE_OPERATION_NON_TRANSPOSE, turns_b = opb != CUSPARSE_OPERATION_NON_TRANSPOSE;
    int64_t k = turns_a ? a.rows : a.columns;
    if (c.rows != (turns_a ? a.columns : a.rows) || k != (turns_b ? b.columns : b.rows) ||
        c.columns != (turns_b ? b.rows : b.columns))
        return CUSPARSE_STATUS_INVALID_VALUE;
    sim_sparse_in(compute, [&](auto zero) {
        using W = decltype(zero);
        sim_sparse_scalar<W> by(handle, alpha, compute), before(handle, beta, compute);
        sim_library_work(handle->stream, [=] {
            W scale = by.get(), rest = before.get();
            for (int batch = 0; batch < c.count; batch++)
                sim_sparse_each(c, batch, [&](int64_t row, int64_t column, int64_t i) {
                    W sum = W();
                    for (int64_t l = 0; l < k; l++)
                        sum += sim_sparse_operand<W>(a, a.count > 1 ? batch : 0, opa, row, l) *
                               sim_sparse_operand<W>(b, b.count > 1 ? batch : 0, opb, l, column);
                    sim_sparse_store(c.values, c.type, (size_t)i, scale, sum, rest);
                });
        });
    });
    return CUSPARSE_STATUS_SUCCESS;
}
inline constexpr auto cusparseSDDMM_bufferSize = sim_asks_buffer_of(cusparseSDDMM);
inline constexpr auto cusparseSDDMM_preprocess = sim_ignores_as(cusparseSDDMM);

/* ---- Triangular solvers: op(A) x = alpha op(b), for each column. The analysis has nothing to do. ---- */

struct cusparseSpSVDescr {};
struct cusparseSpSMDescr {};
typedef cusparseSpSVDescr *cusparseSpSVDescr_t;
typedef cusparseSpSMDescr *cusparseSpSMDescr_t;

template <class W> struct sim_sparse_triangle {
    struct element {
        int64_t column;
        W value;
    };
    std::vector<std::vector<element>> rows;
    std::vector<W> diagonal;
    bool is_lower;
    /* Of op(A); what is on the other side of the diagonal does not count. */
    sim_sparse_triangle(const cusparseSpMatDescr &a, cusparseOperation_t op)
        : rows((size_t)a.rows), diagonal((size_t)a.rows, a.diagonal == CUSPARSE_DIAG_TYPE_UNIT ? W(1) : W(0)),
          is_lower((a.fill == CUSPARSE_FILL_MODE_LOWER) == (op == CUSPARSE_OPERATION_NON_TRANSPOSE)) {
        sim_sparse_each(a, 0, [&](int64_t row, int64_t column, int64_t i) {
            W value = sim_read_as<W>(a.values, a.type, (size_t)i);
            if (op != CUSPARSE_OPERATION_NON_TRANSPOSE)
                std::swap(row, column);
            if (op == CUSPARSE_OPERATION_CONJUGATE_TRANSPOSE)
                value = sim_conjugate_of(value);
            if (row == column && a.diagonal == CUSPARSE_DIAG_TYPE_NON_UNIT)
                diagonal[(size_t)row] += value;
            else if (row != column && (column < row) == is_lower)
                rows[(size_t)row].push_back({column, value});
        });
    }
    void solve(std::vector<W> &x) const {
        for (size_t i = 0; i < rows.size(); i++) {
            size_t row = is_lower ? i : rows.size() - 1 - i;
            for (const element &of : rows[row])
                x[row] -= of.value * x[(size_t)of.column];
            x[row] /= diagonal[row];
        }
    }
};
inline cusparseStatus_t sim_sparse_solve(const char *function, cusparseHandle_t handle,
                                         cusparseOperation_t opa, cusparseOperation_t opb, const void *alpha,
                                         const cusparseSpMatDescr &a, const cusparseDnMatDescr &b,
                                         const cusparseDnMatDescr &c, cudaDataType compute) {
    if (!handle)
        return CUSPARSE_STATUS_NOT_INITIALIZED;
    if (!sim_sparse_fit(function, compute, {a.type, b.type, c.type}))
        return CUSPARSE_STATUS_NOT_SUPPORTED;
    if (a.format == CUSPARSE_FORMAT_CSC || a.count > 1 || b.count > 1 || c.count > 1)
        return sim_library_lacks(function, "matrices of CSC, or batches, of the number", a.count),
               CUSPARSE_STATUS_NOT_SUPPORTED;
    bool turns_b = opb != CUSPARSE_OPERATION_NON_TRANSPOSE;
    if (a.rows != a.columns || c.rows != a.rows || (turns_b ? b.columns : b.rows) != a.rows ||
        (turns_b ? b.rows : b.columns) != c.columns)
        return CUSPARSE_STATUS_INVALID_VALUE;
    sim_sparse_in(compute, [&](auto zero) {
        using W = decltype(zero);
        sim_sparse_scalar<W> by(handle, alpha, compute);
        sim_library_work(handle->stream, [=] {
            sim_sparse_triangle<W> triangle(a, opa);
            std::vector<std::vector<W>> all((size_t)c.columns, std::vector<W>((size_t)a.rows));
            for (int64_t j = 0; j < c.columns; j++) { /* which may be where the result goes */
                for (int64_t i = 0; i < a.rows; i++)
                    all[(size_t)j][(size_t)i] = by.get() * sim_sparse_operand<W>(b, 0, opb, i, j);
                triangle.solve(all[(size_t)j]);
            }
            for (int64_t j = 0; j < c.columns; j++)
                for (int64_t i = 0; i < a.rows; i++)
                    sim_write_as(c.values, c.type, sim_place(c, 0, i, j), all[(size_t)j][(size_t)i]);
        });
    });
    return CUSPARSE_STATUS_SUCCESS;
}
inline constexpr sim_creates<cusparseStatus_t, cusparseSpSVDescr> cusparseSpSV_createDescr;
inline constexpr sim_destroys<cusparseStatus_t, cusparseSpSVDescr> cusparseSpSV_destroyDescr;
inline cusparseStatus_t cusparseSpSV_solve(cusparseHandle_t handle, cusparseOperation_t op, const void *alpha,
                                           cusparseConstSpMatDescr_t a, cusparseConstDnVecDescr_t x,
                                           cusparseDnVecDescr_t y, cudaDataType compute, cusparseSpSVAlg_t,
                                           cusparseSpSVDescr_t) {
    return sim_sparse_solve(__func__, handle, op, CUSPARSE_OPERATION_NON_TRANSPOSE, alpha, *a, *x, *y,
                            compute);
}
inline constexpr auto cusparseSpSV_bufferSize = sim_asks_buffer_before(cusparseSpSV_solve);
inline constexpr auto cusparseSpSV_analysis = sim_ignores_before(cusparseSpSV_solve);
inline constexpr sim_creates<cusparseStatus_t, cusparseSpSMDescr> cusparseSpSM_createDescr;
inline constexpr sim_destroys<cusparseStatus_t, cusparseSpSMDescr> cusparseSpSM_destroyDescr;
inline cusparseStatus_t cusparseSpSM_solve(cusparseHandle_t handle, cusparseOperation_t opa,
                                           cusparseOperation_t opb, const void *alpha,
                                           cusparseConstSpMatDescr_t a, cusparseConstDnMatDescr_t b,
                                           cusparseDnMatDescr_t c, cudaDataType compute, cusparseSpSMAlg_t,
                                           cusparseSpSMDescr_t) {
    return sim_sparse_solve(__func__, handle, opa, opb, alpha, *a, *b, *c, compute);
}
inline constexpr auto cusparseSpSM_bufferSize = sim_asks_buffer_before(cusparseSpSM_solve);
inline constexpr auto cusparseSpSM_analysis = sim_ignores_before(cusparseSpSM_solve);

/* ---- The product of sparse matrices: compute() tells its size, and copy() fills it ---- */

struct cusparseSpGEMMDescr {};
typedef cusparseSpGEMMDescr *cusparseSpGEMMDescr_t;

inline constexpr sim_creates<cusparseStatus_t, cusparseSpGEMMDescr> cusparseSpGEMM_createDescr;
inline constexpr sim_destroys<cusparseStatus_t, cusparseSpGEMMDescr> cusparseSpGEMM_destroyDescr;
inline cusparseStatus_t cusparseSpGEMM_workEstimation(cusparseHandle_t, cusparseOperation_t,
                                                      cusparseOperation_t, const void *,
                                                      cusparseConstSpMatDescr_t, cusparseConstSpMatDescr_t,
                                                      const void *, cusparseSpMatDescr_t, cudaDataType,
                                                      cusparseSpGEMMAlg_t, cusparseSpGEMMDescr_t,
                                                      size_t *bytes, void *) {
    return *bytes = SIM_BUFFER_BYTES, CUSPARSE_STATUS_SUCCESS;
}
/* fills: whether C's arrays are there; else its nnz is set. */
inline cusparseStatus_t sim_sparse_square(const char *function, cusparseHandle_t handle,
                                          cusparseOperation_t opa, cusparseOperation_t opb, const void *alpha,
                                          const cusparseSpMatDescr &a, const cusparseSpMatDescr &b,
                                          const void *beta, cusparseSpMatDescr *to, cudaDataType compute,
                                          bool fills) {
    if (!handle)
        return CUSPARSE_STATUS_NOT_INITIALIZED;
    for (const cusparseSpMatDescr &of : {a, b, *to})
        if (!sim_sparse_fits(function, compute, of.type) || !sim_sparse_is_csr(function, of))
            return CUSPARSE_STATUS_NOT_SUPPORTED;
    if (opa != CUSPARSE_OPERATION_NON_TRANSPOSE || opb != CUSPARSE_OPERATION_NON_TRANSPOSE)
        return CUSPARSE_STATUS_NOT_SUPPORTED;
    if (a.columns != b.rows || to->rows != a.rows || to->columns != b.columns)
        return CUSPARSE_STATUS_INVALID_VALUE;
    cusparseStatus_t status = CUSPARSE_STATUS_SUCCESS;
    sim_sparse_in(compute, [&](auto zero) {
        using W = decltype(zero);
        sim_library_range range(false);
        if (sim_sparse_scalar<W>(handle, beta, compute).get() != W()) {
            sim_library_lacks(function, "sum with a C whose beta is not 0, of elements", to->nnz);
            status = CUSPARSE_STATUS_NOT_SUPPORTED;
            return;
        }
        W scale = sim_sparse_scalar<W>(handle, alpha, compute).get();
        std::vector<std::vector<std::pair<int64_t, W>>> right((size_t)b.rows);
        sim_sparse_each(b, 0, [&](int64_t row, int64_t column, int64_t i) {
            right[(size_t)row].emplace_back(column, sim_read_as<W>(b.values, b.type, (size_t)i));
        });
        std::vector<std::map<int64_t, W>> sums((size_t)a.rows);
        sim_sparse_each(a, 0, [&](int64_t row, int64_t column, int64_t i) {
            W value = sim_read_as<W>(a.values, a.type, (size_t)i);
            for (auto &[other, factor] : right[(size_t)column])
                sums[(size_t)row][other] += value * factor;
        });
        std::vector<int64_t> offsets = {0};
        for (auto &row : sums)
            offsets.push_back(offsets.back() + (int64_t)row.size());
        if (!fills) {
            to->nnz = offsets.back();
            return;
        }
        sim_set_offsets(*to, offsets);
        int64_t i = 0;
        for (auto &row : sums)
            for (auto &[column, sum] : row) {
                sim_set_index(to->indices, to->index, i, column + to->base);
                sim_write_as(to->values, to->type, (size_t)i++, scale * sum);
            }
    });
    return status;
}
inline cusparseStatus_t cusparseSpGEMM_compute(cusparseHandle_t handle, cusparseOperation_t opa,
                                               cusparseOperation_t opb, const void *alpha,
                                               cusparseConstSpMatDescr_t a, cusparseConstSpMatDescr_t b,
                                               const void *beta, cusparseSpMatDescr_t c, cudaDataType compute,
                                               cusparseSpGEMMAlg_t, cusparseSpGEMMDescr_t, size_t *bytes,
                                               void *buffer) {
    if (!buffer)
        return *bytes = SIM_BUFFER_BYTES, CUSPARSE_STATUS_SUCCESS;
    return sim_sparse_square(__func__, handle, opa, opb, alpha, *a, *b, beta, c, compute, false);
}
inline cusparseStatus_t cusparseSpGEMM_copy(cusparseHandle_t handle, cusparseOperation_t opa,
                                            cusparseOperation_t opb, const void *alpha,
                                            cusparseConstSpMatDescr_t a, cusparseConstSpMatDescr_t b,
                                            const void *beta, cusparseSpMatDescr_t c, cudaDataType compute,
                                            cusparseSpGEMMAlg_t, cusparseSpGEMMDescr_t) {
    return sim_sparse_square(__func__, handle, opa, opb, alpha, *a, *b, beta, c, compute, true);
}
