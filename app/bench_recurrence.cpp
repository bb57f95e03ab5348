#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <memory>
#include <stdexcept>

#include "base/progress_line.h"
#include "bench/recurrence.h"
#include "bench/threads.h"
#include "bench_parts.h"
#include "number_options.h"
#include "train/device.h"

namespace stiefel::app {

void add_bench_recurrence(CLI::App& group) {
  auto* command = group.add_subcommand(
      "recurrence",
      "one iteration of the unitary network: forward, backward, and the step of its matrix, beside the "
      "machine's own complex product");
  struct Options {
    std::vector<int64_t> sizes{116, 512};
    bench::RecurrencePlan plan;
    std::string device = "cpu";
    std::string kernel = "auto";
    int64_t threads = 0;
  };
  const auto options = std::make_shared<Options>();
  command->add_option("HIDDEN", options->sizes, "hidden units")
      ->capture_default_str()
      ->transform(whole_number(1, 100000));
  command->add_option("--length", options->plan.length, "time steps of a sequence")
      ->capture_default_str()
      ->transform(whole_number(1, 1000000));
  command->add_option("--batch", options->plan.batch, "sequences per iteration")
      ->capture_default_str()
      ->transform(whole_number(1, 1000000));
  command->add_option("--rounds", options->plan.rounds, "timed rounds, after one to warm up")
      ->capture_default_str()
      ->transform(whole_number(1, 100000));
  command->add_option("--device", options->device, "auto, cpu or cuda")
      ->capture_default_str()
      ->check(CLI::IsMember({"auto", "cpu", "cuda"}));
  command
      ->add_option(
          "--kernel", options->kernel,
          "on a GPU: auto, or the kernel for every size: row, cluster, stream, or operators, LibTorch's")
      ->capture_default_str()
      ->check(CLI::IsMember(models::recurrence_kernel_names()));
  command->add_option("--threads", options->threads, "of the CPU (default: $OMP_NUM_THREADS, else all cores)")
      ->transform(whole_number());
  command->callback([options] {
    bench::set_threads(options->threads);
    const auto device = train::choose_device(options->device);
    if (options->kernel != "auto" && device.is_cpu()) {
      throw std::invalid_argument("--kernel " + options->kernel + " is for a GPU: add --device cuda");
    }
    const auto& names = models::recurrence_kernel_names();
    options->plan.kernel = static_cast<models::RecurrenceKernel>(
        std::find(names.begin(), names.end(), options->kernel) - names.begin());
    for (size_t i = 0; i < options->sizes.size(); ++i) {
      auto plan = options->plan;
      plan.hidden = options->sizes[i];
      base::ProgressLine progress;
      const auto times =
          bench::time_recurrence(plan, device, [&](const std::string& what) { progress.now(what); });
      progress.done();
      fmt::print("{}urnn-{}, {} steps, batch {}, {}, medians of {} interleaved rounds\n\n{}",
                 i == 0 ? "" : "\n", plan.hidden, plan.length, plan.batch,
                 device.is_cpu() ? thread_count_text() : device.str(), plan.rounds,
                 bench::format_recurrence(plan, times));
      std::fflush(stdout);
    }
  });
}

}  // namespace stiefel::app
