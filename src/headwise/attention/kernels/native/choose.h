// Which instruction set to run on, from what the processor and the operating system offer.
#pragma once

#include <string>
#include <vector>

#include "problem.h"

namespace headwise {

// Those that run here, the fastest first.
const std::vector<const Table*>& tables();

// The one of this name, or the fastest for an empty name; null where it does not run here.
const Table* table_named(const std::string& name);

}  // namespace headwise
