// One query of one head while its keys pass by.
#pragma once

#include "pack.h"
#include "problem.h"

namespace headwise {
namespace HEADWISE_ISA {

constexpr double ln2 = 0.693147180559945309417;
constexpr double log2e = 1.44269504088896340736;

// Scores are kept in units of log 2, so that 2^x needs no multiplication. `mass` is 2^(score - highest).
template <class Real> struct Row {
  int64_t batch, head, query;
  int64_t first, stop, position;
  const uint8_t* mask;  // of key plane_start; null: none
  const Real* bias;
  Real highest;                      // score met so far
  bool spoilt;                       // a NaN was met among infinities
  double mass, logs, squares, away;  // Σ mass, Σ mass·(score - highest), Σ mass², Σ mass·|p - j|
  int64_t peak;
  Real at_first, at_previous, at_self;  // scores; -inf where not seen
  double* spans;                        // Σ mass of each label
};

// Queries are multiplied by this, so that scores come out ready for 2^x, or for the cap's tanh.
HEADWISE_INLINE double scale_of_queries(const Problem& p) { return p.softcap > 0 ? p.scale / p.softcap : p.scale * log2e; }

// A run of keys that carry the same label.
struct Run {
  int64_t start, stop, label;
};

template <class Real> Row<Real> row_of(const Problem& p, int64_t batch, int64_t head, int64_t query) {
  constexpr Real none = -__builtin_inf();
  Row<Real> row;
  row.batch = batch, row.head = head, row.query = query;
  row.first = most(*at<int64_t>(p.first, batch, head, query), 0);
  row.stop = least(*at<int64_t>(p.stop, batch, head, query), p.S);
  if (row.stop < row.first) row.stop = row.first;
  row.position = p.offset[batch] + query;
  row.mask = p.mask.data ? at<uint8_t>(p.mask, batch, head, query) : nullptr;
  row.bias = p.bias.data ? at<Real>(p.bias, batch, head, query) : nullptr;
  row.highest = none, row.spoilt = false;
  row.mass = row.logs = row.squares = row.away = 0;
  row.peak = -1;
  row.at_first = row.at_previous = row.at_self = none;
  row.spans = nullptr;
  return row;
}

}  // namespace HEADWISE_ISA
}  // namespace headwise
