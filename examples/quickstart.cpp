#include <stiefel/stiefel.h>
#include <torch/torch.h>

int main() {
  torch::nn::Sequential net(torch::nn::Linear(784, 256), torch::nn::ReLU(), torch::nn::Linear(256, 10));
  auto split = stiefel::split_parameters(*net);  // the first layer's weight goes on the manifold
  for (auto& weight : split.manifold) stiefel::init::haar_(weight);
  auto free = stiefel::CayleySGDOptions(0.01).momentum(0.9).manifold(stiefel::Manifold::kEuclidean);
  stiefel::CayleySGD optimizer({{split.manifold}, {split.euclidean, free.clone()}},
                               stiefel::CayleySGDOptions(0.2).momentum(0.9));
  for (int step = 0; step < 100; ++step) {
    optimizer.zero_grad();
    torch::cross_entropy_loss(net->forward(torch::randn({64, 784})), torch::randint(10, {64})).backward();
    optimizer.step();
  }
  std::cout << "‖XXᵀ − I‖ = " << stiefel::defect(split.manifold[0]).item<double>() << "\n";
}
