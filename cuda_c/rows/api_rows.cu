/* Functions of rows in the C API: the checks of a call, and its launch. */
#include "rows/rows.h"
#include "shared/checks.h"
#include "shared/plan.h"

static int64_t v_features_of(const fgn_rows *rows) {
    return rows->v_features ? rows->v_features : rows->features;
}

/* What only FGN_VALUES has. */
static fgn_status check_places(const fgn_rows *rows) {
    int64_t last = v_features_of(rows) - rows->features;
    if (rows->function != FGN_VALUES)
        return rows->v_features || rows->first || rows->again
                   ? fail(FGN_INVALID_ARGUMENT,
                          "v_features, first and again are %lld, %lld and %lld, "
                          "expected 0 for another function than FGN_VALUES",
                          rows->v_features, rows->first, rows->again)
                   : FGN_OK;
    if (rows->window != rows->features)
        return fail(FGN_INVALID_ARGUMENT, "window is %lld, expected the %lld features of FGN_VALUES",
                    rows->window, rows->features);
    if (last < 0 || v_features_of(rows) > INT32_MAX)
        return fail(FGN_INVALID_ARGUMENT, "v_features is %lld, expected %lld, the features, to %d",
                    rows->v_features, rows->features, INT32_MAX);
    if (rows->first < 0 || rows->first > last || rows->again < 0 || rows->again > last)
        return fail(FGN_INVALID_ARGUMENT, "first and again are %lld and %lld, expected 0 to %lld",
                    rows->first, rows->again, (long long)last);
    return FGN_OK;
}

static fgn_status check_second(const fgn_rows *rows) {
    if ((int)rows->second < 0 || !reduces(rows->second) || !reduces(rows->function))
        return fail(FGN_INVALID_ARGUMENT, "function and second are %d and %d, expected two that reduce",
                    (int)rows->function, (int)rows->second);
    if (rows->before_second < 0 || rows->before_second > rows->after_count)
        return fail(FGN_INVALID_ARGUMENT, "before_second is %d, expected 0 to %d, the operators after",
                    rows->before_second, rows->after_count);
    for (int i = rows->before_second; i < rows->after_count; i++)
        if (takes_channel(&rows->after[i]) || takes_tensor(&rows->after[i]))
            return fail(FGN_INVALID_ARGUMENT, "after[%d] has a vector or a tensor behind `second`", i);
    return FGN_OK;
}

static fgn_status check_rows(const fgn_rows *rows) {
    if (!rows)
        return fail(FGN_INVALID_ARGUMENT, "rows is NULL");
    if ((int)rows->function < 0 || (int)rows->function >= FGN_ROW_FUNCTIONS)
        return fail(FGN_INVALID_ARGUMENT, "function is %d, which is no fgn_row_function",
                    (int)rows->function);
    fgn_status status = check_sizes(rows->batch, 1, rows->features);
    if (status == FGN_OK && (rows->window < 1 || rows->window > rows->features))
        status = fail(FGN_INVALID_ARGUMENT, "window is %lld, expected 1 to %lld, the features", rows->window,
                      rows->features);
    if (status == FGN_OK)
        status = check_types(rows->type, rows->vector_type);
    if (status == FGN_OK)
        status = check_operators("before", rows->before_count, rows->before);
    if (status == FGN_OK)
        status = check_operators("after", rows->after_count, rows->after);
    if (status == FGN_OK)
        status = check_places(rows);
    return status == FGN_OK && rows->has_second ? check_second(rows) : status;
}

static struct rows rows_of(const fgn_rows *rows, const void *v, void *between, void *y) {
    int64_t windows = rows->features / rows->window;
    int64_t results = reduces(rows->function) ? windows : rows->features;
    int64_t size = element_bytes(rows->type);
    struct rows of = {(const char *)v + rows->first * size,
                      y,
                      between,
                      rows->type,
                      rows->vector_type,
                      rows->function,
                      rows->eps,
                      rows->batch,
                      rows->features,
                      windows,
                      rows->window,
                      without_others(list_of(rows->type, rows->features, rows->before_count, rows->before)),
                      without_others(list_of(rows->type, results, rows->after_count, rows->after)),
                      v_features_of(rows),
                      (const char *)v + rows->again * size,
                      rows->has_second != 0,
                      rows->second,
                      rows->before_second};
    return of;
}

static fgn_status check_tensors(const void *y, int64_t y_bytes, int count, const fgn_pointwise *step,
                                int64_t bytes) {
    fgn_status status = FGN_OK;
    for (int i = 0; i < count && status == FGN_OK; i++)
        if (takes_tensor(&step[i]))
            status = check_no_overlap("an operator's tensor", step[i].tensor, bytes, y, y_bytes);
    return status;
}

/* After FGN_VALUES a tensor of NULL means v, after a function that reduces its result. */
static fgn_status check_operands_after(const fgn_rows *rows) {
    fgn_status status = FGN_OK;
    bool reads_again = rows->function == FGN_VALUES || reduces(rows->function);
    for (int i = 0; i < rows->after_count && status == FGN_OK; i++)
        if (!reads_again || !takes_tensor(&rows->after[i]) || rows->after[i].tensor)
            status = check_operands("after", 1, &rows->after[i], rows->vector_type, rows->type);
    return status;
}

fgn_status fgn_rows_forward(const fgn_rows *rows, const void *v, void *between, void *y, void *stream) {
    fgn_status status = check_rows(rows);
    if (status != FGN_OK)
        return status;
    if (!reduces(rows->function) && rows->features % rows->window != 0)
        return fail(FGN_INVALID_ARGUMENT, "window is %lld, expected a divisor of the %lld features",
                    rows->window, rows->features);
    if (rows->batch == 0)
        return FGN_OK;
    struct rows of = rows_of(rows, v, between, y);
    int size = (int)element_bytes(rows->type);
    int64_t v_bytes = size * of.batch * of.v_features;
    int64_t y_bytes = size * of.batch * (of.has_second ? 1 : of.after.channels);
    status = check_aligned("v", v, size);
    if (status == FGN_OK)
        status = check_aligned("y", y, size);
    if (status == FGN_OK)
        status = check_operands("before", rows->before_count, rows->before, rows->vector_type, rows->type);
    if (status == FGN_OK)
        status = check_operands_after(rows);
    if (status == FGN_OK)
        status = check_no_overlap("v", v, v_bytes, y, y_bytes);
    if (status == FGN_OK && between && (rows->function == FGN_VALUES || rows->has_second))
        status =
            fail(FGN_INVALID_ARGUMENT, "between is given, expected NULL for FGN_VALUES or a second function");
    if (status == FGN_OK && between) {
        status = check_aligned("between", between, size);
        if (status == FGN_OK && overlap(v, v_bytes, between, v_bytes))
            status = fail(FGN_INVALID_ARGUMENT, "between overlaps v, expected memory of its own");
        if (status == FGN_OK)
            status = check_no_overlap("between", between, v_bytes, y, y_bytes);
        if (status == FGN_OK && rows->features % rows->window != 0)
            status =
                fail(FGN_INVALID_ARGUMENT, "between is given and window is %lld, expected a divisor of %lld",
                     rows->window, rows->features);
    }
    if (status == FGN_OK)
        status = check_tensors(y, y_bytes, rows->before_count, rows->before, size * of.batch * of.features);
    if (status == FGN_OK)
        status =
            check_tensors(y, y_bytes, rows->after_count, rows->after, size * of.batch * of.after.channels);
    if (status != FGN_OK)
        return status;
    return status_of(rows_forward(&of, (cudaStream_t)stream), "rows");
}
