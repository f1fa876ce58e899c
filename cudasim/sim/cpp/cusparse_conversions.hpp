/* How cuSPARSE turns matrices into those of another format, for cusparse.hpp, and sorts them. */
#pragma once
#include "cusparse_functions.hpp"

/* fills: whether the matrix's arrays are there; else its nnz is set. */
inline cusparseStatus_t sim_sparse_from(cusparseHandle_t handle, const cusparseDnMatDescr &a,
                                        cusparseSpMatDescr *to, bool fills) {
    if (!handle)
        return CUSPARSE_STATUS_NOT_INITIALIZED;
    if (a.rows != to->rows || a.columns != to->columns || a.type != to->type)
        return CUSPARSE_STATUS_INVALID_VALUE;
    sim_library_work(handle->stream, [=] {
        bool by_rows = to->format != CUSPARSE_FORMAT_CSC;
        std::vector<int64_t> offsets = {0};
        int64_t count = 0;
        sim_sparse_in(a.type, [&](auto zero) {
            using W = decltype(zero);
            for (int64_t line = 0; line < (by_rows ? a.rows : a.columns); line++) {
                for (int64_t other = 0; other < (by_rows ? a.columns : a.rows); other++) {
                    W value = sim_read_as<W>(a.values, a.type,
                                             sim_place(a, 0, by_rows ? line : other, by_rows ? other : line));
                    if (value == W())
                        continue;
                    if (fills) {
                        if (to->format == CUSPARSE_FORMAT_COO)
                            sim_set_index(to->offsets, to->offset, count, line + to->base);
                        sim_set_index(to->indices, to->index, count, other + to->base);
                        sim_write_as(to->values, to->type, (size_t)count, value);
                    }
                    count++;
                }
                offsets.push_back(count);
            }
        });
        if (!fills)
            to->nnz = count;
        else if (to->format != CUSPARSE_FORMAT_COO)
            sim_set_offsets(*to, offsets);
    });
    return CUSPARSE_STATUS_SUCCESS;
}
inline cusparseStatus_t cusparseDenseToSparse_analysis(cusparseHandle_t handle, cusparseConstDnMatDescr_t a,
                                                       cusparseSpMatDescr_t to, cusparseDenseToSparseAlg_t,
                                                       void *) {
    return sim_sparse_from(handle, *a, to, false);
}
inline cusparseStatus_t cusparseDenseToSparse_convert(cusparseHandle_t handle, cusparseConstDnMatDescr_t a,
                                                      cusparseSpMatDescr_t to, cusparseDenseToSparseAlg_t,
                                                      void *) {
    return sim_sparse_from(handle, *a, to, true);
}
inline constexpr auto cusparseDenseToSparse_bufferSize = sim_asks_buffer_of(cusparseDenseToSparse_analysis);
inline cusparseStatus_t cusparseCsr2cscEx2(cusparseHandle_t handle, int rows, int columns, int nnz,
                                           const void *values, const int *offsets, const int *indices,
                                           void *to_values, int *to_offsets, int *to_indices,
                                           cudaDataType type, cusparseAction_t action,
                                           cusparseIndexBase_t base, cusparseCsr2CscAlg_t, void *) {
    if (!handle)
        return CUSPARSE_STATUS_NOT_INITIALIZED;
    if (action == CUSPARSE_ACTION_NUMERIC && type != CUDA_R_8I && !sim_sparse_has(__func__, type))
        return CUSPARSE_STATUS_NOT_SUPPORTED;
    sim_library_work(handle->stream, [=] {
        std::vector<int> next((size_t)columns + 1, base);
        for (int i = 0; i < nnz; i++)
            next[(size_t)(indices[i] - base) + 1]++;
        std::partial_sum(next.begin(), next.end(), next.begin(), [=](int a, int b) { return a + b - base; });
        memcpy(to_offsets, next.data(), next.size() * sizeof(int));
        sim_memory_is_written(to_offsets, next.size() * sizeof(int));
        size_t bytes = sim_bytes_of(type);
        for (int row = 0; row < rows; row++)
            for (int i = offsets[row] - base; i < offsets[row + 1] - base; i++) {
                size_t at = (size_t)(next[(size_t)(indices[i] - base)]++ - base);
                to_indices[at] = row + base;
                if (action == CUSPARSE_ACTION_NUMERIC)
                    memcpy((char *)to_values + at * bytes, (const char *)values + (size_t)i * bytes, bytes);
            }
        sim_memory_is_written(to_indices, (size_t)nnz * sizeof(int));
        if (action == CUSPARSE_ACTION_NUMERIC)
            sim_memory_is_written(to_values, (size_t)nnz * bytes);
    });
    return CUSPARSE_STATUS_SUCCESS;
}
inline constexpr auto cusparseCsr2cscEx2_bufferSize = sim_asks_buffer_of(cusparseCsr2cscEx2);
inline constexpr sim_asks_buffer<cusparseStatus_t, cusparseHandle_t, int, int, int, const int *, const int *>
    cusparseXcsrsort_bufferSizeExt;
inline cusparseStatus_t cusparseXcsrsort(cusparseHandle_t handle, int rows, int, int,
                                         const cusparseMatDescr_t of, const int *offsets, int *indices,
                                         int *places, void *) {
    if (!handle)
        return CUSPARSE_STATUS_NOT_INITIALIZED;
    cusparseIndexBase_t base = of->base;
    sim_library_work(handle->stream, [=] {
        for (int row = 0; row < rows; row++) {
            std::vector<std::pair<int, int>> line;
            for (int i = offsets[row] - base; i < offsets[row + 1] - base; i++)
                line.emplace_back(indices[i], places ? places[i] : 0);
            std::stable_sort(line.begin(), line.end(), [](auto &a, auto &b) { return a.first < b.first; });
            int i = offsets[row] - base;
            for (auto &[column, place] : line) {
                indices[i] = column;
                if (places)
                    places[i] = place;
                i++;
            }
        }
    });
    return CUSPARSE_STATUS_SUCCESS;
}
inline cusparseStatus_t cusparseCreateIdentityPermutation(cusparseHandle_t handle, int n, int *places) {
    if (!handle)
        return CUSPARSE_STATUS_NOT_INITIALIZED;
    sim_library_work(handle->stream, [=] {
        std::iota(places, places + n, 0);
        sim_memory_is_written(places, (size_t)n * sizeof(int));
    });
    return CUSPARSE_STATUS_SUCCESS;
}
