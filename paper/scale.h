#pragma once

#include <string>
#include <vector>

namespace stiefel::paper {

/// How much of the paper's work is done.
enum class Scale {
  kSmoke,  ///< a stand-in network on a little data for one epoch: whether everything works, nothing more
  kShort,  ///< a tenth of the epochs, the schedule scaled with them
  kFull,   ///< the paper's
};

std::string to_string(Scale scale);

/// Throws std::invalid_argument naming the scales.
Scale scale_from_string(const std::string& name);
const std::vector<Scale>& scales();

/// What every output of results at that scale says of them; empty for the full one.
std::string mark(Scale scale);

}  // namespace stiefel::paper
