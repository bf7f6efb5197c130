// Blocks of the inputs, copied into the order in which the inner loops read them, and widened on the way.
#pragma once

#include "element.h"
#include "problem.h"

namespace headwise {
namespace HEADWISE_ISA {

// How many rows and columns of a product are held in registers at once.
constexpr int rows_held = HEADWISE_ROWS;
template <class Real> constexpr int columns_held = 2 * Lanes<Real>::count;

// Keys of a block: their packed keys and values and the queries of an item stay in the second-level cache together.
template <class Real> constexpr int keys_in_block = sizeof(Real) == 4 ? 256 : 128;

HEADWISE_INLINE int64_t rounded_up(int64_t x, int64_t unit) { return (x + unit - 1) / unit * unit; }

template <class In> HEADWISE_INLINE const In* at(const Array& a, int64_t i0, int64_t i1, int64_t i2) {
  return (const In*)a.data + i0 * a.stride[0] + i1 * a.stride[1] + i2 * a.stride[2];
}

// One query into column `place` of its group: [D][rows_held], times the scale.
template <class Real, class In> void pack_query(const In* query, int64_t step, int64_t D, Real scale, int place, Real* to) {
  for (int64_t d = 0; d < D; d++) to[d * rows_held + place] = Real(widened(query[d * step])) * scale;
}

// A square of lanes x lanes numbers turned over: row d of the result holds number d of every key.
template <class Real, int step> HEADWISE_INLINE void turn_step(Vector<Real>* x) {
  constexpr int count = Lanes<Real>::count;
  Ints<Real> upper;
  for (int i = 0; i < count; i++) upper[i] = i & step ? -1 : 0;
  for (int i = 0; i < count; i++) {
    if (i & step) continue;
    Vector<Real> low = x[i], high = x[i + step];
    x[i] = upper ? swapped<step>(high) : low;
    x[i + step] = upper ? high : swapped<step>(low);
  }
}
template <class Real> HEADWISE_INLINE void turn_over(Vector<Real>* x) {
  constexpr int count = Lanes<Real>::count;
  if constexpr (count > 8) turn_step<Real, 8>(x);
  if constexpr (count > 4) turn_step<Real, 4>(x);
  if constexpr (count > 2) turn_step<Real, 2>(x);
  turn_step<Real, 1>(x);
}

// Keys `from` to `until` of a block into panels of columns_held: [panel][D][columns_held]. Keys past `until` become 0.
template <class Real, class In> void pack_keys(const In* key, int64_t key_step, int64_t step, int64_t D, int64_t from, int64_t until, Real* to) {
  constexpr int lanes = Lanes<Real>::count, wide = columns_held<Real>;
  for (int64_t start = from / wide * wide; start < until; start += wide) {
    Real* panel = to + start * D;
    for (int half = 0; half < wide; half += lanes) {
      int64_t first = start + half, d = 0;
      if (step == 1 && first + lanes <= until) {
        for (; d + lanes <= D; d += lanes) {
          Vector<Real> x[lanes];
#pragma GCC unroll 16
          for (int j = 0; j < lanes; j++) x[j] = load_widened(key + (first + j) * key_step + d);
          turn_over<Real>(x);
#pragma GCC unroll 16
          for (int j = 0; j < lanes; j++) store(panel + (d + j) * wide + half, x[j]);
        }
      }
      for (int j = 0; j < lanes; j++)
        for (int64_t e = d; e < D; e++) panel[e * wide + half + j] = first + j < until ? Real(widened(key[(first + j) * key_step + e * step])) : Real(0);
    }
  }
}

// Values likewise, in panels of columns: [panel][keys_in_block][columns_held]; the last panel may be half as wide.
// True when all are finite.
template <class Real, class In> bool pack_values(const In* value, int64_t key_step, int64_t step, int64_t E, int64_t from, int64_t until, Real* to) {
  constexpr int lanes = Lanes<Real>::count, wide = columns_held<Real>, block = keys_in_block<Real>;
  Vector<Real> tainted = {};
  for (int64_t panel = 0; panel < E; panel += wide) {
    int width = E - panel > lanes ? wide : lanes;
    Real* rows = to + panel * block;
    int64_t end = rounded_up(until, wide);
    for (int64_t j = from / wide * wide; j < end; j++) {
      Real* row = rows + j * width;
      const In* in = value + j * key_step + panel * step;
      for (int part = 0; part < width; part += lanes) {
        Vector<Real> x = {};
        int64_t left = E - panel - part;
        if (j < until) {
          if (step == 1 && left >= lanes)
            x = load_widened(in + part);
          else
            for (int i = 0; i < lanes && i < left; i++) x[i] = Real(widened(in[(part + i) * step]));
        }
        store(row + part, x);
        tainted += x * Real(0);
      }
    }
  }
  Real taint = sum<Real>(tainted);
  return taint == taint;
}

}  // namespace HEADWISE_ISA
}  // namespace headwise
