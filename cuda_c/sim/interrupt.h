/* Ctrl-C for a running launch. Python's cffi reads this file after sim.h and as it stands. */
#pragma once

/* Until sim_release_signal() the signal does sim_interrupt() and then what the program has it do. A signal
 * that the program ignores, or lets end it, is left alone. For one thread and one signal at a time; pairs of
 * calls may be inside each other. */
void sim_catch_signal(int number);
void sim_release_signal(void);
