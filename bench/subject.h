#pragma once

#include <stiefel/cayley.h>

#include <optional>
#include <string>
#include <vector>

#include "network_workload.h"
#include "workloads.h"

namespace stiefel::bench {

/// What a step is taken on: weights, and where they are a network's, its activations.
struct Subject {
  Workload weights;
  std::optional<NetworkWorkload> network;
  Precision precision = Precision::kMixed;  ///< of Cayley steps on a GPU; elsewhere they are full
};

/// The weights and activations of a network, by the name that models::make_classifier takes.
Subject network_subject(const std::string& model);

/// See shape_workload.
Subject shape_subject(const std::string& shape);

/// The standard set: two networks, thin and square matrices, and thousands of small ones. `quick` leaves out
/// the networks, the large squares and what a similar shape stands for.
std::vector<Subject> standard_subjects(bool quick);

}  // namespace stiefel::bench
