#include "report/text.h"

#include <map>

#include "record/method_facts.h"

namespace stiefel::report {

std::string display_name(const std::string& name) {
  static const std::map<std::string, std::string> names = {
      // of data sets
      {"mnist", "MNIST"},
      {"fashion-mnist", "Fashion-MNIST"},
      {"cifar10", "CIFAR-10"},
      {"cifar100", "CIFAR-100"},
  };
  const auto found = names.find(name);
  return found == names.end() ? record::method_title(name) : found->second;
}

}  // namespace stiefel::report
