// What each key receives from all queries: the columns' sums, a second pass once lse is known.
#pragma once

#include "items.h"
#include "product.h"
#include "visible.h"

namespace headwise {
namespace HEADWISE_ISA {

// An item is one block of keys of one key head: its packed keys meet every query of every head that shares them.
template <class Real> int64_t key_blocks(const Problem& p) { return (p.S + keys_in_block<Real> - 1) / keys_in_block<Real>; }
HEADWISE_INLINE int64_t received_items(const Problem& p) {
  return p.H == 0 ? 0 : p.B * p.G * (p.element == Element::f64 ? key_blocks<double>(p) : key_blocks<float>(p));
}

template <class Real> struct Received {
  Real *queries, *keys, *scores, *numbers;
  uint8_t* bytes;
  double* sums;

  Received(const Problem& p, Memory& memory) {
    constexpr int64_t block = keys_in_block<Real>;
    queries = memory.take<Real>(rows_held * p.D);
    keys = memory.take<Real>(block * p.D);
    scores = memory.take<Real>(block * rows_held);
    numbers = memory.take<Real>(block);
    bytes = memory.take<uint8_t>(block);
    sums = memory.take<double>(block);
  }
};

// Scores of [from, until) become weights in place: 2^(score - lse), exactly 0 where hidden, in a row of NaN too.
template <class Real> void weights_of(Real* scores, int64_t from, int64_t until, Real lse) {
  constexpr int lanes = Lanes<Real>::count, n = 2;
  for (int64_t j = from; j < until; j += n * lanes) {
    Several<Real, n> x;
    HEADWISE_EACH x[i] = load(scores + j + i * lanes) - lse;
    Several<Real, n> w = share<Real, n>(x);
    HEADWISE_EACH {
      Ints<Real> hidden = load(scores + j + i * lanes) == Real(-__builtin_inff());
      store(scores + j + i * lanes, (Vector<Real>)((Ints<Real>)w[i] & ~hidden));
    }
  }
}

template <class Real> void add_rows(const Real* weights, int count, int64_t from, int64_t until, double* sums) {
  for (int64_t j = from; j < until; j++) {
    Real sum = 0;
    for (int r = 0; r < count; r++) sum += weights[r * keys_in_block<Real> + j];
    sums[j] += sum;
  }
}

// Some queries of one head against the block: `count` rows from `query`.
template <class Real, class In>
void receive(const Problem& p, Received<Real>& f, int64_t batch, int64_t head, int64_t query, int count, int64_t block, int64_t end) {
  constexpr int64_t wide = columns_held<Real>;
  const Real nan = __builtin_nan(""), infinity = __builtin_inf();
  Row<Real> rows[rows_held];
  int64_t first = end, stop = 0;
  for (int r = 0; r < count; r++) {
    rows[r] = row_of<Real>(p, batch, head, query + r);
    if (rows[r].first < rows[r].stop) first = least(first, rows[r].first), stop = most(stop, rows[r].stop);
  }
  int64_t from = most(first - block, 0), until = least(stop, end) - block;
  if (from >= until) return;
  Seen seen = group_sees(p, rows, count, block + from, block + until);
  if (seen == Seen::none) return;
  from = from / wide * wide, until = rounded_up(until, wide);
  for (int r = 0; r < count; r++)
    pack_query<Real, In>(at<In>(p.query, batch, head, query + r), p.query.stride[3], p.D, Real(scale_of_queries(p)), r, f.queries);
  Vector<Real> tops[rows_held];
  with_rows(count, ScoreRows<Real>{f.queries, f.keys, p.D, from, until, f.scores, tops});
  bool cut = seen == Seen::some || p.bias.data || p.softcap > 0 || cuts(rows, count, block + from, block + until);
  for (int r = 0; r < count; r++) {
    Real* scores = f.scores + r * keys_in_block<Real>;
    if (cut) masked(p, rows[r], block, from, until, scores, f.numbers, f.bytes);
    Real lse = ((const Real*)p.lse)[(batch * p.H + head) * p.T + query + r];
    // A row of infinite lse has no weights; a dead one has only hidden keys.
    weights_of(scores, from, until, lse == infinity ? nan : lse == -infinity ? Real(0) : Real(lse * log2e));
  }
  add_rows(f.scores, count, from, until, f.sums);
}

template <class Real, class In> void received(const Problem& p, int64_t number, char* scratch, void* watch) {
  constexpr int64_t size = keys_in_block<Real>;
  Memory memory{scratch};
  Received<Real> f(p, memory);
  int64_t block = number % key_blocks<Real>(p) * size, shared = number / key_blocks<Real>(p);
  int64_t batch = shared / p.G, group = shared % p.G, heads = p.H / p.G, end = least(block + size, p.S);
  const In* key = at<In>(p.key, batch, group, block);
  pack_keys<Real, In>(key, p.key.stride[2], p.key.stride[3], p.D, 0, end - block, f.keys);
  for (int64_t head = group * heads; head < (group + 1) * heads; head++) {
    __builtin_memset(f.sums, 0, size * sizeof(double));
    for (int64_t query = 0; query < p.T; query += rows_held) {
      if (query % 64 < rows_held && p.stopped(watch)) return;
      receive<Real, In>(p, f, batch, head, query, least(rows_held, p.T - query), block, end);
    }
    Real* to = (Real*)p.received + (batch * p.H + head) * p.S + block;
    for (int64_t j = 0; j < end - block; j++) to[j] = f.sums[j];
  }
}

}  // namespace HEADWISE_ISA
}  // namespace headwise
