#include <zlib.h>

#include <stdexcept>
#include <string>

#include "data/idx.h"
#include "errors.h"
#include "memory_file.h"

// What gzip's checksum keeps mutations of a gzipped file from: the input is compressed here, and then
// damaged. The first two bytes say where, the third by what (0: the file ends there). Reading what is not
// damaged gives what reading the plain bytes gives; damaged, it is refused or gives the same.

namespace idx_gzip_target {

std::string gzipped(std::string_view bytes) {
  z_stream stream{};
  constexpr int kGzip = 15 + 16;
  fuzz::require(deflateInit2(&stream, 1, Z_DEFLATED, kGzip, 8, Z_DEFAULT_STRATEGY) == Z_OK,
                "no memory for zlib");
  std::string result(deflateBound(&stream, bytes.size()), '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
  stream.avail_in = static_cast<uInt>(bytes.size());
  stream.next_out = reinterpret_cast<Bytef*>(result.data());
  stream.avail_out = static_cast<uInt>(result.size());
  fuzz::require(deflate(&stream, Z_FINISH) == Z_STREAM_END, "zlib cannot compress");
  result.resize(stream.total_out);
  deflateEnd(&stream);
  return result;
}

/// The content, or nothing where the file is refused.
std::string content(std::string_view bytes) {
  const fuzz::MemoryFile file(bytes);
  std::string result;
  fuzz::reads<std::runtime_error>([&] {
    const auto tensor = stiefel::data::read_idx(file.path(), {100, {}, "labels"});
    result.assign(static_cast<const char*>(tensor.data_ptr()), tensor.nbytes());
  });
  return result;
}

FUZZ_TARGET(idx_gzip) {
  if (input.size() < 3) return;
  const auto place = static_cast<unsigned char>(input[0]) * 256 + static_cast<unsigned char>(input[1]);
  const char change = input[2];
  input.remove_prefix(3);
  const auto whole = content(input);
  auto packed = gzipped(input);
  fuzz::require(content(packed) == whole, "a gzipped file reads otherwise");
  const size_t at = static_cast<size_t>(place) % packed.size();
  if (change == 0) {
    packed.resize(at);
  } else {
    packed[at] = static_cast<char>(packed[at] ^ change);
  }
  const auto damaged = content(packed);
  // A damaged first byte makes it another, plain file; that is an IDX file by no single change.
  fuzz::require(damaged.empty() || damaged == whole, "a damaged gzip file is read as something else");
}

}  // namespace idx_gzip_target
