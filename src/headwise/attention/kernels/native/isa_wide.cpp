// The shape of AVX-512, 16 lanes and 12 rows, on whatever the compiler is told to use: built for tests alone, so that its logic
// is tried where no such processor is.
#define HEADWISE_ISA wide
#define HEADWISE_BYTES 64
#define HEADWISE_ROWS 12
#include "kernel.h"
