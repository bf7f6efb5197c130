// One attention, as plain data: what Python hands over, and what every instruction set's kernel reads.
//
// Axes as everywhere in headwise: B batch, H query heads, G key heads, T queries, S keys, D and E widths.
#pragma once

#include <stdint.h>

namespace headwise {

enum class Element { f32, f64, f16, bf16 };

// A [B, H or G, T or S, width] array; strides in elements, 0 where an axis is broadcast.
struct Array {
  const char* data = nullptr;
  int64_t stride[4] = {0, 0, 0, 0};
};

enum Number { entropy, max_weight, participation, distance, first_key, previous_key, self_key, sink_share, numbers };

enum class Job { forward, received, pool };

struct Problem {
  Job job;
  int threads;  // how many will share the work: for how it is cut, never for what comes out
  int64_t B, H, G, T, S, D, E;
  Element element;  // of query, key, value and output
  Array query, key, value;
  double scale;
  double softcap;                   // 0: none
  Array first, stop;                // [B, H, T] int64: row i sees first <= j < stop ...
  Array mask;                       // [B, H, T, S] bytes: ... where this is not 0 (no data: everywhere)
  Array bias;                       // [B, H, T, S] in the type that is computed in
  int64_t plane_start, plane_stop;  // the keys that the columns of mask and bias stand for
  Array sink;                       // [H] double
  const int64_t* offset;            // [B]: query i stands at offset[b] + i
  const int64_t* segments;          // [B, S] labels, or null
  int64_t labels;

  // Of `pool`: keys [pool_start, pool_stop) of all queries, in cells of so many rows and keys.
  int64_t pool_start, pool_stop, cell;
  bool mean;  // of a cell, else its maximum

  // Results, contiguous; `lse` is read by the jobs that come after `forward`. Numbers are float, or double for double input.
  char* output;           // [B, H, T, E]
  void* lse;              // [B, H, T]
  void* number[numbers];  // [B, H, T] each, null where not asked for
  int64_t* peak;          // [B, H, T] or null
  void* spans;            // [B, H, T, labels] or null

  void* received;  // [B, H, S]
  void* pooled;    // [B, H, ceil(T / cell), ceil((pool_stop - pool_start) / cell)]

  // Polled between blocks: true means stop, the results are not wanted any more.
  bool (*stopped)(void* watch);
};

// What an instruction set offers. A problem falls into items that can be computed in any order, each by one thread, with the
// same bits whoever computes it.
struct Table {
  const char* name;
  int64_t (*items)(const Problem&);
  int64_t (*scratch)(const Problem&);  // bytes that each thread needs
  void (*run)(const Problem&, int64_t item, char* scratch, void* watch);
};

}  // namespace headwise
