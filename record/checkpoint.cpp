#include "checkpoint.h"

#include <fmt/format.h>
#include <torch/serialize/archive.h>
#include <torch/serialize/input-archive.h>
#include <torch/serialize/output-archive.h>
#include <zlib.h>

#include <algorithm>
#include <charconv>
#include <regex>
#include <sstream>
#include <stdexcept>
#include <string_view>

#include "base/excerpt.h"
#include "base/files.h"
#include "base/json.h"
#include "base/printable.h"

namespace stiefel::record {

namespace fs = std::filesystem;

namespace {

constexpr const char* kMagic = "stiefel checkpoint 1";
constexpr const char* kBest = "best.ckpt";

/// The CRC-32 of what `before` is that of, and these bytes.
unsigned long checksum(std::string_view bytes, unsigned long before = crc32(0L, Z_NULL, 0)) {
  auto crc = before;
  // zlib takes lengths of 32 bits.
  for (size_t done = 0; done < bytes.size();) {
    const auto piece = std::min<size_t>(bytes.size() - done, 1u << 30);
    crc = crc32(crc, reinterpret_cast<const Bytef*>(bytes.data() + done), static_cast<uInt>(piece));
    done += piece;
  }
  return crc;
}

nlohmann::json to_json(const data::Fingerprint::Part& part) {
  return {{"images", part.images}, {"pixels", part.pixels}, {"labels", part.labels}};
}

nlohmann::json to_json(const RunState& p) {
  nlohmann::json json{{"epoch", p.epoch},       {"step", p.step},   {"total_steps", p.total_steps},
                      {"loss_sum", p.loss_sum}, {"wrong", p.wrong}, {"epoch_seconds", p.epoch_seconds},
                      {"seconds", p.seconds},   {"best", p.best},   {"best_epoch", p.best_epoch},
                      {"history", p.history}};
  if (p.data) json["data"] = {{"train", to_json(p.data->train)}, {"test", to_json(p.data->test)}};
  return json;
}

int64_t count_from(const nlohmann::json& json, const char* name) {
  const auto& value = json.at(name);
  if (!value.is_number_unsigned()) {
    throw std::runtime_error(fmt::format("{} is {}, not a count", name, base::excerpt(value.dump())));
  }
  return value;
}

data::Fingerprint::Part part_from(const nlohmann::json& json) {
  return {count_from(json, "images"), json.at("pixels"), json.at("labels")};
}

RunState state_from(const nlohmann::json& json) {
  RunState p;
  p.epoch = count_from(json, "epoch");
  p.step = count_from(json, "step");
  p.total_steps = count_from(json, "total_steps");
  p.loss_sum = json.at("loss_sum").is_null() ? NAN : json.at("loss_sum").get<double>();
  p.wrong = count_from(json, "wrong");
  p.epoch_seconds = json.at("epoch_seconds");
  p.seconds = json.at("seconds");
  p.best = json.at("best");
  p.best_epoch = json.value("best_epoch", int64_t{0});
  p.history = json.at("history").get<std::vector<EpochMetrics>>();
  if (json.contains("data"))
    p.data = {part_from(json["data"].at("train")), part_from(json["data"].at("test"))};
  return p;
}

std::string archive_of(const torch::nn::Module& model, const Optimizers& optimizers) {
  torch::serialize::OutputArchive archive;
  torch::serialize::OutputArchive weights(archive.compilation_unit());
  model.save(weights);
  archive.write("model", weights);
  for (size_t i = 0; i < optimizers.size(); ++i) {
    torch::serialize::OutputArchive state(archive.compilation_unit());
    optimizers[i]->save(state);
    archive.write("optimiser" + std::to_string(i), state);
  }
  std::string bytes;
  // The weights and ADAM's two moments of each: beyond this, the string is copied as it grows.
  size_t parameters = 0;
  for (const auto& parameter : model.parameters()) parameters += static_cast<size_t>(parameter.numel());
  bytes.reserve(3 * parameters * sizeof(float));
  archive.save_to([&](const void* data, size_t size) {
    bytes.append(static_cast<const char*>(data), size);
    return size;
  });
  return bytes;
}

std::string name_of(int64_t total_steps) { return fmt::format("step-{:09}.ckpt", total_steps); }

std::vector<fs::path> entries_of(const fs::path& folder) {
  std::vector<fs::path> all;
  std::error_code error;
  for (fs::directory_iterator entry(folder, error); !error && entry != fs::directory_iterator();
       entry.increment(error)) {
    all.push_back(entry->path());
  }
  if (error) {
    throw std::runtime_error(fmt::format("{}: cannot be read: {}", base::printable(folder), error.message()));
  }
  return all;
}

/// The numbered checkpoints, newest first.
std::vector<fs::path> numbered(const fs::path& folder) {
  std::vector<fs::path> all;
  if (!fs::is_directory(folder)) return all;
  const std::regex pattern("step-\\d{9,}\\.ckpt");
  for (const auto& path : entries_of(folder)) {
    if (std::regex_match(path.filename().string(), pattern)) all.push_back(path);
  }
  std::sort(all.rbegin(), all.rend());
  return all;
}

/// Removes what runs that were killed while they wrote a checkpoint have left: each may be hundreds of
/// megabytes, and its name does not come again.
void remove_unfinished(const fs::path& folder) {
  const std::regex pattern("(step-\\d{9,}\\.ckpt).*\\.tmp");
  std::vector<fs::path> left;
  std::error_code ignored;
  for (const auto& path : entries_of(folder)) {
    std::smatch match;
    const auto name = path.filename().string();
    if (std::regex_match(name, match, pattern) && fs::is_regular_file(path, ignored) &&
        base::is_temporary(path, match[1])) {
      left.push_back(path);
    }
  }
  for (const auto& path : left) fs::remove(path, ignored);
}

/// Keeps a checkpoint and the one before it. One that says that it is newer could not be used, or we would
/// have gone on from it: it does not count.
void remove_older(const fs::path& folder, const fs::path& newest) {
  auto all = numbered(folder);
  all.erase(all.begin(), std::find(all.begin(), all.end(), newest));
  std::error_code ignored;
  for (size_t i = 2; i < all.size(); ++i) fs::remove(all[i], ignored);
}

/// Nothing where there is no such file, or where it is of no use; then `complaint` says why.
std::optional<Checkpoints::Loaded> try_read(const fs::path& path, std::string& complaint,
                                            const Checkpoints::Check& check) {
  if (!fs::exists(path)) return std::nullopt;
  try {
    auto loaded = read_checkpoint(path);
    if (check) check(loaded);
    return loaded;
  } catch (const std::exception& error) {
    complaint += base::printable(std::string(error.what())) + "\n";  // it may name the file
    return std::nullopt;
  }
}

std::optional<Checkpoints::Loaded> newest_numbered(const fs::path& folder, std::string& complaint,
                                                   const Checkpoints::Check& check) {
  for (const auto& path : numbered(folder)) {
    if (auto loaded = try_read(path, complaint, check)) return loaded;
  }
  return std::nullopt;
}

}  // namespace

void Checkpoints::save(const torch::nn::Module& model, const Optimizers& optimizers, const RunState& state,
                       const std::string& config, bool best) const {
  const auto archive = archive_of(model, optimizers);
  const nlohmann::json head{{"config", config}, {"progress", to_json(state)}};
  // The config names folders, whose bytes need not be UTF-8; a run that goes on has them from config.toml.
  const auto header = head.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  const auto head_of_body = fmt::format("{}\n", header.size()) + header;
  const auto first_lines = fmt::format("{}\n{} {:08x}\n", kMagic, head_of_body.size() + archive.size(),
                                       checksum(archive, checksum(head_of_body)));
  const std::vector<std::string_view> file{first_lines, head_of_body, archive};
  const auto path = folder_ / name_of(state.total_steps);
  // The best first: where the disk is full after it, the epoch is trained again and is the best again.
  if (best) base::write_pieces(folder_ / kBest, file);
  base::write_pieces(path, file);
  try {
    remove_older(folder_, path);
    remove_unfinished(folder_);
  } catch (const std::exception&) {
    // The checkpoint is written; what is left over goes with the next one.
  }
}

Checkpoints::Loaded read_checkpoint(const fs::path& path) {
  return parse_checkpoint(path, base::read_file(path));
}

Checkpoints::Loaded parse_checkpoint(const fs::path& path, const std::string& file) {
  const auto bad = [&](const std::string& what) -> std::runtime_error {
    return std::runtime_error(fmt::format("{}: {}", base::printable(path), what));
  };
  const auto first = file.find('\n');
  if (first == std::string::npos || file.compare(0, first, kMagic) != 0) {
    throw bad(fmt::format("does not begin with '{}': it is no checkpoint of this version", kMagic));
  }
  const auto second = file.find('\n', first + 1);
  if (second == std::string::npos) throw bad("is cut short in its first lines");
  size_t size = 0;
  unsigned long expected = 0;
  std::istringstream line(file.substr(first + 1, second - first - 1));
  line >> size >> std::hex >> expected;
  if (!line) throw bad("has damaged first lines");
  const auto start = second + 1;
  if (file.size() - start != size) {
    throw bad(fmt::format("should hold {} bytes after its first lines but holds {}: it was cut short", size,
                          file.size() - start));
  }
  const auto actual = checksum(std::string_view(file).substr(start));
  if (actual != expected) {
    throw bad(fmt::format("is damaged: its checksum is {:08x}, expected {:08x}", actual, expected));
  }
  const auto third = file.find('\n', start);
  const auto length_line =
      std::string_view(file).substr(start, third == std::string::npos ? 0 : third - start);
  size_t length = 0;
  const auto* const end = length_line.data() + length_line.size();
  const auto [stop, failure] = std::from_chars(length_line.data(), end, length);
  if (length_line.empty() || failure != std::errc() || stop != end || length > file.size() - third - 1) {
    throw bad("has the right checksum, but its third line is not the length of a header that follows");
  }
  try {
    const auto head = base::parse_json(file.substr(third + 1, length));
    return {path, head.at("config"), state_from(head.at("progress")), file.substr(third + 1 + length)};
  } catch (const std::exception& error) {
    throw bad(fmt::format("has the right checksum, but its header is not a checkpoint's: {}", error.what()));
  }
}

std::optional<Checkpoints::Loaded> Checkpoints::newest(std::string& complaint, const Check& check) const {
  auto found = newest_numbered(folder_, complaint, check);
  // The best is written first, so it is the newest where the run was killed between the two.
  const auto steps = found ? found->state.total_steps : int64_t{-1};
  auto best = try_read(folder_ / kBest, complaint, [&](const Loaded& loaded) {
    if (check && loaded.state.total_steps > steps) check(loaded);
  });
  return best && best->state.total_steps > steps ? std::move(best) : std::move(found);
}

std::optional<Checkpoints::Loaded> Checkpoints::best(std::string& complaint, const Check& check) const {
  if (auto best = try_read(folder_ / kBest, complaint, check)) return best;
  return newest_numbered(folder_, complaint, check);
}

bool Checkpoints::any() const { return fs::exists(folder_ / kBest) || !numbered(folder_).empty(); }

void restore(const Checkpoints::Loaded& loaded, torch::nn::Module& model, Optimizers* optimizers) {
  std::istringstream stream(loaded.archive);
  torch::serialize::InputArchive archive;
  const auto parameters = model.parameters();
  archive.load_from(stream, parameters.empty() ? torch::Device(torch::kCPU) : parameters[0].device());
  torch::serialize::InputArchive weights;
  archive.read("model", weights);
  model.load(weights);
  if (!optimizers) return;
  for (size_t i = 0; i < optimizers->size(); ++i) {
    torch::serialize::InputArchive state;
    archive.read("optimiser" + std::to_string(i), state);
    (*optimizers)[i]->load(state);
  }
}

}  // namespace stiefel::record
