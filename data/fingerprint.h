#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <vector>

namespace stiefel::data {

struct Dataset;

/// What tells one data set from another: how many images its parts have, and the CRC-32 of their pixels and
/// of their labels.
struct Fingerprint {
  struct Part {
    int64_t images = 0;
    uint32_t pixels = 0;
    uint32_t labels = 0;
  };
  Part train;
  Part test;
};

/// The CRC-32 of a tensor's numbers, in their order; on the CPU.
uint32_t checksum_of(const at::Tensor& tensor);

Fingerprint fingerprint_of(const Dataset& dataset);

/// What has changed, for people: "96 training images instead of 512", "other test labels". Empty where
/// nothing has.
std::vector<std::string> changes(const Fingerprint& before, const Fingerprint& now);

}  // namespace stiefel::data
