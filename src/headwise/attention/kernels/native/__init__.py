"""The fast one on a CPU: C++ on the vector instructions of this machine, every statistic in the pass that attention takes anyway.

Start reading at `problem.h`, then `forward.h`. Python's part is here: the call becomes plain arrays (visibility as an interval
for each row, planes as they are), and a mask or bias that is never held whole is evaluated for some rows at a time.
"""

from headwise.attention.call import Kernel
from headwise.attention.kernels.native.area import pool
from headwise.attention.kernels.native.call import attend, refusal

ENTRY = Kernel(attend=attend, refusal=refusal, preference=20, pool=pool)
