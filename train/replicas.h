#pragma once

#include <ATen/core/Tensor.h>
#include <torch/nn/module.h>

#include <memory>
#include <string>

#include "data/fingerprint.h"
#include "distributed/world.h"
#include "resolve_config.h"

/// What processes that train one network have alike: their weights, and what rank 0 decides for all.
namespace stiefel::train {

/// Throws SharedError where a rank has read other data than rank 0, saying what differs and where rank 0's
/// lies.
void require_same_data(distributed::World& world, const data::Fingerprint& own, const Config& config,
                       const c10::Device& device);

/// A line for each parameter, its name and the checksum of its numbers: where two ranks' differ, their
/// weights do.
std::string weight_checksums(const torch::nn::Module& model);

/// Gives every rank the running statistics of rank 0's network, which has seen only its own part of the
/// batches.
void share_statistics(distributed::World& world, const torch::nn::Module& model);

/// What rank 0 has chosen, on every rank. `device` is where the world's tensors lie.
bool as_rank_0_says(distributed::World& world, bool chosen, const c10::Device& device);

/// The largest number of any rank.
int64_t largest_of_all(distributed::World& world, int64_t number, const c10::Device& device);

}  // namespace stiefel::train
