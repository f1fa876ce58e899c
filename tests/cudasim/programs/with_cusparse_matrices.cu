/* Products that fill a sparse matrix, triangular solvers, conversions and sorting: prints what is wrong. */
#include "sparse.h"

template <class T> struct Dense {
    int rows, columns;
    std::vector<T> values;
    T &at(int row, int column) {
        return values[row * columns + column];
    }
};
template <class T> Dense<T> sparse(int rows, int columns) {
    Dense<T> a = {rows, columns, drawn<T>(rows * columns)};
    for (T &value : a.values)
        if (rand() % 2)
            value = 0;
    return a;
}
template <class T> Dense<T> turned(Dense<T> a, int op) {
    if (op == 0)
        return a;
    Dense<T> b = {a.columns, a.rows, std::vector<T>(a.values.size())};
    for (int i = 0; i < a.rows; i++)
        for (int j = 0; j < a.columns; j++)
            b.at(j, i) = op == 2 ? conjugate(a.at(i, j)) : a.at(i, j);
    return b;
}
template <class T> Dense<T> product(Dense<T> a, Dense<T> b) {
    Dense<T> c = {a.rows, b.columns, std::vector<T>(a.rows * b.columns)};
    for (int i = 0; i < a.rows; i++)
        for (int j = 0; j < b.columns; j++)
            for (int l = 0; l < a.columns; l++)
                c.at(i, j) += a.at(i, l) * b.at(l, j);
    return c;
}
/* A matrix in CSR, CSC or COO (0, 1, 2) on the device, made by cuSPARSE of a dense one. */
template <class T, class I> struct Sparse {
    cusparseSpMatDescr_t of;
    T *values;
    I *offsets, *indices;
    int64_t nnz;
    int lines;
    Sparse(cusparseHandle_t handle, Dense<T> a, cudaDataType type, cusparseIndexType_t index, int base,
           int format) {
        T *from = on_device(a.values);
        cusparseDnMatDescr_t dense;
        TRY(cusparseCreateDnMat(&dense, a.rows, a.columns, a.columns, from, type, CUSPARSE_ORDER_ROW));
        lines = (format == 1 ? a.columns : a.rows) + 1;
        if (format != 2)
            TRY(cudaMalloc(&offsets, lines * sizeof(I)));
        auto create = format ? cusparseCreateCsc : cusparseCreateCsr;
        auto b = (cusparseIndexBase_t)base;
        if (format == 2) {
            TRY(cusparseCreateCoo(&of, a.rows, a.columns, 0, 0, 0, 0, index, b, type));
        } else {
            TRY(create(&of, a.rows, a.columns, 0, offsets, 0, 0, index, index, b, type));
        }
        size_t bytes;
        auto how = CUSPARSE_DENSETOSPARSE_ALG_DEFAULT;
        TRY(cusparseDenseToSparse_bufferSize(handle, dense, of, how, &bytes));
        TRY(cusparseDenseToSparse_analysis(handle, dense, of, how, 0));
        int64_t rows, columns;
        TRY(cusparseSpMatGetSize(of, &rows, &columns, &nnz));
        allocate(format == 2);
        TRY(cusparseDenseToSparse_convert(handle, dense, of, how, 0));
        TRY(cusparseDestroyDnMat(dense));
        TRY(cudaFree(from));
    }
    void allocate(bool is_coo) {
        TRY(cudaMalloc(&indices, nnz * sizeof(I)));
        TRY(cudaMalloc(&values, nnz * sizeof(T)));
        if (is_coo)
            TRY(cudaMalloc(&offsets, nnz * sizeof(I)));
        auto point = is_coo ? cusparseCooSetPointers : cusparseCsrSetPointers;
        TRY(point(of, offsets, indices, values));
    }
    Dense<T> dense(cusparseHandle_t handle, int rows, int columns, cudaDataType type) {
        Dense<T> a = {rows, columns, std::vector<T>(rows * columns)};
        T *to = on_device(a.values);
        cusparseDnMatDescr_t whole;
        TRY(cusparseCreateDnMat(&whole, rows, columns, columns, to, type, CUSPARSE_ORDER_ROW));
        TRY(cusparseSparseToDense(handle, of, whole, CUSPARSE_SPARSETODENSE_ALG_DEFAULT, 0));
        TRY(cusparseDestroyDnMat(whole));
        a.values = on_host(to, a.values.size());
        return a;
    }
    ~Sparse() {
        TRY(cusparseDestroySpMat(of));
        for (void *at : {(void *)values, (void *)offsets, (void *)indices})
            TRY(cudaFree(at));
    }
};

template <class T, class I>
void solve(cusparseHandle_t handle, cudaDataType type, cusparseIndexType_t index, int base, int how) {
    const int n = 6, count = 3;
    int opa = how % 3, opb = how / 3 % 2, is_upper = how / 6 % 2, is_unit = how / 12 % 2;
    Dense<T> a = {n, n, drawn<T>(n * n)}, b = {n, count, drawn<T>(n * count)}, one = a;
    for (int i = 0; i < n; i++)
        for (int j = 0; j < n; j++) {
            if (i == j)
                a.at(i, j) += T(3);
            bool counts = is_upper ? j > i : j < i;
            one.at(i, j) = i == j ? is_unit ? T(1) : a.at(i, j) : counts ? a.at(i, j) : T(0);
        }
    Sparse<T, I> m(handle, a, type, index, base, how % 2 * 2);
    cusparseFillMode_t fill = is_upper ? CUSPARSE_FILL_MODE_UPPER : CUSPARSE_FILL_MODE_LOWER;
    cusparseDiagType_t diagonal = is_unit ? CUSPARSE_DIAG_TYPE_UNIT : CUSPARSE_DIAG_TYPE_NON_UNIT;
    TRY(cusparseSpMatSetAttribute(m.of, CUSPARSE_SPMAT_FILL_MODE, &fill, sizeof fill));
    TRY(cusparseSpMatSetAttribute(m.of, CUSPARSE_SPMAT_DIAG_TYPE, &diagonal, sizeof diagonal));
    T alpha = drawn<T>(), *db = on_device(turned(b, opb).values), *dx;
    TRY(cudaMalloc(&dx, n * count * sizeof(T)));
    cusparseDnMatDescr_t bm, xm;
    TRY(cusparseCreateDnMat(&bm, opb ? count : n, opb ? n : count, opb ? n : count, db, type,
                            CUSPARSE_ORDER_ROW));
    TRY(cusparseCreateDnMat(&xm, n, count, n, dx, type, CUSPARSE_ORDER_COL));
    cusparseSpSMDescr_t many;
    TRY(cusparseSpSM_createDescr(&many));
    size_t bytes;
    auto turns = (cusparseOperation_t)opa, turns_b = (cusparseOperation_t)opb;
    auto plain = CUSPARSE_OPERATION_NON_TRANSPOSE;
    TRY(cusparseSpSM_bufferSize(handle, turns, turns_b, &alpha, m.of, bm, xm, type, CUSPARSE_SPSM_ALG_DEFAULT,
                                many, &bytes));
    TRY(cusparseSpSM_analysis(handle, turns, turns_b, &alpha, m.of, bm, xm, type, CUSPARSE_SPSM_ALG_DEFAULT,
                              many, 0));
    TRY(cusparseSpSM_solve(handle, turns, turns_b, &alpha, m.of, bm, xm, type, CUSPARSE_SPSM_ALG_DEFAULT,
                           many));
    Dense<T> x = turned(Dense<T>{count, n, on_host(dx, n * count)}, 1);
    for (T &value : b.values)
        value *= alpha;
    expect(product(turned(one, opa), x).values, b.values, "SpSM", 10);
    /* One column more, solved where it lies. */
    std::vector<T> column = drawn<T>(n);
    T *dc = on_device(column);
    cusparseDnVecDescr_t of;
    TRY(cusparseCreateDnVec(&of, n, dc, type));
    cusparseSpSVDescr_t single;
    TRY(cusparseSpSV_createDescr(&single));
    TRY(cusparseSpSV_bufferSize(handle, turns, &alpha, m.of, of, of, type, CUSPARSE_SPSV_ALG_DEFAULT, single,
                                &bytes));
    TRY(cusparseSpSV_analysis(handle, turns, &alpha, m.of, of, of, type, CUSPARSE_SPSV_ALG_DEFAULT, single,
                              0));
    TRY(cusparseSpSV_solve(handle, turns, &alpha, m.of, of, of, type, CUSPARSE_SPSV_ALG_DEFAULT, single));
    Dense<T> found = {n, 1, on_host(dc, n)};
    for (T &value : column)
        value *= alpha;
    expect(product(turned(one, opa), found).values, column, "SpSV", 10);
    TRY(cusparseSpSV_destroyDescr(single));
    TRY(cusparseSpSM_destroyDescr(many));
    TRY(cusparseDestroyDnVec(of));
    TRY(cusparseDestroyDnMat(bm));
    TRY(cusparseDestroyDnMat(xm));
    TRY(cudaFree(db));
}

template <class T, class I>
void multiply(cusparseHandle_t handle, cudaDataType type, cusparseIndexType_t index, int base) {
    const int m = 7, k = 5, n = 6;
    for (int op = 0; op < 4; op++) {
        int opa = op % 2 * 2, opb = op / 2;
        Dense<T> a = {m, k, drawn<T>(m * k)}, b = {k, n, drawn<T>(k * n)}, c = sparse<T>(m, n);
        Dense<T> expected = product(a, b);
        T alpha = drawn<T>(), beta = op ? drawn<T>() : T(0);
        for (int i = 0; i < m * n; i++)
            expected.values[i] = c.values[i] == T(0) ? T(0) : alpha * expected.values[i] + beta * c.values[i];
        Sparse<T, I> to(handle, c, type, index, base, 0);
        T *da = on_device(turned(a, opa).values), *db = on_device(turned(b, opb).values);
        cusparseDnMatDescr_t am, bm;
        TRY(cusparseCreateDnMat(&am, opa ? k : m, opa ? m : k, opa ? m : k, da, type, CUSPARSE_ORDER_ROW));
        TRY(cusparseCreateDnMat(&bm, opb ? n : k, opb ? k : n, opb ? k : n, db, type, CUSPARSE_ORDER_ROW));
        TRY(cusparseSDDMM(handle, (cusparseOperation_t)opa, (cusparseOperation_t)opb, &alpha, am, bm, &beta,
                          to.of, type, CUSPARSE_SDDMM_ALG_DEFAULT, 0));
        expect(to.dense(handle, m, n, type).values, expected.values, "SDDMM");
        TRY(cusparseDestroyDnMat(am));
        TRY(cusparseDestroyDnMat(bm));
        TRY(cudaFree(da));
        TRY(cudaFree(db));
    }
    Dense<T> a = sparse<T>(m, k), b = sparse<T>(k, n), expected = product(a, b);
    T alpha = drawn<T>(), beta = 0;
    for (T &value : expected.values)
        value *= alpha;
    Sparse<T, I> left(handle, a, type, index, base, 0), right(handle, b, type, index, base, 0);
    Sparse<T, I> to(handle, Dense<T>{m, n, std::vector<T>(m * n)}, type, index, base, 0);
    cusparseSpGEMMDescr_t how;
    TRY(cusparseSpGEMM_createDescr(&how));
    size_t bytes;
    void *buffer = to.offsets; /* anything that is not null */
    auto op = CUSPARSE_OPERATION_NON_TRANSPOSE;
    auto algorithm = CUSPARSE_SPGEMM_DEFAULT;
    TRY(cusparseSpGEMM_workEstimation(handle, op, op, &alpha, left.of, right.of, &beta, to.of, type,
                                      algorithm, how, &bytes, 0));
    TRY(cusparseSpGEMM_compute(handle, op, op, &alpha, left.of, right.of, &beta, to.of, type, algorithm, how,
                               &bytes, 0));
    TRY(cusparseSpGEMM_compute(handle, op, op, &alpha, left.of, right.of, &beta, to.of, type, algorithm, how,
                               &bytes, buffer));
    int64_t rows, columns;
    TRY(cusparseSpMatGetSize(to.of, &rows, &columns, &to.nnz));
    TRY(cudaFree(to.values));
    TRY(cudaFree(to.indices));
    to.allocate(false);
    TRY(cusparseSpGEMM_copy(handle, op, op, &alpha, left.of, right.of, &beta, to.of, type, algorithm, how));
    expect(to.dense(handle, m, n, type).values, expected.values, "SpGEMM");
    TRY(cusparseSpGEMM_destroyDescr(how));
}

/* CSR to CSC, and a row's columns in order, of a matrix of ints' indices. */
template <class T> void convert(cusparseHandle_t handle, cudaDataType type, int base) {
    const int rows = 7, columns = 5;
    Dense<T> a = sparse<T>(rows, columns);
    auto b = (cusparseIndexBase_t)base;
    Sparse<T, int> from(handle, a, type, CUSPARSE_INDEX_32I, base, 0);
    Sparse<T, int> to(handle, a, type, CUSPARSE_INDEX_32I, base, 1);
    TRY(cudaMemset(to.values, 0, to.nnz * sizeof(T)));
    size_t bytes;
    TRY(cusparseCsr2cscEx2_bufferSize(handle, rows, columns, (int)from.nnz, from.values, from.offsets,
                                      from.indices, to.values, to.offsets, to.indices, type,
                                      CUSPARSE_ACTION_NUMERIC, b, CUSPARSE_CSR2CSC_ALG1, &bytes));
    TRY(cusparseCsr2cscEx2(handle, rows, columns, (int)from.nnz, from.values, from.offsets, from.indices,
                           to.values, to.offsets, to.indices, type, CUSPARSE_ACTION_NUMERIC, b,
                           CUSPARSE_CSR2CSC_ALG1, 0));
    expect(to.dense(handle, rows, columns, type).values, a.values, "Csr2cscEx2");
    std::vector<int> indices(from.nnz), offsets(rows + 1), mixed, places(from.nnz);
    TRY(cudaMemcpy(indices.data(), from.indices, from.nnz * sizeof(int), cudaMemcpyDeviceToHost));
    TRY(cudaMemcpy(offsets.data(), from.offsets, (rows + 1) * sizeof(int), cudaMemcpyDeviceToHost));
    mixed = indices;
    for (int row = 0; row < rows; row++)
        std::reverse(mixed.begin() + offsets[row] - base, mixed.begin() + offsets[row + 1] - base);
    int *unsorted = on_device(mixed), *permutation = on_device(places);
    cusparseMatDescr_t of;
    TRY(cusparseCreateMatDescr(&of));
    TRY(cusparseSetMatIndexBase(of, b));
    TRY(cusparseXcsrsort_bufferSizeExt(handle, rows, columns, (int)from.nnz, from.offsets, unsorted, &bytes));
    TRY(cusparseCreateIdentityPermutation(handle, (int)from.nnz, permutation));
    TRY(cusparseXcsrsort(handle, rows, columns, (int)from.nnz, of, from.offsets, unsorted, permutation, 0));
    TRY(cusparseDestroyMatDescr(of));
    places = on_host(permutation, from.nnz);
    bool is_right = on_host(unsorted, from.nnz) == indices;
    for (int i = 0; i < (int)from.nnz; i++)
        is_right &= mixed[places[i]] == indices[i];
    if (!is_right)
        printf("Xcsrsort is wrong\n");
}

template <class T, class I>
void all(cusparseHandle_t handle, cudaDataType type, cusparseIndexType_t index, int base) {
    for (int format = 0; format < 3; format++) {
        Dense<T> a = sparse<T>(7, 5);
        expect(Sparse<T, I>(handle, a, type, index, base, format).dense(handle, 7, 5, type).values, a.values,
               "DenseToSparse");
    }
    for (int how = 0; how < 24; how++)
        solve<T, I>(handle, type, index, base, how);
    multiply<T, I>(handle, type, index, base);
    convert<T>(handle, type, base);
}
template <class T> void all(cusparseHandle_t handle, cudaDataType type) {
    all<T, int>(handle, type, CUSPARSE_INDEX_32I, 1);
    all<T, int64_t>(handle, type, CUSPARSE_INDEX_64I, 0);
}
int main() {
    cusparseHandle_t handle;
    TRY(cusparseCreate(&handle));
    all<float>(handle, CUDA_R_32F);
    all<double>(handle, CUDA_R_64F);
    all<std::complex<float>>(handle, CUDA_C_32F);
    all<std::complex<double>>(handle, CUDA_C_64F);
    TRY(cusparseDestroy(handle));
}
