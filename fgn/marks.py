"""Bits that memory is filled with before a kernel writes there: what a kernel leaves out is told by them."""

# A signalling NaN, which no arithmetic makes: an element that still has these bits was never written.
# Arithmetic of x86-64 and Arm sets one bit of it and keeps the others: an element with those was computed
# from memory that nobody had written, as by `y[i] += x[i]`.
NEVER_WRITTEN = 0x7FA5A5A5
READ_UNWRITTEN = NEVER_WRITTEN | 1 << 22
