#include "network.h"

#include <fmt/format.h>
#include <torch/utils.h>

#include <stdexcept>
#include <utility>

#include "data/seeds.h"
#include "methods.h"
#include "models/classifier.h"
#include "models/recurrent_net.h"
#include "train/tasks/task.h"

namespace stiefel::train {

namespace {

std::shared_ptr<models::Network> make_image_network(const Config& config, const TaskShape& shape,
                                                    std::shared_ptr<Ranks> ranks) {
  models::ConstrainedLayers::Choice choice;
  if (config.is_parametrized()) choice.weights = parametrization_from_string(config.weights);
  choice.group_size = config.group_size;
  choice.decorrelated = config.normalization == "dbn";
  if (config.sync_norm) choice.ranks_of_norm = std::move(ranks);
  return models::make_classifier(config.model, {shape.inputs, shape.outputs, config.dropout},
                                 models::ConstrainedLayers(choice));
}

}  // namespace

std::shared_ptr<models::Network> make_network(const Config& config, std::shared_ptr<Ranks> ranks) {
  const auto shape = shape_of(config);
  if (!is_sequence_task(config.task)) return make_image_network(config, shape, std::move(ranks));
  return models::make_recurrent(config.model, {shape.inputs, shape.outputs, shape.every_step});
}

std::shared_ptr<models::Network> make_initial_network(const Config& config, const c10::Device& device,
                                                      std::shared_ptr<Ranks> ranks) {
  torch::manual_seed(data::mix(static_cast<uint64_t>(config.seed), 0, 0, data::Purpose::kInitialization));
  auto model = make_network(config, std::move(ranks));
  if (find_method(config.optim).facts.is_constrained()) model->place_on_manifold();
  model->to(device);
  const torch::NoGradGuard no_grad;
  const auto format = config.channels_last ? at::MemoryFormat::ChannelsLast : at::MemoryFormat::Contiguous;
  for (auto& parameter : model->parameters()) {
    if (parameter.dim() == 4) parameter.set_data(parameter.contiguous(format));
  }
  return model;
}

namespace {

ParameterSplit split_where(bool matrices_apart, const models::Network& network) {
  auto split = network.split();
  if (matrices_apart) return split;
  split.euclidean = network.parameters();
  split.manifold.clear();
  split.manifold_names.clear();
  return split;
}

}  // namespace

ParameterSplit split_for(const models::Network& network, const Config& config) {
  return split_where(find_method(config.optim).facts.is_constrained(), network);
}

Optimizers make_optimizers(const models::Network& network, const Config& config) {
  const auto& method = find_method(config.optim);
  return method.make(split_where(method.facts.has_matrix_rate(), network), config);
}

}  // namespace stiefel::train
