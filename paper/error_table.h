#pragma once

#include <string>
#include <vector>

#include "experiment.h"

namespace stiefel::paper {

/// The form that Tables 1 and 2 share: the last test error of six networks by four methods on one data set.
/// `errors` has a row for each of main_methods(), in the order of the networks.
Experiment error_table(const std::string& name, const std::string& data, const std::string& data_title,
                       const std::vector<std::vector<double>>& errors);

}  // namespace stiefel::paper
