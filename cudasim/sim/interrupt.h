/* Ctrl-C for a running launch. Python's cffi reads this file after sim.h and as it stands. */
#pragma once

/* Until sim_release_signal() the signal stops the launches of the calling OS thread, and then the program's
 * handler runs; launches of other OS threads go on. A signal that the program ignores, or that ends it, is
 * left alone. For one thread and one signal at a time; pairs of calls may be nested. */
void sim_catch_signal(int number);
void sim_release_signal(void);
