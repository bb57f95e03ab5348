#pragma once

#include <cstdint>
#include <initializer_list>
#include <string_view>

namespace fuzz {

/// Decisions read from the bytes of an input, so that a fuzzer's mutations change one decision or another.
/// Past the end every choice is the first.
class Choices {
 public:
  explicit Choices(std::string_view bytes) : bytes_(bytes) {}

  bool empty() const { return at_ >= bytes_.size(); }

  int64_t between(int64_t low, int64_t high) {
    uint64_t value = 0;
    const auto range = static_cast<uint64_t>(high - low);
    for (uint64_t left = range; left > 0; left >>= 8) value = value << 8 | next();
    return low + static_cast<int64_t>(range + 1 == 0 ? value : value % (range + 1));
  }

  bool coin() { return between(0, 1) == 1; }

  template <class Value>
  Value pick(std::initializer_list<Value> values) {
    return values.begin()[between(0, static_cast<int64_t>(values.size()) - 1)];
  }

 private:
  uint64_t next() { return empty() ? 0 : static_cast<unsigned char>(bytes_[at_++]); }

  std::string_view bytes_;
  size_t at_ = 0;
};

}  // namespace fuzz
