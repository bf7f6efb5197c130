// Attention for the rows of one item: block by block of keys, group by group of rows.
#pragma once

#include "items.h"
#include "product.h"
#include "softmax.h"

namespace headwise {
namespace HEADWISE_ISA {

template <class Real> struct Forward {
  Real *queries, *keys, *values, *out, *scores, *numbers;
  uint8_t *bytes, *seen;
  double* spans;
  Run* runs;
  Row<Real>* rows;
  int64_t *group_first, *group_stop;
  int64_t out_step;

  Forward(const Problem& p, Memory& memory) {
    constexpr int64_t block = keys_in_block<Real>;
    int64_t rows_padded = rounded_up(split(p).rows(), rows_held);
    out_step = rounded_up(p.E, Lanes<Real>::count);
    queries = memory.take<Real>(rows_padded * p.D);
    keys = memory.take<Real>(block * p.D);
    values = memory.take<Real>(block * out_step);
    out = memory.take<Real>(rows_padded * out_step);
    scores = memory.take<Real>(block * rows_held);
    numbers = memory.take<Real>(block);
    bytes = memory.take<uint8_t>(block);
    seen = memory.take<uint8_t>(block * rows_held);
    spans = memory.take<double>(p.spans ? rows_padded * p.labels : 0);
    runs = memory.take<Run>(block);
    rows = memory.take<Row<Real>>(rows_padded);
    group_first = memory.take<int64_t>(rows_padded);
    group_stop = memory.take<int64_t>(rows_padded);
  }
};

HEADWISE_INLINE bool measures(const Problem& p) { return p.number[entropy] || p.number[participation] || p.number[distance]; }

// Queries packed, rows at their start, and the interval of keys that each group of rows sees.
template <class Real, class In> void begin(const Problem& p, const Item& item, Forward<Real>& f) {
  Real scale = scale_of_queries(p);
  int64_t count = item.rows();
  __builtin_memset(f.out, 0, rounded_up(count, rows_held) * f.out_step * sizeof(Real));
  if (f.spans) __builtin_memset(f.spans, 0, count * p.labels * sizeof(double));
  for (int64_t r = 0; r < count; r++) {
    int64_t head = item.head + r % item.heads, query = item.query + r / item.heads, group = r / rows_held, place = r % rows_held;
    f.rows[r] = row_of<Real>(p, item.batch, head, query);
    if (p.spans) f.rows[r].spans = f.spans + r * p.labels;
    pack_query<Real, In>(at<In>(p.query, item.batch, head, query), p.query.stride[3], p.D, scale, place, f.queries + group * rows_held * p.D);
    if (place == 0) f.group_first[group] = p.S, f.group_stop[group] = 0;
    if (f.rows[r].first < f.rows[r].stop) {
      f.group_first[group] = least(f.group_first[group], f.rows[r].first);
      f.group_stop[group] = most(f.group_stop[group], f.rows[r].stop);
    }
  }
}

// The keys of a block as runs of equal labels; those without a label are left out.
inline int64_t label_runs(const Problem& p, int64_t batch, int64_t block, int64_t count, Run* runs) {
  if (!p.spans) return 0;
  const int64_t* label = p.segments + batch * p.S + block;
  int64_t found = 0;
  for (int64_t j = 0; j < count; j++) {
    if (label[j] < 0 || label[j] >= p.labels) continue;
    if (found && runs[found - 1].stop == j && runs[found - 1].label == label[j])
      runs[found - 1].stop++;
    else
      runs[found++] = {j, j + 1, label[j]};
  }
  return found;
}

// Where a value is not finite, what is hidden may not even be multiplied by 0: key by key, only what is seen.
template <class Real> void mix_seen(const Real* mass, const uint8_t* seen, const Real* values, int64_t E, int64_t from, int64_t until, Real factor, Real* out) {
  constexpr int64_t lanes = Lanes<Real>::count, wide = columns_held<Real>, block = keys_in_block<Real>;
  for (int64_t e = 0; e < E; e++) {
    int64_t panel = e / wide * wide, width = E - panel > lanes ? wide : lanes;
    const Real* column = values + panel * block + e % wide;
    Real sum = out[e] * factor;
    for (int64_t j = from; j < until; j++)
      if (seen[j]) sum += mass[j] * column[j * width];
    out[e] = sum;
  }
}

// One group of rows against one block of keys. `from` and `until` are whole panels.
template <class Real>
void meet(const Problem& p, Forward<Real>& f, int64_t group, int count, int64_t block, int64_t from, int64_t until, bool masks, bool finite, int64_t runs) {
  constexpr int64_t step = keys_in_block<Real>;
  Row<Real>* rows = f.rows + group * rows_held;
  Real* out = f.out + group * rows_held * f.out_step;
  Vector<Real> tops[rows_held];
  Real factor[rows_held];
  with_rows(count, ScoreRows<Real>{f.queries + group * rows_held * p.D, f.keys, p.D, from, until, f.scores, tops});

  bool cut = masks || p.bias.data || cuts(rows, count, block + from, block + until);
  bool measured = measures(p), careful = cut && !finite;
  for (int r = 0; r < count; r++) {
    Real* scores = f.scores + r * step;
    Real top = cut || p.softcap > 0 ? masked(p, rows[r], block, from, until, scores, f.numbers, f.bytes) : highest<Real>(tops[r]);
    if (careful)
      for (int64_t j = from; j < until; j++) f.seen[r * step + j] = scores[j] != Real(-__builtin_inf());
    factor[r] = take(rows[r], scores, block, from, until, top, measured, p, f.runs, runs);
  }
  if (!careful) return with_rows(count, MixRows<Real>{f.scores, f.values, p.E, from, until, factor, out, f.out_step});
  for (int r = 0; r < count; r++) mix_seen(f.scores + r * step, f.seen + r * step, f.values, p.E, from, until, factor[r], out + r * f.out_step);
}

template <class Real> void put(void* to, int64_t index, double number) {
  if (to) ((Real*)to)[index] = number;
}

// Gathered mass becomes weights: the row's results.
template <class Real, class In> void finish(const Problem& p, const Row<Real>& row, const Real* out) {
  const double nan = __builtin_nan(""), infinity = __builtin_inf();
  int64_t index = (row.batch * p.H + row.head) * p.T + row.query;
  In* output = (In*)p.output + index * p.E;
  double sink = p.sink.data ? ((const double*)p.sink.data)[row.head * p.sink.stride[0]] * log2e : -infinity;
  double top = sink > row.highest ? sink : row.highest;
  bool lost = row.mass != row.mass || sink != sink, seen = row.highest > -infinity || row.mass != row.mass;
  double lse, norm, total = 1, nothing = seen ? 0 : nan;
  if (lost) {
    lse = row.highest == infinity && !row.spoilt && sink == sink ? infinity : nan;
    norm = nan;
  } else if (top == -infinity) {
    lse = -infinity, norm = 0;
  } else {
    // Not by way of lse: beside scores as large as floats go, lse has no digits left for log2(total).
    total = row.mass * __builtin_exp2(row.highest - top) + __builtin_exp2(sink - top);
    lse = top + __builtin_log2(total);
    norm = __builtin_exp2(row.highest - top) / total;
  }
  for (int64_t e = 0; e < p.E; e++) narrow(Real(out[e] * Real(norm)), output + e);
  put<Real>(p.lse, index, lse * ln2);
  double log_norm = seen && !lost ? (row.highest - top - __builtin_log2(total)) * ln2 : nothing;
  put<Real>(p.number[entropy], index, -norm * (row.logs * ln2 + row.mass * log_norm) + nothing);
  put<Real>(p.number[max_weight], index, norm + nothing);
  put<Real>(p.number[participation], index, seen ? 1 / (norm * norm * row.squares) : nan);
  put<Real>(p.number[distance], index, norm * row.away + nothing);
  double lost_or = lost ? nan : nothing;
  put<Real>(p.number[first_key], index, __builtin_exp2(row.at_first - top) / total + lost_or);
  put<Real>(p.number[previous_key], index, __builtin_exp2(row.at_previous - top) / total + lost_or);
  put<Real>(p.number[self_key], index, __builtin_exp2(row.at_self - top) / total + lost_or);
  put<Real>(p.number[sink_share], index, p.sink.data ? (lost ? nan : __builtin_exp2(sink - top) / total) : lost_or);
  if (p.peak) p.peak[index] = lost ? -1 : row.peak;
  for (int64_t label = 0; p.spans && label < p.labels; label++) ((Real*)p.spans)[index * p.labels + label] = row.spans[label] * norm + nothing;
}

template <class Real, class In> void forward(const Problem& p, int64_t number, char* scratch, void* watch) {
  constexpr int64_t size = keys_in_block<Real>, wide = columns_held<Real>;
  Memory memory{scratch};
  Forward<Real> f(p, memory);
  Item item = item_of(p, number);
  begin<Real, In>(p, item, f);

  int64_t count = item.rows(), groups = (count + rows_held - 1) / rows_held, first = p.S, stop = 0;
  for (int64_t g = 0; g < groups; g++) first = least(first, f.group_first[g]), stop = most(stop, f.group_stop[g]);
  const In* key = at<In>(p.key, item.batch, item.group, 0);
  const In* value = at<In>(p.value, item.batch, item.group, 0);
  for (int64_t block = first / size * size; block < stop; block += size) {
    if (p.stopped(watch)) return;
    int64_t here = most(first - block, 0), end = least(stop - block, size), runs = 0;
    bool packed = false, finite = true;
    for (int64_t g = 0; g < groups; g++) {
      int rows = least(rows_held, count - g * rows_held);
      int64_t from = most(f.group_first[g] - block, 0), until = least(f.group_stop[g] - block, size);
      if (from >= until) continue;
      Seen seen = group_sees(p, f.rows + g * rows_held, rows, block + from, block + until);
      if (seen == Seen::none) continue;
      if (!packed) {
        int64_t limit = least(rounded_up(end, wide), p.S - block);
        pack_keys<Real, In>(key + block * p.key.stride[2], p.key.stride[2], p.key.stride[3], p.D, here, limit, f.keys);
        finite = pack_values<Real, In>(value + block * p.value.stride[2], p.value.stride[2], p.value.stride[3], p.E, here, limit, f.values);
        runs = label_runs(p, item.batch, block, least(size, p.S - block), f.runs);
        packed = true;
      }
      meet(p, f, g, rows, block, from / wide * wide, rounded_up(until, wide), seen == Seen::some, finite, runs);
    }
  }
  for (int64_t r = 0; r < count; r++) finish<Real, In>(p, f.rows[r], f.out + r * f.out_step);
}

}  // namespace HEADWISE_ISA
}  // namespace headwise
