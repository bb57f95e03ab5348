#include "certified_images.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "base/excerpt.h"
#include "base/numbers.h"
#include "base/printable.h"

namespace stiefel::record {

namespace {

constexpr const char* kHeader = "image,label,predicted,margin,radius";

std::vector<std::string> fields_of(const std::string& line) {
  std::vector<std::string> fields;
  for (size_t begin = 0;;) {
    const auto comma = line.find(',', begin);
    fields.push_back(line.substr(begin, comma - begin));
    if (comma == std::string::npos) return fields;
    begin = comma + 1;
  }
}

double share(const std::vector<CertifiedImage>& images, int64_t count) {
  return images.empty() ? 0 : 100 * static_cast<double>(count) / static_cast<double>(images.size());
}

}  // namespace

std::string to_csv(const std::vector<CertifiedImage>& images) {
  std::string text = std::string(kHeader) + "\n";
  for (size_t i = 0; i < images.size(); ++i) {
    const auto& image = images[i];
    text += fmt::format("{},{},{},{},{}\n", i, image.label, image.predicted, image.margin, image.radius);
  }
  return text;
}

std::vector<CertifiedImage> parse_certified(const std::filesystem::path& file, const std::string& content) {
  std::vector<CertifiedImage> images;
  size_t number = 0;
  const auto fail = [&](const std::string& reason) {
    throw std::runtime_error(fmt::format("{}: line {}: {}; write it again with stiefel eval --certify",
                                         base::printable(file), number, reason));
  };
  for (size_t begin = 0; begin < content.size();) {
    ++number;
    const auto newline = content.find('\n', begin);
    if (newline == std::string::npos) fail("it was cut short");
    const auto line = content.substr(begin, newline - begin);
    begin = newline + 1;
    if (number == 1) {
      if (line != kHeader) fail(fmt::format("expected '{}', got '{}'", kHeader, base::excerpt(line)));
      continue;
    }
    const auto fields = fields_of(line);
    if (fields.size() != 5) fail(fmt::format("expected 5 values, got {}", fields.size()));
    try {
      if (base::to_whole(fields[0]) != static_cast<int64_t>(images.size()))
        fail(fmt::format("expected image {}, got {}", images.size(), base::excerpt(fields[0])));
      images.push_back({base::to_whole(fields[1]), base::to_whole(fields[2]), base::to_number(fields[3]),
                        base::to_number(fields[4])});
    } catch (const std::invalid_argument& error) {
      fail(error.what());
    }
    const auto& image = images.back();
    if (!std::isfinite(image.margin) || !std::isfinite(image.radius) || image.radius < 0) {
      fail("margin and radius must be finite, and the radius not below 0");
    }
  }
  return images;
}

double certified_accuracy(const std::vector<CertifiedImage>& images, double length) {
  return share(images, std::count_if(images.begin(), images.end(),
                                     [&](const auto& image) { return image.is_certified(length); }));
}

double clean_accuracy(const std::vector<CertifiedImage>& images) {
  return share(images, std::count_if(images.begin(), images.end(),
                                     [](const auto& image) { return image.predicted == image.label; }));
}

}  // namespace stiefel::record
