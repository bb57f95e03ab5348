#include <stiefel/cayley_muon.h>

#include "names.h"

namespace stiefel {

namespace {

constexpr detail::Names<MuonScale, 2> kScales{{
    {MuonScale::kNone, "none"},
    {MuonScale::kRms, "rms"},
}};

}  // namespace

std::string to_string(MuonScale scale) { return detail::name_of(kScales, scale, "scale"); }
MuonScale muon_scale_from_string(const std::string& name) { return detail::value_of(kScales, name, "scale"); }

void MuonTerms::validate() const {
  TORCH_CHECK(momentum >= 0 && momentum < 1, "stiefel: momentum must lie in [0, 1); got ", momentum);
  TORCH_CHECK(!nesterov || momentum > 0, "stiefel: nesterov needs a momentum above 0; got ", momentum);
  polar.validate();
}

}  // namespace stiefel
