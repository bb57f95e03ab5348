#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

/// What `stiefel eval --certify` found of every image: a CSV with the columns image, label, predicted, margin
/// and radius.
namespace stiefel::record {

/// The file's name in the run's folder.
inline constexpr const char* kCertifiedFile = "certified.csv";

struct CertifiedImage {
  int64_t label;
  int64_t predicted;
  double margin;  ///< between the largest score and the second
  double radius;  ///< no shorter perturbation changes the prediction; in pixels from 0 to 1

  /// Whether every perturbation up to this length leaves the image with its label.
  bool is_certified(double length) const { return predicted == label && radius > length; }
};

/// Numbers are written so that they read back as the same.
std::string to_csv(const std::vector<CertifiedImage>& images);

/// Throws std::runtime_error naming the file, the line and the remedy where the file is damaged.
std::vector<CertifiedImage> parse_certified(const std::filesystem::path& file, const std::string& content);

/// The share of images that are certified at a length, in per cent; at 0 all whose prediction is right, but
/// for ties.
double certified_accuracy(const std::vector<CertifiedImage>& images, double length);

/// The share whose prediction is right, in per cent.
double clean_accuracy(const std::vector<CertifiedImage>& images);

}  // namespace stiefel::record
