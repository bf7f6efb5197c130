// How a problem falls into items: some queries of the heads that share a key head, so that packed keys serve them all.
#pragma once

#include "row.h"

namespace headwise {
namespace HEADWISE_ISA {

// Rows of an item: many, so that packing a block of keys is little beside using it; few enough that their queries and outputs
// stay in the second-level cache; and such that every thread has some items. A row's numbers do not depend on it.
HEADWISE_INLINE int64_t rows_in_item(const Problem& p) {
  constexpr int64_t cached = 64 << 10, least_rows = 10 * rows_held, most_rows = 480, items_each = 6;
  int64_t width = p.D + p.E, fit = least(most_rows, cached / most(width, 1));
  int64_t shared = p.B * p.H * p.T / (items_each * most(p.threads, 1));
  return rounded_up(most(least(fit, shared), least_rows), rows_held);
}

struct Split {
  int64_t heads;    // of a key head's query heads, how many at once
  int64_t chunks;   // of that many heads
  int64_t queries;  // at once
  int64_t blocks;   // of that many queries
  int64_t rows() const { return heads * queries; }
};

HEADWISE_INLINE Split split(const Problem& p) {
  int64_t group = p.G ? p.H / p.G : 0;
  Split s;
  int64_t rows = rows_in_item(p);
  s.heads = most(least(group, rows), 1);
  s.chunks = (group + s.heads - 1) / s.heads;
  s.queries = most(least(rows / s.heads, p.T), 1);
  s.blocks = (p.T + s.queries - 1) / s.queries;
  // As even as whole groups of rows allow.
  s.queries = most(least(rounded_up((p.T + s.blocks - 1) / most(s.blocks, 1), s.heads < rows_held ? rows_held : 1), s.queries), 1);
  s.blocks = (p.T + s.queries - 1) / s.queries;
  return s;
}

HEADWISE_INLINE int64_t forward_items(const Problem& p) {
  Split s = split(p);
  return p.B * p.G * s.chunks * s.blocks;
}

// The rows of one item. Neighbours in a row group share their query first, so that what a group sees is narrow.
struct Item {
  int64_t batch, group, head, heads, query, queries;
  int64_t rows() const { return heads * queries; }
};

HEADWISE_INLINE Item item_of(const Problem& p, int64_t number) {
  Split s = split(p);
  Item item;
  // Late queries first: with causality they take longest, and the short ones then fill the gaps at the end.
  int64_t block = s.blocks - 1 - number % s.blocks;
  int64_t chunk = number / s.blocks % s.chunks, shared = number / (s.blocks * s.chunks);
  int64_t per_group = p.H / p.G;
  item.batch = shared / p.G, item.group = shared % p.G;
  item.head = item.group * per_group + chunk * s.heads;
  item.heads = least(s.heads, per_group - chunk * s.heads);
  item.query = block * s.queries;
  item.queries = least(s.queries, p.T - item.query);
  return item;
}

// Hands out parts of the scratch memory, each at the start of a cache line. With no memory it only counts.
struct Memory {
  char* at;
  int64_t used = 0;
  template <class T> T* take(int64_t count) {
    T* part = at ? (T*)(at + used) : nullptr;
    used += rounded_up(count * (int64_t)sizeof(T), 64);
    return part;
  }
};

}  // namespace HEADWISE_ISA
}  // namespace headwise
