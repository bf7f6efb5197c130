// Runs the items of a problem on threads of our own.
#pragma once

#include <functional>

#include "problem.h"

namespace headwise {

// Every item once, on up to `threads` threads, the caller's among them. `interrupted` is asked by the caller's thread about ten
// times a second; true makes all threads stop soon. Gives back whether all items were done.
//
// Threads live for one call: nothing is left that a fork could break, and calls from several threads do not meet.
bool run_items(const Table& table, const Problem& problem, int threads, const std::function<bool()>& interrupted);

}  // namespace headwise
