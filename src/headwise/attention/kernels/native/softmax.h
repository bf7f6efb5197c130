// Scores of a block become masses; the statistics are gathered on the way, while the scores are in registers.
#pragma once

#include "visible.h"

namespace headwise {
namespace HEADWISE_ISA {

template <class Real> struct Gathered {
  double mass, logs, squares, away;
};

// mass = 2^(score - highest) in place; a score of -inf, a hidden key, is worth exactly 0.
// `near`: the row's own position may lie among the keys, so that |p - j| is taken key by key; elsewhere Σ mass·j is enough, and
// the running sum of the running sum gives it without a multiplication.
template <class Real, bool near, bool measured>
Gathered<Real> weigh(Real* scores, int64_t from, int64_t until, Real highest, int64_t behind) {
  constexpr int lanes = Lanes<Real>::count;
  Vector<Real> mass = {}, logs = {}, squares = {}, away = {};
  Vector<Real> place = __builtin_convertvector(ramp<Real>(), Vector<Real>) + Real(near ? from - behind : 0);
  for (int64_t j = from; j < until; j += lanes) {
    Vector<Real> s = load(scores + j);
    Ints<Real> gone = s - highest < Word<Real>::lowest;  // hidden, or too far down to be a normal number
    Vector<Real> x = gone ? all<Real>(Word<Real>::lowest) : s - highest;
    Vector<Real> m = (Vector<Real>)((Ints<Real>)two_to<Real>(x) & ~gone);
    store(scores + j, m);
    mass += m;
    if (measured) {
      logs += m * x;
      squares += m * m;
      if (near) {
        away += m * (place < Real(0) ? -place : place);
        place += Real(lanes);
      } else {
        away += mass;
      }
    }
  }
  Gathered<Real> found = {sum<Real>(mass), 0, 0, 0};
  if (!measured) return found;
  found.logs = sum<Real>(logs), found.squares = sum<Real>(squares);
  if (near) {
    found.away = sum<Real>(away);
  } else {  // Σ over steps c of c·m_c = steps·Σ m - Σ running sums
    Vector<Real> moment = (mass * Real((until - from) / lanes) - away) * Real(lanes) + mass * place;
    double distance = double(from - behind) * found.mass + sum<Real>(moment);
    found.away = from > behind ? distance : -distance;
  }
  return found;
}

template <class Real> int64_t first_equal(const Real* scores, int64_t from, int64_t until, Real number) {
  for (int64_t j = from; j < until; j++)
    if (scores[j] == number) return j;
  return -1;
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
template <class Real>
Real take(Row<Real>& row, Real* scores, int64_t block, int64_t from, int64_t until, Real top, bool measured, const Problem& p,
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
  if (measured) found = near ? weigh<Real, true, true>(scores, from, until, origin, own) : weigh<Real, false, true>(scores, from, until, origin, own);
  else found = weigh<Real, true, false>(scores, from, until, origin, own);

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
