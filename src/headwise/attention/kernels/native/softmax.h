// Scores of a block become masses; the statistics are gathered on the way, while the scores are in registers.
#pragma once

#include "visible.h"

namespace headwise {
namespace HEADWISE_ISA {

template <class Real> struct Gathered {
  double mass, logs, squares, away;
};

template <class Real> struct Sums {
  Vector<Real> mass, logs, squares, away, place;
};

// mass = 2^(score - highest) in place for n vectors; a score of -inf, a hidden key, is worth exactly 0.
template <class Real, int n, bool near, bool measured> HEADWISE_INLINE void weigh_some(Real* scores, Real highest, Sums<Real>& sums) {
  constexpr int lanes = Lanes<Real>::count;
  Several<Real, n> x;
  HEADWISE_EACH x[i] = load(scores + i * lanes) - highest;
  Several<Real, n> mass = share<Real, n>(x);
  HEADWISE_EACH {
    store(scores + i * lanes, mass[i]);
    sums.mass += mass[i];
    if (!measured) continue;
    sums.logs += mass[i] * x[i];
    sums.squares += mass[i] * mass[i];
    if (near) {
      sums.away += mass[i] * (sums.place < Real(0) ? -sums.place : sums.place);
      sums.place += Real(lanes);
    } else {
      sums.away += sums.mass;
    }
  }
}

// `near`: the row's own position may lie among the keys, so that |p - j| is taken key by key; elsewhere Σ mass·j is enough, and
// the running sum of the running sum gives it without a multiplication.
template <class Real, bool near, bool measured> Gathered<Real> weigh(Real* scores, int64_t from, int64_t until, Real highest, int64_t behind) {
  constexpr int lanes = Lanes<Real>::count, n = 4;
  const Vector<Real> lane = __builtin_convertvector(ramp<Real>(), Vector<Real>);
  Sums<Real> sums = {{}, {}, {}, {}, lane + Real(near ? from - behind : 0)};
  int64_t j = from;
  for (; j + n * lanes <= until; j += n * lanes) weigh_some<Real, n, near, measured>(scores + j, highest, sums);
  for (; j < until; j += lanes) weigh_some<Real, 1, near, measured>(scores + j, highest, sums);

  Gathered<Real> found = {sum<Real>(sums.mass), 0, 0, 0};
  if (!measured) return found;
  found.logs = sum<Real>(sums.logs), found.squares = sum<Real>(sums.squares);
  if (near) {
    found.away = sum<Real>(sums.away);
  } else {  // Σ over steps c of c·m_c = steps·Σ m - Σ running sums
    int64_t steps = (until - from) / lanes;
    Vector<Real> moment = (sums.mass * Real(steps) - sums.away) * Real(lanes) + sums.mass * lane;
    double distance = double(from - behind) * found.mass + sum<Real>(moment);
    found.away = from > behind ? distance : -distance;
  }
  return found;
}

// The first of [from, until) that is this number; it is there.
template <class Real> int64_t first_equal(const Real* scores, int64_t from, int64_t until, Real number) {
  constexpr int lanes = Lanes<Real>::count;
  Ints<Real> found = all_int<Real>(until), here = ramp<Real>() + all_int<Real>(from);
  for (int64_t j = from; j < until; j += lanes, here += lanes) {
    Ints<Real> match = (load(scores + j) == number) & (here < found);
    found = match ? here : found;
  }
  int64_t first = until;
  for (int i = 0; i < lanes; i++) first = least(first, found[i]);
  return first;
}

template <class Real> double sum_between(const Real* mass, int64_t from, int64_t until) {
  constexpr int lanes = Lanes<Real>::count;
  Vector<Real> sums = {};
  double rest = 0;
  int64_t j = from;
  for (; j < until && j % lanes; j++) rest += mass[j];
  for (; j + lanes <= until; j += lanes) sums += load(mass + j);
  for (; j < until; j++) rest += mass[j];
  return rest + sum<Real>(sums);
}

// Takes one row through keys block + [from, until), whose highest score is `top`. Gives back the factor that what was gathered
// before is worth now.
template <class Real> Real take(Row<Real>& row, Real* scores, int64_t block, int64_t from, int64_t until, Real top, bool measured, const Problem& p,
                                const Run* runs, int64_t run_count) {
  constexpr Real none = -__builtin_inf();
  int64_t own = row.position - block;
  if (block == 0 && from == 0) row.at_first = scores[0];
  if (own - 1 >= from && own - 1 < until) row.at_previous = scores[own - 1];
  if (own >= from && own < until) row.at_self = scores[own];
  if (top > row.highest) row.peak = block + first_equal(scores, from, until, top);
  Real before = row.highest, now = top > before ? top : before;
  if (now == -none)
    for (int64_t j = from; j < until; j++) row.spoilt |= scores[j] != scores[j];
  row.highest = now;
  Real origin = now == none ? Real(0) : now;  // -inf - -inf would be NaN
  bool near = own > from - keys_in_block<Real> && own < until + keys_in_block<Real>;

  Gathered<Real> found;
  if (measured)
    found = near ? weigh<Real, true, true>(scores, from, until, origin, own) : weigh<Real, false, true>(scores, from, until, origin, own);
  else
    found = weigh<Real, true, false>(scores, from, until, origin, own);

  Real factor = before == now ? Real(1) : Real(sizeof(Real) == 4 ? __builtin_exp2f(before - now) : __builtin_exp2(before - now));
  if (factor != Real(1)) {
    double worth = factor;
    if (before > none) row.logs += row.mass * double(before - now);
    row.logs *= worth, row.mass *= worth, row.squares *= worth * worth, row.away *= worth;
    if (row.spans)
      for (int64_t label = 0; label < p.labels; label++) row.spans[label] *= worth;
  }
  row.mass += found.mass, row.logs += found.logs, row.squares += found.squares, row.away += found.away;
  if (row.spans)
    for (int64_t i = 0; i < run_count; i++) {
      int64_t start = most(runs[i].start, from), stop = least(runs[i].stop, until);
      if (start < stop) row.spans[runs[i].label] += sum_between(scores, start, stop);
    }
  return factor;
}

}  // namespace HEADWISE_ISA
}  // namespace headwise
