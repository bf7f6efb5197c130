#define HEADWISE_ISA avx512
#define HEADWISE_BYTES 64
#define HEADWISE_ROWS 12
#include "kernel.h"
