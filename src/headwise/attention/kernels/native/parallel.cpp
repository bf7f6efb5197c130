#include "parallel.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <new>
#include <system_error>
#include <thread>
#include <vector>

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

namespace headwise {
namespace {

using Clock = std::chrono::steady_clock;
constexpr auto between_questions = std::chrono::milliseconds(100);

// Masses below the smallest normal number count as 0 while we compute: some processors take a hundred times as long over each.
class SmallIsZero {
#if defined(__x86_64__)
  unsigned before = _mm_getcsr();

public:
  SmallIsZero() { _mm_setcsr(before | 0x8000); }
  ~SmallIsZero() { _mm_setcsr(before); }
#endif
};

struct Shared {
  std::atomic<int64_t> next{0};
  std::atomic<bool> stop{false};
  std::mutex mutex;
  std::condition_variable one_ended;
  size_t ended = 0;
};

struct Watch {
  Shared& shared;
  const std::function<bool()>* interrupted;  // null in threads other than the caller's
  Clock::time_point asked = Clock::now();
};

bool stopped(void* watching) {
  Watch& watch = *static_cast<Watch*>(watching);
  if (watch.interrupted && Clock::now() - watch.asked > between_questions) {
    watch.asked = Clock::now();
    if ((*watch.interrupted)()) watch.shared.stop.store(true, std::memory_order_relaxed);
  }
  return watch.shared.stop.load(std::memory_order_relaxed);
}

struct Free {
  void operator()(char* memory) const { std::free(memory); }
};
using Scratch = std::unique_ptr<char, Free>;

Scratch scratch_for(const Table& table, const Problem& problem) {
  size_t bytes = (static_cast<size_t>(table.scratch(problem)) + 64) / 64 * 64;
  Scratch memory(static_cast<char*>(std::aligned_alloc(64, bytes)));
  if (!memory) throw std::bad_alloc();
  return memory;
}

void work(const Table& table, const Problem& problem, int64_t items, char* scratch, Watch watch) {
  SmallIsZero guard;
  for (int64_t item; !stopped(&watch) && (item = watch.shared.next.fetch_add(1)) < items;) table.run(problem, item, scratch, &watch);
}

}  // namespace

bool run_items(const Table& table, const Problem& given, int threads, const std::function<bool()>& interrupted) {
  Problem problem = given;
  problem.stopped = stopped;
  Shared shared;
  int64_t items = table.items(problem);
  if (items == 0) return true;
  int count = static_cast<int>(std::min<int64_t>(std::max(threads, 1), items));
  std::vector<Scratch> memory;
  memory.reserve(count);
  for (int i = 0; i < count; i++) memory.push_back(scratch_for(table, problem));

  std::vector<std::thread> others;
  try {
    for (int i = 1; i < count; i++)
      others.emplace_back([&, i] {
        work(table, problem, items, memory[i].get(), Watch{shared, nullptr});
        std::lock_guard<std::mutex> lock(shared.mutex);
        shared.ended++;
        shared.one_ended.notify_one();
      });
  } catch (const std::system_error&) {  // NOLINT(bugprone-empty-catch)
    // No more threads to be had: those that started, and this one, do the work.
  }
  Watch watch{shared, &interrupted};
  work(table, problem, items, memory[0].get(), watch);
  {
    // The caller has run out of items; while the others are still at theirs, it goes on listening.
    std::unique_lock<std::mutex> lock(shared.mutex);
    while (!shared.one_ended.wait_for(lock, between_questions, [&] { return shared.ended == others.size(); })) {
      lock.unlock();
      stopped(&watch);
      lock.lock();
    }
  }
  for (std::thread& other : others) other.join();
  return !shared.stop.load();
}

}  // namespace headwise
