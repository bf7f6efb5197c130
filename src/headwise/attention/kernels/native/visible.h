// What a row sees of a block of keys, and the scores that the softmax sees there.
#pragma once

#include "row.h"

namespace headwise {
namespace HEADWISE_ISA {

enum class Seen { none, some, all };

// How much of keys [from, until) the mask leaves to a row.
template <class Real> Seen seen_by_mask(const Problem& p, const Row<Real>& row, int64_t from, int64_t until) {
  if (from >= until) return Seen::none;
  if (!row.mask) return Seen::all;
  int64_t step = p.mask.stride[3];
  const uint8_t* at = row.mask + (from - p.plane_start) * step;
  if (step == 0) return *at ? Seen::all : Seen::none;
  uint8_t any = 0, every = 1;
  if (step == 1)
    for (int64_t j = 0; j < until - from; j++) any |= at[j], every &= at[j];
  else
    for (int64_t j = 0; j < until - from; j++) any |= at[j * step], every &= at[j * step];
  return every ? Seen::all : any ? Seen::some : Seen::none;
}

// What a group of rows sees of [from, until) together.
template <class Real> Seen group_sees(const Problem& p, const Row<Real>* rows, int count, int64_t from, int64_t until) {
  if (!p.mask.data) return Seen::all;
  bool any = false, every = true;
  for (int r = 0; r < count; r++) {
    Seen seen = seen_by_mask(p, rows[r], most(from, rows[r].first), least(until, rows[r].stop));
    any |= seen != Seen::none;
    every &= seen == Seen::all || rows[r].first >= rows[r].stop;
  }
  return !any ? Seen::none : every ? Seen::all : Seen::some;
}

// Columns [from, until) of a plane's row as contiguous numbers: in place where they are, else copied; 0 where the plane ends.
template <class T> const T* columns(const Problem& p, const T* row, int64_t step, int64_t block, int64_t from, int64_t until, T* copy) {
  int64_t start = block + from - p.plane_start, end = block + until - p.plane_start, width = p.plane_stop - p.plane_start;
  if (step == 1 && start >= 0 && end <= width) return row + start - from;
  for (int64_t j = start; j < end; j++) copy[from + j - start] = j >= 0 && j < width ? row[j * step] : T(0);
  return copy;
}

template <class Real> HEADWISE_INLINE Ints<Real> lanes_seen(const uint8_t* mask) {
  constexpr int lanes = Lanes<Real>::count;
  typedef uint8_t Bytes __attribute__((vector_size(lanes)));
  Bytes bytes;
  __builtin_memcpy(&bytes, mask, lanes);
  return __builtin_convertvector(bytes, Ints<Real>) != 0;
}

// Caps, biases and hides the scores of keys block + [from, until) in place; gives back the highest.
template <class Real>
Real masked(const Problem& p, const Row<Real>& row, int64_t block, int64_t from, int64_t until, Real* scores, Real* numbers, uint8_t* bytes) {
  constexpr int lanes = Lanes<Real>::count;
  const Vector<Real> hidden = all<Real>(-__builtin_inff());
  const Vector<Real> lowest = all<Real>(sizeof(Real) == 8 ? Real(-__DBL_MAX__) : Real(-__FLT_MAX__));
  const Real* bias = row.bias ? columns(p, row.bias, p.bias.stride[3], block, from, until, numbers) : nullptr;
  const uint8_t* mask = row.mask ? columns(p, row.mask, p.mask.stride[3], block, from, until, bytes) : nullptr;
  const Real cap = p.softcap * log2e;
  const Ints<Real> first = all_int<Real>(least(most(row.first - block, 0), until)), stop = all_int<Real>(least(row.stop - block, until));
  const bool inside = row.first <= block + from && row.stop >= block + until;
  Vector<Real> top = hidden;
  for (int64_t j = from; j < until; j += lanes) {
    Vector<Real> s = load(scores + j);
    if (p.softcap > 0) s = tanh<Real>(s) * cap;
    Ints<Real> key = ramp<Real>() + all_int<Real>(j), seen = all_int<Real>(-1);
    if (!inside) seen = (key >= first) & (key < stop);
    if (bias) {
      Vector<Real> b = load_loose<Real>(bias + j);
      Vector<Real> shift = b * Real(log2e);
      s += shift < lowest ? lowest : shift;  // a bias of the smallest float is a number, and stays one in these units
      seen &= b != hidden;                   // -inf hides a NaN as well
    }
    if (mask) seen &= lanes_seen<Real>(mask + j);
    s = seen ? s : hidden;
    store(scores + j, s);
    top = larger(s, top);
  }
  return highest<Real>(top);
}

// Whether the scores of a group must go through `masked`: something is hidden from some row, capped or biased.
template <class Real> bool cuts(const Row<Real>* rows, int count, int64_t from, int64_t until) {
  bool cut = false;
  for (int r = 0; r < count; r++) cut |= rows[r].first > from || rows[r].stop < until;
  return cut;
}

}  // namespace HEADWISE_ISA
}  // namespace headwise
