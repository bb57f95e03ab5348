#include "network.h"

namespace stiefel::train {

std::shared_ptr<models::Classifier> make_network(const Config& config, int64_t channels, int64_t classes) {
  models::ConstrainedLayers::Choice choice;
  if (config.is_parametrised()) choice.weights = parametrisation_from_string(config.weights);
  choice.group_size = config.group_size;
  choice.decorrelated = config.normalisation == "dbn";
  return models::make_classifier(config.model, {channels, classes, config.dropout},
                                 models::ConstrainedLayers(choice));
}

}  // namespace stiefel::train
