#pragma once

#include <string>
#include <vector>

#include "row.h"

namespace stiefel::bench {

/// The rows in a format of base/output_format.h. In "json", an array of objects, unknown values are null.
std::string format_rows(const std::vector<Row>& rows, const std::string& format);

}  // namespace stiefel::bench
