#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "config_entries.h"
#include "data/places.h"

namespace stiefel::record {

/// The options of a training run. The defaults are the paper's. What is left to the method and the data set
/// is filled in by train::resolve.
///
/// `visit` is the one list of the options: the command line, the config file and the tests all go through it,
/// so adding an option is adding a member and a line there. Names are those of the command line without the
/// dashes.
struct Config {
  std::string task = "image";
  std::string data = "fashion-mnist";
  std::string data_dir;
  std::string model = "auto";
  std::string optim = "cayley-sgd";
  int64_t epochs = 200;
  int64_t batch = 128;
  int64_t seed = 1;

  std::optional<double> lr;
  std::optional<double> lr_manifold;
  std::optional<double> momentum;
  bool nesterov = true;
  std::optional<double> weight_decay;
  bool decay_all = false;
  double beta1 = 0.9;
  std::optional<double> beta2;
  std::string rest = "auto";
  double clip = 0;
  std::string schedule = "auto";
  std::vector<double> drops;
  double drop_factor = 0.2;
  double warm_up = 0;

  int64_t iterations = 2;
  bool exact = false;
  std::string norm = "frobenius";
  bool polish = true;
  bool rms_scaled = false;
  double q = 0.5;
  int64_t root_rounds = 2;
  bool muon_nesterov = false;

  std::string loss = "cross-entropy";
  std::optional<double> temperature;
  std::optional<double> margin_radius;

  std::string penalty = "none";
  std::optional<double> penalty_weight;
  std::string penalty_schedule;
  int64_t srip_rounds = 2;
  std::string weights = "plain";
  int64_t group_size = 0;
  std::string normalization = "batch";
  bool sync_norm = false;
  bool share_steps = true;

  std::string augment = "auto";
  double dropout = 0;
  bool permuted = false;
  int64_t length = 100;
  std::optional<int64_t> validation;
  int64_t patience = 0;

  std::string device = "auto";
  std::string precision = "auto";
  std::string step_precision = "auto";
  std::string graph = "auto";
  std::string overlap_steps = "auto";
  int64_t threads = 0;
  bool channels_last = true;
  bool tensorboard = false;
  int64_t checkpoint_every = 0;

  /// Calls visitor(name, member, help) for each option in the order of the help text.
  template <class Self, class Visitor>
  static void visit(Self& self, Visitor&& visitor) {
    visitor("task", self.task, "image, or a sequence: pixel (images a pixel at a time), copying or adding");
    visitor("data", self.data, "data set: fashion-mnist, mnist, cifar10 or cifar100");
    visitor("data-dir", self.data_dir, data::kDataDirHelp);
    visitor("model", self.model,
            "network: small, vgg-13, vgg-16, vgg-19 or wrn-D-K (wrn-28-10) for images, lip-D-W or lip-D-W-P "
            "(lip-6-64) or "
            "lip-mlp-DxW (lip-mlp-8x128) whose predictions can be certified; urnn-N, ornn-N or rnn-N "
            "(urnn-116) for sequences; auto: small or urnn-116");
    visitor(
        "optim", self.optim,
        "optimiser: sgd, adam, adamw, muon, cayley-sgd, cayley-adam, cayley-muon, a retraction (polar, "
        "polar-ns, qr, cholesky-qr, wen-yin, cayley-closed or cayley-exact), or pogo or landing, which only "
        "come near it; landing's defect is bounded (by 0.5), not zero");
    visitor("epochs", self.epochs, "passes over the training set");
    visitor("batch", self.batch, "images per step, over all processes");
    visitor("seed", self.seed, "of the weights, the order, the augmentation and the dropout masks");
    visitor("lr", self.lr, "rate of the Euclidean parameters (default: the paper's for the optimiser)");
    visitor("lr-manifold", self.lr_manifold,
            "rate of the orthonormal weights, and of muon's matrices (default: the paper's; 0.01 for "
            "cayley-muon, "
            "0.02 for muon)");
    visitor("momentum", self.momentum,
            "of sgd, cayley-sgd, cayley-muon and muon (default 0.9); a retraction's orthonormal weights have "
            "it only when given");
    visitor("nesterov", self.nesterov,
            "Nesterov momentum where sgd trains Euclidean parameters, alone or as --rest");
    visitor("weight-decay", self.weight_decay,
            "of Euclidean matrices (default: 0.0005, 0.01 for adamw, 0 for sequences); none on biases, "
            "normalisation and orthonormal weights");
    visitor("decay-all", self.decay_all, "weight decay on biases and normalisation too");
    visitor("beta1", self.beta1, "of adam, adamw and cayley-adam");
    visitor("beta2", self.beta2, "of adam and adamw (default 0.999) and cayley-adam (default 0.99)");
    visitor("rest", self.rest,
            "what trains the parameters beside orthonormal ones: sgd, adam or rmsprop; auto: sgd for images, "
            "rmsprop for sequences");
    visitor("clip", self.clip, "upper bound on the norm of the Euclidean gradients; 0: none");
    visitor(
        "schedule", self.schedule,
        "of the rates: multi-step, cosine or constant; auto: multi-step for images (cosine under cayley-muon "
        "and muon), constant for sequences");
    visitor("drops", self.drops,
            "epochs at which multi-step drops the rates (default: 30, 60 and 80 % of them)");
    visitor("drop-factor", self.drop_factor, "what multi-step multiplies them by");
    visitor("warm-up", self.warm_up, "epochs of a linear start from 0");
    visitor("iterations", self.iterations, "rounds s of the Cayley iteration");
    visitor("exact", self.exact, "the closed-form Cayley transform instead of the iteration");
    visitor("norm", self.norm, "of the skew matrix in the bound on the step: frobenius, one or spectral");
    visitor("polish", self.polish,
            "corrections that keep the weights orthonormal; without, the paper's to the letter");
    visitor("rms-scaled", self.rms_scaled,
            "divide a retraction's gradient by its running root mean square, as the first uRNN did");
    visitor("q", self.q, "contraction factor of the iteration");
    visitor(
        "root-rounds", self.root_rounds,
        "rounds of the polynomial by which cayley-muon and muon make their directions orthonormal, 1 to 5");
    visitor("muon-nesterov", self.muon_nesterov, "Nesterov momentum of cayley-muon's and muon's matrices");
    visitor("loss", self.loss,
            "of images: cross-entropy, or, for lip- networks, one that asks for a margin: "
            "offset-cross-entropy, emma or hinge");
    visitor("temperature", self.temperature,
            "what scores are multiplied by before the softmax (default: 1; 2 for lip- networks)");
    visitor("margin-radius", self.margin_radius,
            "the perturbation of an image, in pixels from 0 to 1, whose margin a margin loss asks for "
            "(default: 0.4235, which is 108/255)");
    visitor("penalty", self.penalty,
            "soft constraint on convolutions under sgd, adam or adamw: none, so, dso or srip");
    visitor("penalty-weight", self.penalty_weight,
            "what the penalty is multiplied by before it joins the loss");
    visitor("penalty-schedule", self.penalty_schedule, "later weights as EPOCH:WEIGHT,… (20:1e-3,50:1e-4)");
    visitor("srip-rounds", self.srip_rounds, "rounds of srip's power iteration");
    visitor("weights", self.weights,
            "of the convolutions under sgd, adam or adamw: plain, or made orthonormal by omdsm, matrix-exp, "
            "cayley or householder");
    visitor("group-size", self.group_size,
            "output channels that omdsm makes orthonormal together; 0: all it can");
    visitor("normalisation", self.normalization, "batch, or dbn, which also decorrelates the channels");
    visitor("sync-norm", self.sync_norm,
            "batch statistics over the batches of all processes instead of each process's own");
    visitor("share-steps", self.share_steps,
            "with several processes: each steps some of the orthonormal weights and sends them to all; "
            "--no-share-steps: each steps all of them and sends nothing, which is faster over slow links");
    visitor("augment", self.augment, "auto (flip-crop for CIFAR, none otherwise), none, flip or flip-crop");
    visitor("dropout", self.dropout, "in the blocks of a Wide ResNet");
    visitor("permuted", self.permuted, "read the pixels of --task pixel in a fixed random order");
    visitor("length", self.length, "blanks of --task copying, or numbers of --task adding");
    visitor(
        "validation", self.validation,
        "training images set aside, by which the best checkpoint is chosen (default: 0, and 5000 for pixel)");
    visitor("patience", self.patience, "epochs without a better one after which a run ends; 0: never");
    visitor("device", self.device, "auto, cpu or cuda");
    visitor("precision", self.precision,
            "in which the network computes on a GPU: fp32, tf32 or bf16; auto: tf32 for images on a GPU, "
            "else fp32");
    visitor(
        "step-precision", self.step_precision,
        "of the steps of cayley-sgd, cayley-adam and cayley-muon on a GPU: full (float32), or mixed, which "
        "is faster and stays within about 1e-4 of orthonormal; auto: mixed for images unless --precision "
        "fp32");
    visitor("graph", self.graph, "auto: the whole training step as one CUDA graph on a GPU; off: never");
    visitor("overlap-steps", self.overlap_steps,
            "orthonormal weights are stepped while the backward pass goes on, as their gradients come: on or "
            "off; auto: off, as it saves no time on an H200. Results are the same");
    visitor("threads", self.threads, "of the CPU (default: $OMP_NUM_THREADS, else all cores)");
    visitor("channels-last", self.channels_last, "memory layout of images and convolutions");
    visitor("tensorboard", self.tensorboard, "write TensorBoard event files into the run folder");
    visitor("checkpoint-every", self.checkpoint_every,
            "epochs between checkpoints; 0: as often as they take a twentieth of the time at most");
  }

  /// Whether weights are orthonormal by the way they are parametrised.
  bool is_parametrized() const { return weights != "plain"; }

  /// Whether the task reads a data set.
  bool needs_data() const { return task == "image" || task == "pixel"; }
  bool has_penalty() const { return penalty != "none"; }

  /// What is learned, in one word: the data set, or the task that needs none.
  std::string task_name() const;

  /// β₂ of torch's ADAM, where it trains the parameters beside orthonormal ones too.
  double beta2_of_adam() const { return optim == "adam" || optim == "adamw" ? *beta2 : 0.999; }

  /// The method in one word: the optimiser and what is added to it, as in sgd+so, sgd+omdsm or qr+m.
  std::string method_name() const;
};

/// The config as TOML, one `name = value` per line, and back. Reading an unknown key is an error that names
/// it.
std::string to_toml(const Config& config);
Config config_from_toml(const std::string& text, const std::string& source);
Config config_from_entries(const std::vector<ConfigEntry>& entries, const std::string& source);

/// The names of the options in which two configs differ.
std::vector<std::string> differences(const Config& a, const Config& b);

/// Copies the options that do not change a run's result: threads, the folder of the data, TensorBoard's
/// files, how often checkpoints are written, whether steps are recorded into a graph, or taken behind the
/// backward pass.
void copy_result_neutral_options(Config& config, const Config& other);

}  // namespace stiefel::record
