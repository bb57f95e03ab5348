#pragma once

#include <ATen/ATen.h>
#include <c10/util/intrusive_ptr.h>
#include <stiefel/ranks.h>

#include <memory>
#include <utility>
#include <vector>

namespace stiefel {

/// The ranks of a process group of c10d: ProcessGroup, or a backend of it such as ProcessGroupGloo or
/// ProcessGroupNCCL. A template, since LibTorch 2.0 took the backends out of ProcessGroup's family; include
/// the group's own header, with USE_C10D_GLOO or USE_C10D_NCCL defined where it asks for it.
template <class Group>
class ProcessGroupRanks final : public Ranks {
 public:
  explicit ProcessGroupRanks(c10::intrusive_ptr<Group> group) : group_(std::move(group)) {}

  int64_t rank() const override { return group_->getRank(); }
  int64_t size() const override { return group_->getSize(); }

  void sum_(const at::Tensor& tensor) override {
    std::vector<at::Tensor> tensors{tensor};
    group_->allreduce(tensors)->wait();
  }

  at::Tensor gather(const at::Tensor& tensor) override {
    auto sizes = tensor.sizes().vec();
    sizes.insert(sizes.begin(), size());
    auto all = at::empty(sizes, tensor.options());
    std::vector<at::Tensor> inputs{tensor};
    std::vector<std::vector<at::Tensor>> outputs{all.unbind(0)};
    group_->allgather(outputs, inputs)->wait();
    return all;
  }

 private:
  c10::intrusive_ptr<Group> group_;
};

template <class Group>
std::shared_ptr<Ranks> ranks_of(c10::intrusive_ptr<Group> group) {
  return std::make_shared<ProcessGroupRanks<Group>>(std::move(group));
}

}  // namespace stiefel
