#pragma once

#include <stiefel/export.h>
#include <torch/serialize/archive.h>

#include <cstdint>
#include <functional>
#include <string>

namespace stiefel {

enum class Manifold;
enum class Norm;
enum class Precision;
enum class MuonScale;

namespace detail {

/// Writes options to an archive, an entry per option: what a visit(self, visitor) of options is called with.
class STIEFEL_API OptionWriter {
 public:
  explicit OptionWriter(torch::serialize::OutputArchive& archive) : archive_(&archive) {}

  void operator()(const char* name, double value) const;
  void operator()(const char* name, int64_t value) const;
  void operator()(const char* name, bool value) const;
  void operator()(const char* name, Manifold value) const;
  void operator()(const char* name, Norm value) const;
  void operator()(const char* name, Precision value) const;
  void operator()(const char* name, MuonScale value) const;

 private:
  torch::serialize::OutputArchive* archive_;
};

/// Reads them back. An entry that is missing is an error.
class STIEFEL_API OptionReader {
 public:
  explicit OptionReader(torch::serialize::InputArchive& archive) : archive_(&archive) {}

  void operator()(const char* name, double& value) const;
  void operator()(const char* name, int64_t& value) const;
  void operator()(const char* name, bool& value) const;
  void operator()(const char* name, Manifold& value) const;
  void operator()(const char* name, Norm& value) const;
  void operator()(const char* name, Precision& value) const;  ///< left alone where the archive has none
  void operator()(const char* name, MuonScale& value) const;

 private:
  std::string text(const char* name) const;

  torch::serialize::InputArchive* archive_;
};

/// What a retraction's own visit() is called with, to read its options or to write them.
struct OptionVisitor {
  std::function<void(const char*, double&)> number;
  std::function<void(const char*, int64_t&)> integer;
  std::function<void(const char*, bool&)> flag;
};

}  // namespace detail

}  // namespace stiefel
