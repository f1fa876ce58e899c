/* CUDA graphs of repeated launches (fgn_graphs.h).
 *
 * Idea: a launch costs the host the choice of its kernel, its arguments and the driver's work: 5 to 9 us on
 * the host of an H100, and cuBLAS's product 16 to 30. A graph keeps all that, and costs 3 us for a product
 * and its epilogue together. On the device the second launch begins up to 1.5 us sooner. What a graph cannot
 * do is change: it has the addresses with which it was captured. So the caller keeps one for each set of
 * addresses, and launches anew where none fits. */
#include "graphs/fgn_graphs.h"
#include "shared/checks.h"

#ifdef __CUDACC__

/* In this mode a thread's calls neither respect nor spoil captures of other threads. It is put back. */
static cudaStreamCaptureMode exchanged(cudaStreamCaptureMode mode) {
    cudaThreadExchangeStreamCaptureMode(&mode);
    return mode;
}

int fgn_begin_capture(void **stream) {
    cudaStream_t own = NULL;
    cudaStreamCaptureMode before = exchanged(cudaStreamCaptureModeRelaxed);
    cudaError_t error = cudaStreamCreateWithFlags(&own, cudaStreamNonBlocking);
    if (error == cudaSuccess)
        error = cudaStreamBeginCapture(own, cudaStreamCaptureModeRelaxed);
    if (error != cudaSuccess && own)
        cudaStreamDestroy(own);
    exchanged(before);
    *stream = own;
    return status_of(error, "capture");
}

int fgn_end_capture(void *stream, void **graph) {
    cudaGraph_t captured = NULL;
    cudaGraphExec_t made = NULL;
    cudaStreamCaptureMode before = exchanged(cudaStreamCaptureModeRelaxed);
    cudaError_t error = cudaStreamEndCapture((cudaStream_t)stream, &captured);
    if (error == cudaSuccess)
        error = cudaGraphInstantiate(&made, captured, 0);
    if (captured)
        cudaGraphDestroy(captured);
    cudaStreamDestroy((cudaStream_t)stream);
    exchanged(before);
    *graph = made;
    if (error != cudaSuccess)
        cudaGetLastError(); /* it is this function's, and no later launch's */
    return status_of(error, "capture");
}

int fgn_replay(void *graph, void *stream) {
    cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
    cudaError_t error = cudaStreamIsCapturing((cudaStream_t)stream, &status);
    if (error != cudaSuccess || status != cudaStreamCaptureStatusNone) {
        cudaGetLastError();
        return FGN_NOT_SUPPORTED;
    }
    return status_of(cudaGraphLaunch((cudaGraphExec_t)graph, (cudaStream_t)stream), "replay");
}

void fgn_destroy_graph(void *graph) {
    cudaGraphExecDestroy((cudaGraphExec_t)graph);
}

#else

int fgn_begin_capture(void **stream) {
    (void)stream;
    return fail(FGN_NOT_SUPPORTED, "the simulator has no CUDA graphs");
}

int fgn_end_capture(void *stream, void **graph) {
    (void)stream, (void)graph;
    return fail(FGN_NOT_SUPPORTED, "the simulator has no CUDA graphs");
}

int fgn_replay(void *graph, void *stream) {
    (void)graph, (void)stream;
    return fail(FGN_NOT_SUPPORTED, "the simulator has no CUDA graphs");
}

void fgn_destroy_graph(void *graph) {
    (void)graph;
}

#endif
