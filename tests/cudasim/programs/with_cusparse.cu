/* Products and conversions of a sparse matrix, for each type, format and operation: prints what is wrong. */
#include "sparse.h"

/* a: rows x columns, dense in rows; zeros are not stored. */
template <class T, class I> void all(cudaDataType type, cusparseIndexType_t index, int base, int format) {
    const int rows = 7, columns = 5, n = 3;
    std::vector<T> a = drawn<T>(rows * columns), values;
    for (T &value : a)
        if (rand() % 2)
            value = 0;
    std::vector<I> offsets, indices, coo;
    bool by_rows = format != 1;
    for (int i = 0; i < (by_rows ? rows : columns); i++) {
        offsets.push_back((I)values.size() + base);
        for (int j = 0; j < (by_rows ? columns : rows); j++) {
            T value = by_rows ? a[i * columns + j] : a[j * columns + i];
            if (value == T(0))
                continue;
            values.push_back(value);
            indices.push_back(j + base);
            coo.push_back(i + base);
        }
    }
    offsets.push_back((I)values.size() + base);
    T *dv = on_device(values);
    I *doff = on_device(format == 2 ? coo : offsets), *dind = on_device(indices);
    cusparseHandle_t handle;
    TRY(cusparseCreate(&handle));
    cusparseSpMatDescr_t m;
    cusparseIndexBase_t of = base ? CUSPARSE_INDEX_BASE_ONE : CUSPARSE_INDEX_BASE_ZERO;
    int64_t nnz = (int64_t)values.size();
    if (format == 0) {
        TRY(cusparseCreateCsr(&m, rows, columns, nnz, doff, dind, dv, index, index, of, type));
    } else if (format == 1) {
        TRY(cusparseCreateCsc(&m, rows, columns, nnz, doff, dind, dv, index, index, of, type));
    } else {
        TRY(cusparseCreateCoo(&m, rows, columns, nnz, doff, dind, dv, index, of, type));
    }
    for (int opa = 0; opa < 3; opa++)
        for (int opb = 0; opb < 3; opb++)
            for (int order = 1; order <= 2; order++) {
                int k = opa ? rows : columns, out = opa ? columns : rows;
                int b_rows = opb ? n : k, b_columns = opb ? k : n;
                int ldb = (order == 1 ? b_rows : b_columns) + 1, ldc = (order == 1 ? out : n) + 2;
                auto at = [=](int row, int column, int ld) {
                    return order == 1 ? row + column * ld : row * ld + column;
                };
                std::vector<T> b = drawn<T>((size_t)ldb * (order == 1 ? b_columns : b_rows));
                std::vector<T> c = drawn<T>((size_t)ldc * (order == 1 ? n : out)), expected = c;
                T alpha = drawn<T>(), beta = opb == 2 ? T(0) : drawn<T>();
                for (int i = 0; i < out; i++)
                    for (int j = 0; j < n; j++) {
                        T sum = 0;
                        for (int l = 0; l < k; l++) {
                            T left = opa ? a[l * columns + i] : a[i * columns + l];
                            T right = opb ? b[at(j, l, ldb)] : b[at(l, j, ldb)];
                            sum +=
                                (opa == 2 ? conjugate(left) : left) * (opb == 2 ? conjugate(right) : right);
                        }
                        expected[at(i, j, ldc)] = alpha * sum + beta * c[at(i, j, ldc)];
                    }
                T *db = on_device(b), *dc = on_device(c);
                cusparseDnMatDescr_t bm, cm;
                TRY(cusparseCreateDnMat(&bm, b_rows, b_columns, ldb, db, type, (cusparseOrder_t)order));
                TRY(cusparseCreateDnMat(&cm, out, n, ldc, dc, type, (cusparseOrder_t)order));
                TRY(cusparseSpMM(handle, (cusparseOperation_t)opa, (cusparseOperation_t)opb, &alpha, m, bm,
                                 &beta, cm, type, CUSPARSE_SPMM_ALG_DEFAULT, 0));
                expect(on_host(dc, c.size()), expected, "SpMM");
                TRY(cudaFree(db));
                TRY(cusparseDestroyDnMat(bm));
                TRY(cusparseDestroyDnMat(cm));
            }
    std::vector<T> x = drawn<T>(columns), y = drawn<T>(rows), expected = y, both = {drawn<T>(), drawn<T>()};
    for (int i = 0; i < rows; i++) {
        expected[i] *= both[1];
        for (int j = 0; j < columns; j++)
            expected[i] += both[0] * a[i * columns + j] * x[j];
    }
    T *dx = on_device(x), *dy = on_device(y), *scalars = on_device(both);
    cusparseDnVecDescr_t xv, yv;
    TRY(cusparseCreateDnVec(&xv, columns, dx, type));
    TRY(cusparseCreateDnVec(&yv, rows, dy, type));
    size_t bytes;
    TRY(cusparseSetPointerMode(handle, CUSPARSE_POINTER_MODE_DEVICE));
    TRY(cusparseSpMV_bufferSize(handle, CUSPARSE_OPERATION_NON_TRANSPOSE, scalars, m, xv, scalars + 1, yv,
                                type, CUSPARSE_SPMV_ALG_DEFAULT, &bytes));
    TRY(cusparseSpMV(handle, CUSPARSE_OPERATION_NON_TRANSPOSE, scalars, m, xv, scalars + 1, yv, type,
                     CUSPARSE_SPMV_ALG_DEFAULT, 0));
    if (cusparseSpMV(handle, CUSPARSE_OPERATION_TRANSPOSE, scalars, m, xv, scalars + 1, yv, type,
                     CUSPARSE_SPMV_ALG_DEFAULT, 0) != CUSPARSE_STATUS_INVALID_VALUE)
        printf("a product whose sizes do not fit is taken\n");
    expect(on_host(dy, rows), expected, "SpMV");
    T *dense;
    TRY(cudaMalloc(&dense, a.size() * sizeof(T)));
    cusparseDnMatDescr_t whole;
    TRY(cusparseCreateDnMat(&whole, rows, columns, columns, dense, type, CUSPARSE_ORDER_ROW));
    TRY(cusparseSparseToDense(handle, m, whole, CUSPARSE_SPARSETODENSE_ALG_DEFAULT, 0));
    expect(on_host(dense, a.size()), a, "SparseToDense");

    std::vector<I> places = {4 + base, 1 + base};
    std::vector<T> few = drawn<T>(2);
    I *dplaces = on_device(places);
    T *dfew = on_device(few);
    cusparseSpVecDescr_t sparse;
    TRY(cusparseCreateSpVec(&sparse, columns, 2, dplaces, dfew, index, of, type));
    TRY(cusparseAxpby(handle, scalars, sparse, scalars + 1, xv));
    for (T &value : x)
        value *= both[1];
    x[4] += both[0] * few[0], x[1] += both[0] * few[1];
    TRY(cusparseGather(handle, xv, sparse));
    expect(on_host(dfew, 2), {x[4], x[1]}, "Gather");
    T *again = on_device(few);
    TRY(cusparseSpVecSetValues(sparse, again));
    TRY(cusparseScatter(handle, sparse, xv));
    x[4] = few[0], x[1] = few[1];
    expect(on_host(dx, columns), x, "Axpby and Scatter");
    TRY(cusparseDestroySpVec(sparse));
    TRY(cusparseDestroySpMat(m));
    TRY(cusparseDestroyDnMat(whole));
    TRY(cusparseDestroyDnVec(xv));
    TRY(cusparseDestroyDnVec(yv));
    TRY(cusparseDestroy(handle));
    for (void *of : {(void *)dv, (void *)doff, (void *)dind, (void *)scalars, (void *)dplaces, (void *)again})
        TRY(cudaFree(of));
}
template <class T> void all(cudaDataType type) {
    for (int format = 0; format < 3; format++)
        for (int base = 0; base < 2; base++) {
            all<T, int>(type, CUSPARSE_INDEX_32I, base, format);
            all<T, int64_t>(type, CUSPARSE_INDEX_64I, base, format);
        }
}
int main(int argc, char **) {
    all<float>(CUDA_R_32F);
    all<double>(CUDA_R_64F);
    all<std::complex<float>>(CUDA_C_32F);
    all<std::complex<double>>(CUDA_C_64F);
    cusparseDnVecDescr_t of;
    if (argc > 1 && cusparseCreateDnVec(&of, 4, 0, CUDA_R_8F_E4M3) == CUSPARSE_STATUS_NOT_SUPPORTED)
        printf("refused\n");
}
