#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <memory>
#include <stdexcept>

#include "base/files.h"
#include "base/printable.h"
#include "base/progress_line.h"
#include "base/standard_streams.h"
#include "base/table.h"
#include "command.h"
#include "number_options.h"
#include "radii.h"
#include "record/certified_images.h"
#include "run_model.h"
#include "train/attack.h"
#include "train/certificate.h"
#include "train/device.h"
#include "train/resolve_config.h"
#include "train/tasks/image_task.h"

namespace stiefel::app {

namespace {

constexpr int64_t kBatch = 500;

struct Options {
  std::string run;
  std::string data_dir;
  std::string device = "auto";
  bool last = false;
  std::vector<std::string> certify;
  std::vector<std::string> attack;
  train::AttackOptions attack_options;
  int64_t images = 0;
  std::string out;
};

/// The test images of a run and its network as a function of them.
struct Subject {
  const train::ImageTask& task;
  const train::PixelNetwork& network;
  int64_t images;

  /// Calls visitor(pixels, labels) for every batch.
  template <class Visitor>
  void each_batch(Visitor&& visitor) const {
    for (int64_t at = 0; at < images; at += kBatch) {
      const auto batch = task.raw_items(train::Task::Part::kTest, at, std::min(at + kBatch, images));
      visitor(network.pixels_of(batch.inputs), batch.targets);
    }
  }
};

/// What was found at each radius, in per cent of the images.
struct Robustness {
  double clean = 0;
  std::map<double, std::string> names;  // of the radii, as they were given
  std::map<double, double> certified;
  std::map<double, double> attacked;
};

std::vector<record::CertifiedImage> certify(const Subject& subject, const train::Certificate& certificate) {
  std::vector<record::CertifiedImage> images;
  subject.each_batch([&](const at::Tensor& pixels, const at::Tensor& labels) {
    const auto found = certificate.certify(pixels);
    const auto whole = [](const at::Tensor& t) { return t.to(at::kCPU).contiguous(); };
    const auto predicted = whole(found.predicted), label = whole(labels);
    const auto margin = whole(found.margin), radius = whole(found.radius);
    for (int64_t i = 0; i < label.size(0); ++i) {
      images.push_back({label.data_ptr<int64_t>()[i], predicted.data_ptr<int64_t>()[i],
                        margin.data_ptr<double>()[i], radius.data_ptr<double>()[i]});
    }
  });
  return images;
}

/// The share of images whose prediction is right, in per cent.
double clean_accuracy(const Subject& subject) {
  const at::NoGradGuard no_grad;
  int64_t right = 0;
  subject.each_batch([&](const at::Tensor& pixels, const at::Tensor& labels) {
    right += subject.network(pixels).argmax(1).eq(labels).sum().item<int64_t>();
  });
  return 100 * static_cast<double>(right) / static_cast<double>(subject.images);
}

/// Which images an attack at a radius broke, and whose prediction it changed.
struct AttackResult {
  std::vector<bool> broken, changed;
};

AttackResult attack(const Subject& subject, const train::AttackOptions& options, const std::string& radius,
                    base::ProgressLine& progress) {
  AttackResult result;
  subject.each_batch([&](const at::Tensor& pixels, const at::Tensor& labels) {
    progress.now(fmt::format("attack at {}: image {} of {}", radius, result.broken.size(), subject.images));
    const auto found = train::attack(subject.network, pixels, labels, options);
    const auto broken = found.broken.to(at::kCPU).contiguous();
    const auto changed = found.changed.to(at::kCPU).contiguous();
    for (int64_t i = 0; i < broken.size(0); ++i) {
      result.broken.push_back(broken.data_ptr<bool>()[i]);
      result.changed.push_back(changed.data_ptr<bool>()[i]);
    }
  });
  return result;
}

/// Throws where an attack has changed a prediction that was certified: a fault of the certificate.
void require_unbroken(const std::vector<record::CertifiedImage>& images, const AttackResult& result,
                      const Radius& radius) {
  int64_t contradicted = 0;
  for (size_t i = 0; i < images.size(); ++i)
    contradicted += images[i].radius > radius.value && result.changed[i];
  if (contradicted == 0) return;
  throw std::runtime_error(fmt::format(
      "the attack at {} changed {} predictions that are certified at it: the certificate is wrong; please "
      "report this with the run's folder",
      radius.text, contradicted));
}

std::string cell(const std::map<double, double>& values, double radius) {
  const auto found = values.find(radius);
  return found == values.end() ? "" : fmt::format("{:.2f}", found->second);
}

void print(const Robustness& found, int64_t images) {
  base::Table::Row header{"radius"};
  if (!found.certified.empty()) header.emplace_back("certified %");
  if (!found.attacked.empty()) header.emplace_back("under attack %");
  base::Table table(header, "lr");
  const auto add = [&](const std::string& name, const std::string& certified, const std::string& attacked) {
    base::Table::Row row{name};
    if (!found.certified.empty()) row.push_back(certified);
    if (!found.attacked.empty()) row.push_back(attacked);
    table.add(row);
  };
  const auto clean = fmt::format("{:.2f}", found.clean);
  add("0 (clean)", clean, clean);
  for (const auto& [radius, name] : found.names)
    add(name, cell(found.certified, radius), cell(found.attacked, radius));
  fmt::print("accuracy over {} test images, by the longest perturbation, in pixels from 0 to 1:\n{}", images,
             table.text());
}

/// The certificate and the attack, as far as they are asked for.
void examine(const Options& options, const OpenRun& run, const train::Task& task, const c10::Device& device) {
  const auto radii = parse_radii(options.certify), attacked_radii = parse_radii(options.attack);
  const bool lipschitz = models::is_lipschitz(run.config.model);
  const auto& image_task = dynamic_cast<const train::ImageTask&>(task);
  auto model = build_network(run);
  model->to(device);
  // What is certified is the network in float64; others are attacked as they were trained.
  const train::PixelNetwork network(model, image_task.normalization(), lipschitz ? at::kDouble : at::kFloat);
  const auto all = task.size(train::Task::Part::kTest);
  const Subject subject{image_task, network, options.images > 0 ? std::min(options.images, all) : all};
  Robustness found;
  std::vector<record::CertifiedImage> images;
  if (!radii.empty()) {
    const train::Certificate certificate(network);
    images = certify(subject, certificate);
    found.clean = record::clean_accuracy(images);
    for (const auto& radius : radii) {
      found.names[radius.value] = radius.text;
      found.certified[radius.value] = record::certified_accuracy(images, radius.value);
    }
    fmt::print("Lipschitz constant before the scores: {:.6f} per pixel from 0 to 1\n",
               certificate.lipschitz());
  }
  base::ProgressLine progress;
  for (const auto& radius : attacked_radii) {
    auto attack_options = options.attack_options;
    attack_options.radius = radius.value;
    const auto result = attack(subject, attack_options, radius.text, progress);
    if (!images.empty()) require_unbroken(images, result, radius);
    found.names[radius.value] = radius.text;
    found.attacked[radius.value] =
        100 * static_cast<double>(std::count(result.broken.begin(), result.broken.end(), false)) /
        static_cast<double>(subject.images);
  }
  if (!attacked_radii.empty()) progress.done();
  if (images.empty()) found.clean = clean_accuracy(subject);
  print(found, subject.images);
  if (images.empty()) return;
  const auto path = options.out.empty() ? std::filesystem::path(options.run) / record::kCertifiedFile
                                        : std::filesystem::path(options.out);
  base::write_file(path, record::to_csv(images));
  fmt::print("margin and radius of every image: {}\n", base::printable(path));
}

}  // namespace

void add_eval(CLI::App& app) {
  auto* command = app.add_subcommand(
      "eval", "loss and error of a run's network on the test set; certified accuracy, and under attack");
  const auto options = std::make_shared<Options>();
  command->add_option("RUN", options->run, "the run's folder")->required();
  command->add_option("--data-dir", options->data_dir,
                      "the only folder to look for the data in (default: as the run did)");
  command->add_option("--device", options->device, "auto, cpu or cuda")->capture_default_str();
  command->add_flag("--last", options->last, "the last checkpoint instead of the best");
  command
      ->add_option(
          "--certify", options->certify,
          "certified accuracy at these radii (36/255,72/255,108/255): the longest perturbation of an "
          "image, in pixels from 0 to 1")
      ->delimiter(',');
  command
      ->add_option("--attack", options->attack,
                   "accuracy under projected gradient descent at these radii, of any image network")
      ->delimiter(',');
  command->add_option("--attack-steps", options->attack_options.steps, "of each attack")
      ->capture_default_str()
      ->transform(whole_number(1, 1000000));
  command
      ->add_option("--attack-restarts", options->attack_options.restarts,
                   "the first from the image, others from random places")
      ->capture_default_str()
      ->transform(whole_number(1, 1000000));
  command->add_option("--images", options->images, "certify and attack the first ones only; 0: all")
      ->capture_default_str()
      ->transform(whole_number(0));
  command->add_option("-o,--out", options->out,
                      "where --certify writes margin and radius of every image (default: RUN/certified.csv)");
  command->callback([options] {
    auto run = open_run(options->run, options->last);
    const bool examines = !options->certify.empty() || !options->attack.empty();
    parse_radii(options->certify), parse_radii(options->attack);  // bad ones fail before any work
    if (!options->out.empty() && options->certify.empty()) {
      throw std::invalid_argument("--out has no meaning without --certify");
    }
    if (!options->certify.empty()) train::require_certifiable(run.config.model);
    if (examines && run.config.task != "image") {
      throw std::runtime_error(fmt::format("--attack is for images; {} was trained with --task {}",
                                           base::printable(options->run), run.config.task));
    }
    if (!options->data_dir.empty()) run.config.data_dir = options->data_dir;
    run.config.device = options->device;
    const auto device = train::choose_device(options->device);
    // A GPU's network is looked at on the CPU in float32.
    if (device.is_cpu()) run.config.precision = "auto";
    train::resolve(run.config);
    set_threads(0, run.config);
    train::Trainer trainer(run.config, options->run, {});
    if (const auto changes = trainer.changes_of_data(run.checkpoint); !changes.empty()) {
      base::say(fmt::format("{} is not what {} was trained with: {}", run.config.data,
                            base::printable(run.checkpoint.path), fmt::join(changes, ", ")));
    }
    record::restore(run.checkpoint, trainer.model(), nullptr);
    const auto result = trainer.evaluate(train::Task::Part::kTest);
    fmt::print("{} after epoch {}: test loss {:.4f}, test error {:.2f} %\n",
               base::printable(run.checkpoint.path), run.checkpoint.state.epoch, result.loss, result.error);
    if (examines) examine(*options, run, trainer.task(), device);
  });
}

}  // namespace stiefel::app
