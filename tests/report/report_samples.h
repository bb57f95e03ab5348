#pragma once

#include <cmath>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>

// Run folders as the trainer writes them, made up.

namespace samples {

namespace fs = std::filesystem;

inline void write(const fs::path& file, const std::string& text) {
  fs::create_directories(file.parent_path());
  std::ofstream(file, std::ios::binary) << text;
}

struct Sample {
  std::string name = "cayley-sgd";  // as JSON text, so quotes and backslashes come escaped
  std::string optim = "cayley-sgd";
  std::string data = "fashion-mnist";
  std::string status = "finished";
  int epochs = 20;
  double floor = 8.6;  // the test error it tends to
  double seconds = 7;  // an epoch
  int seed = 1;
};

/// Smooth curves with drops of the rate and a little noise, the same at every call.
inline fs::path write_run(const fs::path& folder, const Sample& sample) {
  const bool cayley = sample.optim.rfind("cayley", 0) == 0;
  const auto text = [](const char* pattern, auto... values) {
    char buffer[1024];
    std::snprintf(buffer, sizeof buffer, pattern, values...);
    return std::string(buffer);
  };
  std::string lines;
  for (int epoch = 1; epoch <= sample.epochs; ++epoch) {
    const double way = static_cast<double>(epoch) / sample.epochs;
    const double drop = way > 0.8 ? 0.008 : way > 0.6 ? 0.04 : way > 0.3 ? 0.2 : 1;
    const double noise = std::sin(12.9898 * epoch + 4.1 * sample.seed) * std::sqrt(drop);
    const double error = sample.floor + 22 * std::exp(-9 * way) + 1.6 * drop + 0.7 * noise;
    lines += text(R"({"epoch":%d,"step":%d,"train_loss":%.5f,"train_error":%.3f,"test_loss":%.5f,)", epoch,
                  468 * epoch, 0.035 + 0.7 * std::exp(-7 * way) + 0.05 * drop,
                  0.15 * sample.floor + 30 * std::exp(-8 * way) + 1.2 * drop, 0.03 * error + 0.01 * way) +
             text(R"("test_error":%.2f,"rate_euclidean":%.6g,"seconds":%.3f,"epoch_seconds":%.3f,)", error,
                  (cayley ? 0.01 : 0.1) * drop, sample.seconds * epoch + 0.03 * noise,
                  sample.seconds + 0.03 * noise) +
             text(R"("images_per_second":%.1f,"skipped_steps":0)", 60000 / sample.seconds);
    if (cayley) {
      lines += text(R"(,"rate_manifold":%.6g,"defect_max":%.3e,"defect_mean":%.3e)", 0.2 * drop,
                    (6 + 3 * drop + noise) * 1e-7, (4 + drop) * 1e-7);
    } else {
      lines += R"(,"rate_manifold":null,"defect_max":null,"defect_mean":null)";
    }
    lines += "}\n";
  }
  write(folder / "metrics.jsonl", lines);
  write(
      folder / "run.json",
      text(
          R"({"name":"%s","command":["stiefel","train","--data","%s","--model","small","--optim","%s","--out","runs/it's here"],)",
          sample.name.c_str(), sample.data.c_str(), sample.optim.c_str()) +
          text(
              R"("commit":"0123abc","version":"0.1.0","status":"%s","started":"2026-11-15T13:00:00Z","seconds":%.1f,"seed":%d,)",
              sample.status.c_str(), sample.seconds * sample.epochs + 3, sample.seed) +
          text(
              R"("data":"%s","model":"small","optim":"%s","parameters":123456,"manifold_parameters":%d,"manifold_matrices":%d,)",
              sample.data.c_str(), sample.optim.c_str(), cayley ? 100000 : 0, cayley ? 4 : 0) +
          R"("device":"cpu","hardware":{"cpu":"A processor @ 2.10GHz","cores":2,"memory_gib":23.5,"gpu":""},)"
          R"("versions":{"libtorch":"1.13.1","compiler":"GNU 12.2.0","blas":"OpenBLAS 0.3.21","stiefel":"0.1.0"}})");
  write(folder / "config.toml",
        text("# the resolved "
             "config\ndata=\"%s\"\nmodel=\"small\"\noptim=\"%s\"\nseed=%d\nepochs=%d\nbatch=128\n",
             sample.data.c_str(), sample.optim.c_str(), sample.seed, sample.epochs) +
            text("lr-euclidean=%g\ndrops=[0.3, 0.6, 0.8]\ngamma=0.2\nmomentum=0.9\nweight-decay=0.0005\n"
                 "augment=\"none\"\nthreads=2\ntensorboard=false\n",
                 cayley ? 0.01 : 0.1) +
            (cayley ? "lr-manifold=0.2\n" : ""));
  return folder;
}

}  // namespace samples
