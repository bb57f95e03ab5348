// Your own network and your own loop: a small convolutional network trained with Cayley ADAM, its filters
// orthonormal, everything else free; a schedule; and a checkpoint half-way from which a second run goes on
// exactly as the first did.
//
// The task is made here: stripes in four directions under noise. Where the stripes lie is random, so no
// single pixel tells anything.

#include <stiefel/stiefel.h>
#include <torch/torch.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <memory>
#include <vector>

using torch::Tensor;

constexpr int64_t kClasses = 4, kSide = 16, kBatch = 64;
constexpr int kEpochs = 6;
constexpr double kRate = 0.4, kFreeRate = 0.01;  // the paper's 0.4; the rest by ADAM

struct Data {
  Tensor images, labels;
};

Data stripes(int64_t count) {
  const double pi = std::acos(-1.0);
  const auto labels = torch::randint(kClasses, {count});
  const auto angle = (labels * (pi / kClasses)).view({count, 1, 1, 1});
  const auto phase = torch::rand({count, 1, 1, 1}) * (2 * pi);
  const auto across = torch::arange(kSide).view({1, 1, 1, kSide}), down = across.transpose(2, 3);
  const auto waves = (1.3 * (across * angle.cos() + down * angle.sin()) + phase).cos();
  return {waves + 1.5 * torch::randn_like(waves), labels};
}

struct NetImpl : torch::nn::Module {
  torch::nn::Conv2d conv1 =
      register_module("conv1", torch::nn::Conv2d(torch::nn::Conv2dOptions(1, 8, 3).padding(1).bias(false)));
  torch::nn::BatchNorm2d norm1 = register_module("norm1", torch::nn::BatchNorm2d(8));
  torch::nn::Conv2d conv2 =
      register_module("conv2", torch::nn::Conv2d(torch::nn::Conv2dOptions(8, 16, 3).padding(1).bias(false)));
  torch::nn::BatchNorm2d norm2 = register_module("norm2", torch::nn::BatchNorm2d(16));
  torch::nn::Linear head = register_module("head", torch::nn::Linear(16, kClasses));

  Tensor forward(const Tensor& images) {
    const auto first = torch::max_pool2d(torch::relu(norm1(conv1(images))), 2);
    return head(torch::relu(norm2(conv2(first))).mean({2, 3}));
  }
};
TORCH_MODULE(Net);

/// The filters on the manifold; plain ADAM for batch norm and the last layer.
std::unique_ptr<stiefel::CayleyAdam> make_optimizer(const stiefel::ParameterSplit& split) {
  const auto free = stiefel::CayleyAdamOptions(kFreeRate).manifold(stiefel::Manifold::kEuclidean);
  return std::make_unique<stiefel::CayleyAdam>(
      std::vector<torch::optim::OptimizerParamGroup>{{split.manifold}, {split.euclidean, free.clone()}},
      stiefel::CayleyAdamOptions(kRate));
}

void train(Net& net, stiefel::CayleyAdam& optimizer, const Data& data, int from, int to) {
  // A checkpoint brings back the rates of its moment; the schedule starts from the base rates.
  const stiefel::Schedule schedule({kRate, kFreeRate}, stiefel::schedules::cosine(kEpochs));
  net->train();
  for (int epoch = from; epoch < to; ++epoch) {
    schedule.apply(optimizer, epoch);
    // The order of the images depends on the epoch alone, so a resumed run sees them as the first did.
    torch::manual_seed(static_cast<uint64_t>(epoch));
    double sum = 0;
    const auto batches = torch::randperm(data.labels.size(0)).split(kBatch);
    for (const auto& batch : batches) {
      optimizer.zero_grad();
      auto loss = torch::cross_entropy_loss(net(data.images.index_select(0, batch)),
                                            data.labels.index_select(0, batch));
      loss.backward();
      optimizer.step();
      sum += loss.item<double>();
    }
    std::printf("epoch %d: loss %.4f\n", epoch + 1, sum / static_cast<double>(batches.size()));
  }
}

int main() {
  torch::manual_seed(1);
  const auto data = stripes(2048), test = stripes(512);

  Net net;
  const auto split = stiefel::split_parameters(*net);
  for (auto weight : split.manifold) stiefel::init::haar_(weight);
  const auto optimizer = make_optimizer(split);
  train(net, *optimizer, data, 0, kEpochs / 2);
  torch::save(net, "own_loop.net.pt");
  torch::save(*optimizer, "own_loop.optimizer.pt");
  train(net, *optimizer, data, kEpochs / 2, kEpochs);

  std::printf("again from the checkpoint\n");
  Net second;
  torch::load(second, "own_loop.net.pt");  // first the weights: an optimiser expects orthonormal ones
  const auto second_optimizer = make_optimizer(stiefel::split_parameters(*second));
  torch::load(*second_optimizer, "own_loop.optimizer.pt");
  train(second, *second_optimizer, data, kEpochs / 2, kEpochs);
  bool same = true;
  for (size_t i = 0; i < net->parameters().size(); ++i)
    same = same && torch::equal(net->parameters()[i], second->parameters()[i]);

  net->eval();
  torch::NoGradGuard no_grad;
  const double accuracy =
      (net(test.images).argmax(1) == test.labels).to(torch::kDouble).mean().item<double>();
  double defect = 0;
  for (const auto& weight : split.manifold) defect = std::max(defect, stiefel::defect(weight).item<double>());
  std::printf("accuracy on new images %.1f %%, largest defect %.1e, the second run is %s\n", 100 * accuracy,
              defect, same ? "the same bit for bit" : "DIFFERENT");
  std::remove("own_loop.net.pt");
  std::remove("own_loop.optimizer.pt");
  const bool good = accuracy > 0.95 && defect < 1e-5 && same;
  if (!good) std::printf("FAILED: expected 95 %%, a defect under 1e-5 and the same weights\n");
  return good ? 0 : 1;
}
