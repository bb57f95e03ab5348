#include <stiefel/parameters.h>
#include <torch/nn/modules/activation.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/modules/rnn.h>
#include <torch/nn/modules/transformerlayer.h>

#include <unordered_set>

namespace stiefel {

namespace {

using torch::nn::Module;

/// The weight of a plain convolution, or undefined.
template <size_t D, class Impl>
at::Tensor plain_weight(const torch::nn::ConvNdImpl<D, Impl>& layer) {
  return layer.options.groups() == 1 ? layer.weight : at::Tensor();
}

at::Tensor convolution_weight(const Module& module) {
  if (const auto* layer = module.as<torch::nn::Conv1dImpl>()) return plain_weight(*layer);
  if (const auto* layer = module.as<torch::nn::Conv2dImpl>()) return plain_weight(*layer);
  if (const auto* layer = module.as<torch::nn::Conv3dImpl>()) return plain_weight(*layer);
  return {};
}

bool is_wide(const at::Tensor& weight) { return weight.size(0) <= weight.numel() / weight.size(0); }

bool is_recurrent(const Module& module) {
  return module.as<torch::nn::RNNImpl>() || module.as<torch::nn::LSTMImpl>() ||
         module.as<torch::nn::GRUImpl>() || module.as<torch::nn::RNNCellImpl>() ||
         module.as<torch::nn::LSTMCellImpl>() || module.as<torch::nn::GRUCellImpl>();
}

/// Whether the linear layers among a module's children are followed by more of the network, so that none of
/// them is a classifier.
bool is_inner(const Module& module) {
  return module.as<torch::nn::MultiheadAttentionImpl>() ||
         module.as<torch::nn::TransformerEncoderLayerImpl>() ||
         module.as<torch::nn::TransformerDecoderLayerImpl>();
}

/// The weights that go on the manifold by default.
class DefaultChoice {
 public:
  explicit DefaultChoice(const Module& root) {
    look_at(root);  // it need not be owned by a shared pointer, so modules() cannot list it
    for (const auto& module : root.modules(/*include_self=*/false)) look_at(*module);
    classifier_was_chosen_ = chosen_.erase(last_linear_) > 0;
  }

  bool holds(const at::Tensor& parameter) const { return chosen_.count(parameter.unsafeGetTensorImpl()) > 0; }
  bool empty() const { return chosen_.empty(); }

  /// Whether a linear layer stayed Euclidean only because it is the last.
  bool classifier_was_chosen() const { return classifier_was_chosen_; }

 private:
  void look_at(const Module& module) {
    if (is_inner(module)) {
      for (const auto& child : module.children()) {
        if (const auto* linear = child->as<torch::nn::LinearImpl>()) inner_.insert(linear);
      }
    }
    if (const auto* attention = module.as<torch::nn::MultiheadAttentionImpl>()) {
      choose(attention->in_proj_weight);
      for (const auto& weight :
           {attention->q_proj_weight, attention->k_proj_weight, attention->v_proj_weight}) {
        choose(weight);
      }
    } else if (is_recurrent(module)) {
      for (const auto& item : module.named_parameters(/*recurse=*/false)) {
        if (item.key().rfind("weight_hh", 0) == 0) choose(item.value());
      }
    } else if (const auto* linear = module.as<torch::nn::LinearImpl>()) {
      if (is_wide(linear->weight)) choose(linear->weight);
      if (inner_.count(linear) == 0) last_linear_ = linear->weight.unsafeGetTensorImpl();
    } else if (const auto weight = convolution_weight(module); weight.defined() && is_wide(weight)) {
      choose(weight);
    }
  }

  void choose(const at::Tensor& weight) {
    if (weight.defined() && weight.numel() > 0 && weight.requires_grad()) {
      chosen_.insert(weight.unsafeGetTensorImpl());
    }
  }

  std::unordered_set<const void*> chosen_;
  std::unordered_set<const void*>
      inner_;  // linear layers that are no classifiers; parents come before children
  const void* last_linear_ = nullptr;
  bool classifier_was_chosen_ = false;
};

/// Says that nothing goes on the manifold, and what to do about it.
void warn_of_nothing(const Module& root, const DefaultChoice& choice) {
  TORCH_WARN(
      "stiefel: no parameter of ", root.name(), " goes on the manifold",
      choice.classifier_was_chosen()
          ? ": its last linear layer is taken for a classifier and stays Euclidean, and there is no other"
          : ": it has no convolution or linear layer with at least as many inputs as outputs, no attention "
            "and no recurrent layer that needs a gradient",
      "; give split_parameters a predicate to choose, for example "
      "[](const auto& info) { return info.tensor.dim() == 2; }");
}

}  // namespace

ParameterSplit split_parameters(const Module& module, const ParameterPredicate& predicate) {
  const DefaultChoice choice(module);
  std::unordered_set<const void*> listed;
  ParameterSplit split;
  for (const auto& item : module.named_parameters()) {
    const void* identity = item.value().unsafeGetTensorImpl();
    if (!listed.insert(identity).second) continue;
    const ParameterInfo info{item.key(), item.value(), choice.holds(item.value())};
    const bool on_manifold = predicate ? predicate(info) : info.on_manifold;
    (on_manifold ? split.manifold : split.euclidean).push_back(info.tensor);
    (on_manifold ? split.manifold_names : split.euclidean_names).push_back(info.name);
  }
  if (choice.empty() && !predicate && !listed.empty()) warn_of_nothing(module, choice);
  return split;
}

}  // namespace stiefel
