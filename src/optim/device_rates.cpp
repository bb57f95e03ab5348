#include <stiefel/detail/group_rate.h>
#include <stiefel/optim/device_rates.h>

namespace stiefel {

DeviceRates::~DeviceRates() = default;

void refresh_rates(torch::optim::Optimizer& optimizer) {
  if (auto* ours = dynamic_cast<DeviceRates*>(&optimizer)) ours->refresh_rates();
}

bool has_device_rates(const torch::optim::Optimizer& optimizer) {
  const auto* ours = dynamic_cast<const DeviceRates*>(&optimizer);
  return ours && ours->has_device_rates();
}

namespace detail {

void GroupRate::set(double value) {
  if (value_ == value) return;
  for (auto& copy : copies_) copy.fill_(value);
  value_ = value;
}

at::Tensor GroupRate::on(const at::Device& device, at::ScalarType type) {
  for (const auto& copy : copies_) {
    if (copy.device() == device && copy.scalar_type() == type) return copy;
  }
  return copies_.emplace_back(at::full({}, value_, at::TensorOptions(type).device(device)));
}

}  // namespace detail

}  // namespace stiefel
