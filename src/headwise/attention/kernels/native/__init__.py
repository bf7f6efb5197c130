"""The native kernel for CPUs: C++ with the vector instructions of this machine, and all statistics in the same pass.

Start reading at `problem.h`, then `forward.h`. Python converts a call to plain arrays (an interval of visible keys for each row,
masks and biases as they are) and evaluates a mask or bias that is never held whole for some rows at a time.
"""

from headwise.attention.call import Kernel
from headwise.attention.kernels.native.attend_call import attend, refusal
from headwise.attention.kernels.native.pool_weights import pool

ENTRY = Kernel(attend=attend, refusal=refusal, preference=20, pool=pool)
