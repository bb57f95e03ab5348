#pragma once

#include <cstddef>
#include <list>
#include <memory>
#include <mutex>
#include <utility>

/// Plans of steps, made at the first step on a list of shapes and reused at the next.
namespace stiefel::cuda {

/// The latest `kMost` plans, and every plan that a captured graph may point into: such a graph can be
/// replayed at any time, and there is no notice when it is destroyed. Safe to use from several threads.
template <class Key, class Plan>
class PlanCache {
 public:
  static constexpr size_t kMost = 64;

  /// The plan for a key; `make` makes one where there is none. A plan that was requested once with `captured`
  /// is never dropped.
  template <class Make>
  std::shared_ptr<const Plan> find(const Key& key, bool captured, Make&& make) {
    const std::lock_guard<std::mutex> alone(mutex_);
    for (auto it = latest_.begin(); it != latest_.end(); ++it) {
      if (!(it->key == key)) continue;
      latest_.splice(latest_.begin(), latest_, it);
      latest_.front().captured |= captured;
      return latest_.front().plan;
    }
    latest_.push_front({key, std::make_shared<const Plan>(std::forward<Make>(make)()), captured});
    const auto plan = latest_.front().plan;
    evict();
    return plan;
  }

  size_t size() const { return latest_.size(); }

 private:
  struct Entry {
    Key key;
    std::shared_ptr<const Plan> plan;
    bool captured;
  };

  /// Drops the oldest plan that no graph points into, where there are too many of these.
  void evict() {
    size_t free = 0;
    auto oldest = latest_.end();
    for (auto it = latest_.begin(); it != latest_.end(); ++it) {
      if (it->captured) continue;
      ++free;
      oldest = it;
    }
    if (free > kMost) latest_.erase(oldest);
  }

  std::mutex mutex_;
  std::list<Entry> latest_;  // the latest first
};

}  // namespace stiefel::cuda
