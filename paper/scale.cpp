#include "scale.h"

#include "base/names.h"

namespace stiefel::paper {

namespace {

constexpr base::Names<Scale, 3> kScaleNames{
    {{Scale::kSmoke, "smoke"}, {Scale::kShort, "short"}, {Scale::kFull, "full"}}};

}  // namespace

std::string to_string(Scale scale) { return base::name_of(kScaleNames, scale); }

const std::vector<Scale>& scales() {
  static const std::vector<Scale> all{Scale::kSmoke, Scale::kShort, Scale::kFull};
  return all;
}

Scale scale_from_string(const std::string& name) { return base::from_name(kScaleNames, name, "--scale"); }

std::string mark(Scale scale) {
  switch (scale) {
    case Scale::kSmoke:
      return "smoke: stand-in network and a little data, one epoch; these are not the paper's experiments";
    case Scale::kShort:
      return "short: a tenth of the full epochs or iterations, with the schedule scaled";
    case Scale::kFull:
      break;
  }
  return "";
}

}  // namespace stiefel::paper
