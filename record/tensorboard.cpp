#include "tensorboard.h"

#include <array>
#include <cstring>

#include "base/files.h"

namespace stiefel::record {

namespace {

template <class T>
std::string raw(T value) {
  // Little-endian, as the format is and as all our machines are.
  std::string bytes(sizeof value, '\0');
  std::memcpy(bytes.data(), &value, sizeof value);
  return bytes;
}

std::string varint(uint64_t value) {
  std::string bytes;
  for (; value >= 0x80; value >>= 7) bytes.push_back(static_cast<char>((value & 0x7f) | 0x80));
  bytes.push_back(static_cast<char>(value));
  return bytes;
}

// A field's key is its number and its wire type: 0 varint, 1 eight bytes, 2 counted bytes, 5 four bytes.
std::string key(int field, int type) { return varint(static_cast<uint64_t>(field << 3 | type)); }
std::string counted(int field, const std::string& bytes) {
  return key(field, 2) + varint(bytes.size()) + bytes;
}

uint32_t masked(const std::string& bytes) {
  const auto crc = crc32c(bytes);
  return ((crc >> 15) | (crc << 17)) + 0xa282ead8U;
}

std::string record(const std::string& data) {
  const auto length = raw(static_cast<uint64_t>(data.size()));
  return length + raw(masked(length)) + data + raw(masked(data));
}

// message Event { double wall_time = 1; int64 step = 2; string file_version = 3; Summary summary = 5; }
std::string event(double wall_time, int64_t step, const std::string& rest) {
  return key(1, 1) + raw(wall_time) + key(2, 0) + varint(static_cast<uint64_t>(step)) + rest;
}

}  // namespace

uint32_t crc32c(const std::string& bytes) {
  static const auto table = [] {
    std::array<uint32_t, 256> t{};
    for (uint32_t i = 0; i < 256; ++i) {
      uint32_t c = i;
      for (int bit = 0; bit < 8; ++bit) c = (c >> 1) ^ ((c & 1) ? 0x82f63b78U : 0U);
      t[i] = c;
    }
    return t;
  }();
  uint32_t crc = ~0U;
  for (const char byte : bytes) crc = (crc >> 8) ^ table[(crc ^ static_cast<unsigned char>(byte)) & 0xff];
  return ~crc;
}

std::string tensorboard_header(double wall_time) {
  return record(event(wall_time, 0, counted(3, "brain.Event:2")));
}

std::string tensorboard_scalar(const std::string& tag, float value, int64_t step, double wall_time) {
  // message Summary { repeated Value value = 1; } with Value { string tag = 1; float simple_value = 2; }
  const auto summary = counted(1, counted(1, tag) + key(2, 5) + raw(value));
  return record(event(wall_time, step, counted(5, summary)));
}

void write_tensorboard(const std::filesystem::path& folder, const std::vector<EpochMetrics>& history,
                       double started) {
  auto bytes = tensorboard_header(started);
  for (const auto& metrics : history) {
    const nlohmann::json values = metrics;
    for (const auto& [name, value] : values.items()) {
      if (name == "epoch" || name == "step" || !value.is_number()) continue;
      bytes += tensorboard_scalar(name, value.get<float>(), metrics.epoch, started + metrics.seconds);
    }
  }
  base::write_file(folder / "events.out.tfevents.0.stiefel", bytes);
}

}  // namespace stiefel::record
