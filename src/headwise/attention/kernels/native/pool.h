// A rectangle of the T x S map of weights, pooled by maximum or mean while it is made: what a picture of the map needs.
#pragma once

#include "items.h"
#include "product.h"
#include "visible.h"

namespace headwise {
namespace HEADWISE_ISA {

// A cell is `cell` rows by `cell` keys of the map. An item is some lines of cells of one head, over some of the keys.
struct Grid {
  int64_t lines, columns;            // cells in all
  int64_t item_lines, item_columns;  // in an item
  int64_t down, across;              // items
};

HEADWISE_INLINE Grid grid(const Problem& p) {
  constexpr int64_t rows_wanted = 96, keys_wanted = 4096;
  Grid g;
  g.lines = (p.T + p.cell - 1) / p.cell, g.columns = (p.pool_stop - p.pool_start + p.cell - 1) / p.cell;
  g.item_lines = most(rows_wanted / p.cell, 1), g.item_columns = most(keys_wanted / p.cell, 1);
  g.down = (g.lines + g.item_lines - 1) / g.item_lines, g.across = (g.columns + g.item_columns - 1) / g.item_columns;
  return g;
}
HEADWISE_INLINE int64_t pool_items(const Problem& p) { return p.B * p.H * grid(p).down * grid(p).across; }

template <class Real> struct Pooling {
  Real *queries, *keys, *scores, *numbers, *column;
  uint8_t *bytes, *spoilt;
  double* cells;

  Pooling(const Problem& p, Memory& memory) {
    constexpr int64_t block = keys_in_block<Real>;
    queries = memory.take<Real>(rows_held * p.D);
    keys = memory.take<Real>(block * p.D);
    scores = memory.take<Real>(block * rows_held);
    numbers = memory.take<Real>(block);
    column = memory.take<Real>(block);
    bytes = memory.take<uint8_t>(block);
    spoilt = memory.take<uint8_t>(block);
    cells = memory.take<double>(grid(p).item_lines * grid(p).item_columns);
  }
};

// What one line of cells has of the keys of a block, key by key: the highest log of a weight, or the sum of the weights.
template <class Real> void empty_column(const Problem& p, Pooling<Real>& f) {
  for (int64_t j = 0; j < keys_in_block<Real>; j++) f.column[j] = p.mean ? Real(0) : Real(-__builtin_inf()), f.spoilt[j] = 0;
}

template <class Real> void into_column(const Problem& p, Pooling<Real>& f, const Real* scores, int64_t from, int64_t until, Real lse) {
  constexpr int lanes = Lanes<Real>::count, n = 2;
  const Real none = -__builtin_inf();
  if (lse != lse || lse == -none) {  // a row of NaN: it spoils what it sees
    for (int64_t j = from; j < until; j++) f.spoilt[j] |= scores[j] != none;
    return;
  }
  Real level = lse == none ? Real(0) : Real(lse * log2e);
  for (int64_t j = from; j < until; j += n * lanes) {
    Several<Real, n> x;
    HEADWISE_EACH x[i] = load(scores + j + i * lanes) - level;
    if (p.mean) {
      Several<Real, n> w = share<Real, n>(x);
      HEADWISE_EACH store(f.column + j + i * lanes, load(f.column + j + i * lanes) + w[i]);
    } else {
      HEADWISE_EACH store(f.column + j + i * lanes, larger(x[i], load(f.column + j + i * lanes)));
    }
  }
}

// The line's column into its cells; `key` is the first key of the block, counted from the item's.
template <class Real> void into_cells(const Problem& p, const Pooling<Real>& f, int64_t key, int64_t count, double* cells) {
  for (int64_t j = 0; j < count;) {
    int64_t index = (key + j) / p.cell, end = least((index + 1) * p.cell - key, count);
    double cell = cells[index];
    for (; j < end; j++) {
      double x = f.spoilt[j] ? __builtin_nan("") : double(f.column[j]);
      if (p.mean) cell += x;
      else if (x != x || x > cell) cell = x;  // a NaN stays: nothing is larger
    }
    cells[index] = cell;
  }
}

// Rows [row, row + count) of a line against the packed block.
template <class Real, class In>
void see(const Problem& p, Pooling<Real>& f, int64_t batch, int64_t head, int64_t row, int count, int64_t block, int64_t end) {
  constexpr int64_t wide = columns_held<Real>;
  Row<Real> rows[rows_held];
  int64_t first = end, stop = block;
  for (int r = 0; r < count; r++) {
    rows[r] = row_of<Real>(p, batch, head, row + r);
    if (rows[r].first < rows[r].stop) first = least(first, rows[r].first), stop = most(stop, rows[r].stop);
  }
  int64_t from = most(first - block, 0), until = least(stop, end) - block;
  if (from >= until) return;
  Seen seen = group_sees(p, rows, count, block + from, block + until);
  if (seen == Seen::none) return;
  from = from / wide * wide, until = rounded_up(until, wide);
  for (int r = 0; r < count; r++)
    pack_query<Real, In>(at<In>(p.query, batch, head, row + r), p.query.stride[3], p.D, Real(scale_of_queries(p)), r, f.queries);
  Vector<Real> tops[rows_held];
  with_rows(count, ScoreRows<Real>{f.queries, f.keys, p.D, from, until, f.scores, tops});
  bool cut = seen == Seen::some || p.bias.data || p.softcap > 0 || cuts(rows, count, block + from, block + until);
  for (int r = 0; r < count; r++) {
    Real* scores = f.scores + r * keys_in_block<Real>;
    if (cut) masked(p, rows[r], block, from, until, scores, f.numbers, f.bytes);
    into_column(p, f, scores, from, until, ((const Real*)p.lse)[(batch * p.H + head) * p.T + row + r]);
  }
}

template <class Real, class In> void pool(const Problem& p, int64_t number, char* scratch, void* watch) {
  constexpr int64_t size = keys_in_block<Real>;
  Memory memory{scratch};
  Pooling<Real> f(p, memory);
  Grid g = grid(p);
  int64_t across = number % g.across, down = number / g.across % g.down, shared = number / (g.across * g.down);
  int64_t batch = shared / p.H, head = shared % p.H, group = head / (p.H / p.G);
  int64_t line = down * g.item_lines, lines = least(g.item_lines, g.lines - line);
  int64_t column = across * g.item_columns, columns = least(g.item_columns, g.columns - column);
  int64_t start = p.pool_start + column * p.cell, stop = least(start + columns * p.cell, p.pool_stop);
  for (int64_t i = 0; i < lines * columns; i++) f.cells[i] = p.mean ? 0 : -__builtin_inf();

  for (int64_t block = start; block < stop; block += size) {
    int64_t end = least(block + size, stop);
    pack_keys<Real, In>(at<In>(p.key, batch, group, block), p.key.stride[2], p.key.stride[3], p.D, 0, end - block, f.keys);
    for (int64_t i = 0; i < lines; i++) {
      if (p.stopped(watch)) return;
      int64_t row = (line + i) * p.cell, last = least(row + p.cell, p.T);
      empty_column(p, f);
      for (; row < last; row += rows_held) see<Real, In>(p, f, batch, head, row, least(rows_held, last - row), block, end);
      into_cells(p, f, block - start, end - block, f.cells + i * columns);
    }
  }
  for (int64_t i = 0; i < lines; i++) {
    Real* to = (Real*)p.pooled + ((batch * p.H + head) * g.lines + line + i) * g.columns + column;
    int64_t rows = least(p.cell, p.T - (line + i) * p.cell);
    for (int64_t c = 0; c < columns; c++) {
      int64_t keys = least(p.cell, stop - start - c * p.cell);
      to[c] = p.mean ? f.cells[i * columns + c] / double(rows * keys) : __builtin_exp2(f.cells[i * columns + c]);
    }
  }
}

}  // namespace HEADWISE_ISA
}  // namespace headwise
