/* Launches that come again with the same addresses, as one CUDA graph: replaying a graph costs the host less
 * than a launch does, however many launches it has, and they follow each other sooner on the device. The
 * functions return a status of fgn.h. */
#pragma once

#ifdef __cplusplus
extern "C" {
#endif

/* Makes a stream of its own, and begins to capture it: launches into this stream do not run, they are noted.
 * Nothing that other threads do is captured, and nothing here spoils a capture of theirs. FGN_NOT_SUPPORTED
 * on the simulator. */
int fgn_begin_capture(void **stream);

/* Ends the capture, destroys its stream, and makes the graph that fgn_replay() launches. FGN_LAUNCH_FAILED if
 * something was done to the stream that cannot be captured. */
int fgn_end_capture(void *stream, void **graph);

/* Launches the graph. FGN_NOT_SUPPORTED, and nothing is launched, if the stream is itself being captured. */
int fgn_replay(void *graph, void *stream);

/* Frees the graph; launches of it that have begun are finished. */
void fgn_destroy_graph(void *graph);

#ifdef __cplusplus
} /* extern "C" */
#endif
