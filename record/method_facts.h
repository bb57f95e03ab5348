#pragma once

#include <string>
#include <vector>

/// The table of methods: names, titles, defaults and properties, without LibTorch. The functions that build a
/// method are found by its name: train/methods.cpp has those of optimisers, bench/contenders.cpp those of
/// benchmarks.
namespace stiefel::record {

/// How a method brings in orthonormality.
enum class MethodFamily {
  kEuclidean,        ///< an optimiser without a constraint (--optim)
  kCayley,           ///< the library's own optimisers (--optim)
  kRetraction,       ///< descent by a retraction, or by a pull that stands for one (--optim)
  kPenalty,          ///< a soft penalty that is added to the loss (--penalty)
  kParametrization,  ///< weights that a map of free parameters makes orthonormal (--weights)
  kNormalization,    ///< activations are decorrelated (--normalisation)
};

/// The part a method has in the paper's Table 3.
enum class PaperRole { kNone, kBaseline, kRival, kProposed };

/// One row of the table.
struct MethodFacts {
  std::string name;   ///< as options take it
  std::string title;  ///< as people call it
  MethodFamily family = MethodFamily::kEuclidean;
  PaperRole paper_role = PaperRole::kNone;

  // Defaults of an optimiser.
  double lr = 0;                 ///< learning rate of Euclidean parameters, for images
  double sequence_lr = 0;        ///< the same in recurrent networks
  double lr_manifold = 0;        ///< learning rate of the weights that are stepped as matrices, for images
  double pixel_lr_manifold = 0;  ///< of the unitary matrix where the task is pixels,
  double synthetic_lr_manifold = 0;  ///< and where it is copying or adding, whose gradients are small
  double beta2 = 0.999;
  double weight_decay = 5e-4;  ///< for images

  // Which options have an effect on it.
  bool uses_momentum = false;
  bool uses_betas = false;
  bool uses_root = false;       ///< moves along the polar factor of its momentum
  bool has_mixed_step = false;  ///< has kernels for --step-precision mixed

  double defect_bound = 0;  ///< of a method that leaves the manifold by design: the largest ‖XᴴX − I‖_F

  // The cost of a step.
  std::string operations;                ///< flop of a step on a p×n weight, n ≥ p, without those of SGD
  std::string operations_with_momentum;  ///< the same with momentum, where that takes more; else empty
  std::string lacks;                     ///< what Cayley SGD gives and this does not, besides momentum

  /// Whether `--optim` takes it.
  bool is_optimizer() const;

  /// Whether the optimiser keeps weights orthonormal, or within defect_bound of that.
  bool is_constrained() const;

  /// Whether weight matrices have a rate of their own, --lr-manifold.
  bool has_matrix_rate() const { return lr_manifold > 0; }

  /// Whether weights are orthonormal after every step, or within defect_bound of that, by the optimiser or by
  /// the way they are parametrised.
  bool keeps_orthonormal() const;

  /// Whether it is a retraction or stands for one, and its orthonormal weights have momentum only on request.
  bool is_retraction() const { return family == MethodFamily::kRetraction; }
};

const std::vector<MethodFacts>& method_facts();

/// By name; null where there is no such method.
const MethodFacts* find_method_facts(const std::string& name);

/// The facts of what `--optim` takes. Throws std::invalid_argument that lists the names otherwise.
const MethodFacts& optimizer_facts(const std::string& name);

/// Names in the order of the table.
std::vector<std::string> method_names(MethodFamily family);
std::vector<std::string> method_names(PaperRole role);

/// A method's title. A name may join several by "+", as a run's does: "sgd+so" is "SGD + SO", "qr+m" is
/// "QR + momentum". A name with an unknown part is returned as it is.
std::string method_title(const std::string& name);

}  // namespace stiefel::record
