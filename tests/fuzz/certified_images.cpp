#include "record/certified_images.h"

#include <stdexcept>

#include "errors.h"

// certified.csv: refused by std::runtime_error, or images that stay the same when they are written and read
// again.

namespace certified_images_target {

FUZZ_TARGET(certified_images) {
  using namespace stiefel::record;
  std::vector<CertifiedImage> images;
  if (!fuzz::reads<std::runtime_error>(
          [&] { images = parse_certified("certified.csv", std::string(input)); })) {
    return;
  }
  const auto text = to_csv(images);
  fuzz::require(to_csv(parse_certified("certified.csv", text)) == text,
                "images change when they are written");
  const double clean = clean_accuracy(images), certified = certified_accuracy(images, 0.1);
  fuzz::require(0 <= certified && certified <= clean && clean <= 100, "more is certified than is right");
}

}  // namespace certified_images_target
