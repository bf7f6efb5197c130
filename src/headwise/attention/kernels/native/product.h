// The two matrix products of attention, held in registers: rows_held rows by columns_held columns at a time.
#pragma once

#include "pack.h"

namespace headwise {
namespace HEADWISE_ISA {

// scores[r][j] = q_r · k_j for the keys of one panel, and the highest of each row so far.
template <class Real, int rows> HEADWISE_INLINE void score_panel(const Real* queries, const Real* panel, int64_t D, Real* scores, Vector<Real>* highest) {
  constexpr int lanes = Lanes<Real>::count, wide = columns_held<Real>, block = keys_in_block<Real>;
  Vector<Real> left[rows], right[rows];
#pragma GCC unroll 16
  for (int r = 0; r < rows; r++) left[r] = right[r] = Vector<Real>{};
  for (int64_t d = 0; d < D; d++) {
    Vector<Real> k0 = load(panel), k1 = load(panel + lanes);
#pragma GCC unroll 16
    for (int r = 0; r < rows; r++) {
      left[r] += k0 * queries[r];
      right[r] += k1 * queries[r];
    }
    panel += wide;
    queries += rows_held;
  }
#pragma GCC unroll 16
  for (int r = 0; r < rows; r++) {
    store(scores + r * block, left[r]);
    store(scores + r * block + lanes, right[r]);
    highest[r] = larger(left[r], larger(right[r], highest[r]));
  }
}

template <class Real, int rows>
void score_rows(const Real* queries, const Real* keys, int64_t D, int64_t from, int64_t until, Real* scores, Vector<Real>* highest) {
  for (int r = 0; r < rows; r++) highest[r] = all<Real>(-__builtin_inff());
  for (int64_t j = from; j < until; j += columns_held<Real>) score_panel<Real, rows>(queries, keys + j * D, D, scores + j, highest);
}

// out[r] = out[r] · factor[r] + Σ_j mass[r][j] · v_j for the columns of one panel.
template <class Real, int rows, int parts>
HEADWISE_INLINE void mix_panel(const Real* mass, const Real* panel, int64_t from, int64_t until, const Real* factor, Real* out, int64_t out_step) {
  constexpr int lanes = Lanes<Real>::count, block = keys_in_block<Real>;
  Vector<Real> sums[rows][parts];
#pragma GCC unroll 16
  for (int r = 0; r < rows; r++)
#pragma GCC unroll 2
    for (int p = 0; p < parts; p++) sums[r][p] = load(out + r * out_step + p * lanes) * factor[r];
  for (int64_t j = from; j < until; j++) {
    Vector<Real> v[parts];
#pragma GCC unroll 2
    for (int p = 0; p < parts; p++) v[p] = load(panel + (j * parts + p) * lanes);
#pragma GCC unroll 16
    for (int r = 0; r < rows; r++)
#pragma GCC unroll 2
      for (int p = 0; p < parts; p++) sums[r][p] += v[p] * mass[r * block + j];
  }
#pragma GCC unroll 16
  for (int r = 0; r < rows; r++)
#pragma GCC unroll 2
    for (int p = 0; p < parts; p++) store(out + r * out_step + p * lanes, sums[r][p]);
}

template <class Real, int rows>
void mix_rows(const Real* mass, const Real* values, int64_t E, int64_t from, int64_t until, const Real* factor, Real* out, int64_t out_step) {
  constexpr int lanes = Lanes<Real>::count, wide = columns_held<Real>, block = keys_in_block<Real>;
  for (int64_t panel = 0; panel < E; panel += wide) {
    if (E - panel > lanes)
      mix_panel<Real, rows, 2>(mass, values + panel * block, from, until, factor, out + panel, out_step);
    else
      mix_panel<Real, rows, 1>(mass, values + panel * block, from, until, factor, out + panel, out_step);
  }
}

// Calls `f` with the number of rows as a constant, so that each count has its own registers.
template <int rows, class F> HEADWISE_INLINE void with_rows_from(int count, F f) {
  if (count == rows)
    f.template run<rows>();
  else if constexpr (rows > 1)
    with_rows_from<rows - 1>(count, f);
}
template <class F> HEADWISE_INLINE void with_rows(int count, F f) { with_rows_from<rows_held>(count, f); }

template <class Real> struct ScoreRows {
  const Real* queries;
  const Real* keys;
  int64_t D, from, until;
  Real* scores;
  Vector<Real>* highest;
  template <int rows> void run() const { score_rows<Real, rows>(queries, keys, D, from, until, scores, highest); }
};
template <class Real> struct MixRows {
  const Real* mass;
  const Real* values;
  int64_t E, from, until;
  const Real* factor;
  Real* out;
  int64_t out_step;
  template <int rows> void run() const { mix_rows<Real, rows>(mass, values, E, from, until, factor, out, out_step); }
};

}  // namespace HEADWISE_ISA
}  // namespace headwise
