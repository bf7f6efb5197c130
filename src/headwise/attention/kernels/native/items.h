// How a problem falls into items: some queries of the heads that share a key head, so that packed keys serve them all.
#pragma once

#include "row.h"

namespace headwise {
namespace HEADWISE_ISA {

// Rows of an item: many, so that packing a block of keys is little beside using it; few enough to stay in the second-level cache.
constexpr int64_t rows_in_item = 240;

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
  s.heads = most(least(group, rows_in_item), 1);
  s.chunks = (group + s.heads - 1) / s.heads;
  s.queries = most(least(rows_in_item / s.heads, p.T), 1);
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
