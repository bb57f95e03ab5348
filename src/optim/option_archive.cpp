#include <stiefel/cayley.h>
#include <stiefel/cayley_muon.h>
#include <stiefel/detail/option_archive.h>
#include <stiefel/optim/group_options.h>

#include "archive_values.h"

namespace stiefel::detail {

void OptionWriter::operator()(const char* name, double value) const {
  archive_->write(name, c10::IValue(value));
}
void OptionWriter::operator()(const char* name, int64_t value) const {
  archive_->write(name, c10::IValue(value));
}
void OptionWriter::operator()(const char* name, bool value) const {
  archive_->write(name, c10::IValue(value));
}
void OptionWriter::operator()(const char* name, Manifold value) const {
  archive_->write(name, c10::IValue(to_string(value)));
}
void OptionWriter::operator()(const char* name, Norm value) const {
  archive_->write(name, c10::IValue(to_string(value)));
}
void OptionWriter::operator()(const char* name, Precision value) const {
  archive_->write(name, c10::IValue(to_string(value)));
}
void OptionWriter::operator()(const char* name, MuonScale value) const {
  archive_->write(name, c10::IValue(to_string(value)));
}

void OptionReader::operator()(const char* name, double& value) const { value = read_number(*archive_, name); }
void OptionReader::operator()(const char* name, int64_t& value) const {
  value = read_integer(*archive_, name);
}
void OptionReader::operator()(const char* name, bool& value) const { value = read_flag(*archive_, name); }
void OptionReader::operator()(const char* name, Manifold& value) const {
  value = manifold_from_string(text(name));
}
void OptionReader::operator()(const char* name, Norm& value) const { value = norm_from_string(text(name)); }
void OptionReader::operator()(const char* name, Precision& value) const {
  // Archives of the first version have none.
  if (c10::IValue read; archive_->try_read(name, read)) value = precision_from_string(text(name));
}
void OptionReader::operator()(const char* name, MuonScale& value) const {
  value = muon_scale_from_string(text(name));
}

std::string OptionReader::text(const char* name) const { return read_text(*archive_, name); }

}  // namespace stiefel::detail
