#include "base/json.h"

#include "errors.h"

// JSON of any file: refused by JsonError, or the same when it is written and read again.

namespace json_target {

FUZZ_TARGET(json) {
  using stiefel::base::JsonError;
  nlohmann::json value;
  if (!fuzz::reads<JsonError>([&] { value = stiefel::base::parse_json(std::string(input)); })) return;
  fuzz::require(stiefel::base::parse_json(stiefel::base::dump_json(value)) == value,
                "JSON changes when it is written");
}

}  // namespace json_target
