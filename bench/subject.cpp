#include "subject.h"

namespace stiefel::bench {

Subject network_subject(const std::string& model) {
  Subject subject;
  subject.network = network_workload(model);
  subject.weights = subject.network->weights;
  return subject;
}

Subject shape_subject(const std::string& shape) {
  Subject subject;
  subject.weights = shape_workload(shape);
  return subject;
}

std::vector<Subject> standard_subjects(bool quick) {
  std::vector<Subject> all;
  if (!quick) all = {network_subject("wrn-28-10"), network_subject("vgg-16")};
  const auto add = [&](const char* shape) { all.push_back(shape_subject(shape)); };
  add("640x5760");  // n = 9p: a 3×3 convolution that keeps its width
  add("256x2304");
  if (!quick) add("64x576");
  add("256x1024");
  add("256x512");
  add("128x128");
  add("256x256");
  add("512x512");
  if (!quick) add("1024x1024");
  if (!quick) add("2048x2048");
  add("16x64*4096");
  add("16x64x4096");
  return all;
}

}  // namespace stiefel::bench
