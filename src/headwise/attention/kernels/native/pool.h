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

constexpr int64_t rows_pooled = 40 * rows_held;  // whose packed queries meet each block of keys before the next rows are taken

template <class Real> struct Pooling {
  Real *queries, *keys, *scores, *numbers, *column;
  uint8_t *bytes, *spoilt;
  Row<Real>* rows;
  double* cells;

  Pooling(const Problem& p, Memory& memory) {
    constexpr int64_t block = keys_in_block<Real>;
    queries = memory.take<Real>(rows_pooled * p.D);
    keys = memory.take<Real>(block * p.D);
    scores = memory.take<Real>(block * rows_held);
    numbers = memory.take<Real>(block);
    column = memory.take<Real>(block);
    bytes = memory.take<uint8_t>(block);
    spoilt = memory.take<uint8_t>(block);
    rows = memory.take<Row<Real>>(rows_pooled);
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
      if (p.mean)
        cell += x;
      else if (x != x || x > cell)
        cell = x;  // a NaN stays: nothing is larger
    }
    cells[index] = cell;
  }
}

// Scores of a group of rows for the keys of [block, end) that some of them see: columns [from, until), none where that is empty.
template <class Real>
void score_group(const Problem& p, Pooling<Real>& f, int64_t group, int count, int64_t block, int64_t end, int64_t* from, int64_t* until) {
  constexpr int64_t wide = columns_held<Real>, size = keys_in_block<Real>;
  const Row<Real>* rows = f.rows + group * rows_held;
  int64_t first = end, stop = block;
  for (int r = 0; r < count; r++)
    if (rows[r].first < rows[r].stop) first = least(first, rows[r].first), stop = most(stop, rows[r].stop);
  *from = most(first - block, 0), *until = least(stop, end) - block;
  if (*from >= *until) return;
  Seen seen = group_sees(p, rows, count, block + *from, block + *until);
  if (seen == Seen::none) {
    *until = *from;
    return;
  }
  *from = *from / wide * wide, *until = rounded_up(*until, wide);
  Vector<Real> tops[rows_held];
  with_rows(count, ScoreRows<Real>{f.queries + group * rows_held * p.D, f.keys, p.D, *from, *until, f.scores, tops});
  if (seen == Seen::some || p.bias.data || p.softcap > 0 || cuts(rows, count, block + *from, block + *until))
    for (int r = 0; r < count; r++) masked(p, rows[r], block, *from, *until, f.scores + r * size, f.numbers, f.bytes);
}

// Rows [row, row + count) of a head against the packed keys [block, end). Lines of cells follow one another: each has its column
// until the next begins.
template <class Real>
void see(const Problem& p, Pooling<Real>& f, int64_t row, int64_t count, int64_t first_line, int64_t columns, int64_t start, int64_t block, int64_t end) {
  int64_t line = -1;
  for (int64_t r = 0; r < count; r += rows_held) {
    int64_t from, until;
    int here = least(rows_held, count - r);
    score_group(p, f, r / rows_held, here, block, end, &from, &until);
    for (int i = 0; from < until && i < here; i++) {
      int64_t mine = (row + r + i) / p.cell - first_line;
      if (mine != line) {
        if (line >= 0) into_cells(p, f, block - start, end - block, f.cells + line * columns);
        empty_column(p, f);
        line = mine;
      }
      const Row<Real>& r_i = f.rows[r + i];
      into_column(p, f, f.scores + i * keys_in_block<Real>, from, until, ((const Real*)p.lse)[(r_i.batch * p.H + r_i.head) * p.T + r_i.query]);
    }
  }
  if (line >= 0) into_cells(p, f, block - start, end - block, f.cells + line * columns);
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

  int64_t last = least((line + lines) * p.cell, p.T);
  for (int64_t row = line * p.cell; row < last; row += rows_pooled) {
    int64_t count = least(rows_pooled, last - row);
    for (int64_t r = 0; r < count; r++) {
      f.rows[r] = row_of<Real>(p, batch, head, row + r);
      Real* place = f.queries + r / rows_held * rows_held * p.D;
      pack_query<Real, In>(at<In>(p.query, batch, head, row + r), p.query.stride[3], p.D, Real(scale_of_queries(p)), r % rows_held, place);
    }
    for (int64_t block = start; block < stop; block += size) {
      if (p.stopped(watch)) return;
      int64_t end = least(block + size, stop);
      bool any = false;
      for (int64_t r = 0; r < count; r++) any |= f.rows[r].first < end && f.rows[r].stop > block;
      if (!any) continue;
      pack_keys<Real, In>(at<In>(p.key, batch, group, block), p.key.stride[2], p.key.stride[3], p.D, 0, end - block, f.keys);
      see(p, f, row, count, line, columns, start, block, end);
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
