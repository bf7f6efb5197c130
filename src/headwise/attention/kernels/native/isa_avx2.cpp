#define HEADWISE_ISA avx2
#define HEADWISE_BYTES 32
#define HEADWISE_ROWS 6
#include "kernel.h"
