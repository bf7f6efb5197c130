// The table of one instruction set. Each file that includes this sets HEADWISE_ISA (its name), HEADWISE_BYTES (of a vector) and
// HEADWISE_ROWS (rows held in registers: 2 vectors each, with room for two keys and a query).
#pragma once

#include "forward.h"
#include "pool.h"
#include "received.h"

namespace headwise {
namespace HEADWISE_ISA {

static int64_t items(const Problem& p) {
  switch (p.job) {
  case Job::forward:
    return forward_items(p);
  case Job::received:
    return received_items(p);
  case Job::pool:
    return pool_items(p);
  }
  return 0;
}

template <class Real> int64_t scratch_of(const Problem& p) {
  Memory memory{nullptr};
  switch (p.job) {
  case Job::forward:
    Forward<Real>(p, memory);
    break;
  case Job::received:
    Received<Real>(p, memory);
    break;
  case Job::pool:
    Pooling<Real>(p, memory);
    break;
  }
  return memory.used;
}

static int64_t scratch(const Problem& p) { return p.element == Element::f64 ? scratch_of<double>(p) : scratch_of<float>(p); }

template <class Real, class In> void run_as(const Problem& p, int64_t item, char* memory, void* watch) {
  switch (p.job) {
  case Job::forward:
    return forward<Real, In>(p, item, memory, watch);
  case Job::received:
    return received<Real, In>(p, item, memory, watch);
  case Job::pool:
    return pool<Real, In>(p, item, memory, watch);
  }
}

static void run(const Problem& p, int64_t item, char* memory, void* watch) {
  switch (p.element) {
  case Element::f32:
    return run_as<float, float>(p, item, memory, watch);
  case Element::f64:
    return run_as<double, double>(p, item, memory, watch);
  case Element::f16:
    return run_as<float, Half>(p, item, memory, watch);
  case Element::bf16:
    return run_as<float, Brain>(p, item, memory, watch);
  }
}

#define HEADWISE_QUOTED(name) #name
#define HEADWISE_NAME(name) HEADWISE_QUOTED(name)

extern const Table table;
const Table table = {HEADWISE_NAME(HEADWISE_ISA), items, scratch, run};

}  // namespace HEADWISE_ISA
}  // namespace headwise
