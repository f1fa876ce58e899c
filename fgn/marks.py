"""Bits that fill memory before a kernel writes there: elements that the kernel leaves out still have them."""

# A signalling NaN, which no arithmetic makes: an element that still has these bits was never written.
# Arithmetic on x86-64 and Arm sets one bit and keeps the others: an element with that result was computed
# from unwritten memory, as by `y[i] += x[i]`.
NEVER_WRITTEN = 0x7FA5A5A5
READ_UNWRITTEN = NEVER_WRITTEN | 1 << 22
