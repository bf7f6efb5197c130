#define HEADWISE_ISA baseline
#define HEADWISE_BYTES 16
#define HEADWISE_ROWS 6
#include "kernel.h"
