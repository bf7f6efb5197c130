#define HEADWISE_ISA neon
#define HEADWISE_BYTES 16
#define HEADWISE_ROWS 12
#include "kernel.h"
