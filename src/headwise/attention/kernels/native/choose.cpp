#include "choose.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace headwise {

#if defined(__x86_64__)
namespace avx512 {
extern const Table table;
}
namespace avx2 {
extern const Table table;
}
#elif defined(__aarch64__)
namespace neon {
extern const Table table;
}
#endif
namespace baseline {
extern const Table table;
}
#if defined(HEADWISE_WIDE)
namespace wide {
extern const Table table;
}
#endif

#if defined(__x86_64__)
namespace {

struct Leaf {
  unsigned a = 0, b = 0, c = 0, d = 0;
  Leaf(unsigned leaf, unsigned part) { __get_cpuid_count(leaf, part, &a, &b, &c, &d); }
};

// Which register files the operating system saves when it switches threads: a processor may have more than it may use.
unsigned long long saved_state() {
  if (!(Leaf(1, 0).c >> 27 & 1)) return 0;
  unsigned low, high;
  __asm__("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return (unsigned long long)high << 32 | low;
}

bool runs_avx2() {
  bool vectors = (saved_state() & 0x6) == 0x6;  // xmm, ymm
  bool fma = Leaf(1, 0).c >> 12 & 1, avx = Leaf(1, 0).c >> 28 & 1, avx2 = Leaf(7, 0).b >> 5 & 1;
  return vectors && avx && fma && avx2;
}

bool runs_avx512() {
  bool vectors = (saved_state() & 0xe6) == 0xe6;  // and opmask, zmm
  unsigned b = Leaf(7, 0).b;
  bool f = b >> 16 & 1, dq = b >> 17 & 1, bw = b >> 30 & 1, vl = b >> 31 & 1;
  return runs_avx2() && vectors && f && dq && bw && vl;
}

}  // namespace
#endif

const std::vector<const Table*>& tables() {
  static const std::vector<const Table*> found = [] {
    std::vector<const Table*> list;
#if defined(__x86_64__)
    if (runs_avx512()) list.push_back(&avx512::table);
    if (runs_avx2()) list.push_back(&avx2::table);
#elif defined(__aarch64__)
    list.push_back(&neon::table);
#endif
    list.push_back(&baseline::table);
#if defined(HEADWISE_WIDE)
    list.push_back(&wide::table);
#endif
    return list;
  }();
  return found;
}

const Table* table_named(const std::string& name) {
  for (const Table* table : tables())
    if (name.empty() || name == table->name) return table;
  return nullptr;
}

}  // namespace headwise
