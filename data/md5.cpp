#include "md5.h"

#include <stdexcept>

#include "byte_reader.h"
#include "process.h"

namespace stiefel::data {

std::string md5_of(const std::filesystem::path& file) {
  ByteReader reader(file);
  const auto output =
      must_run({{"md5sum"}, {}, [&](char* to, int64_t most) { return reader.read_some(to, most); }},
               "It is part of GNU coreutils.");
  const auto sum = output.substr(0, output.find(' '));
  if (sum.size() != 32 || sum.find_first_not_of("0123456789abcdef") != std::string::npos) {
    throw std::runtime_error("md5sum: its output is no MD5 sum: " + output);
  }
  return sum;
}

}  // namespace stiefel::data
