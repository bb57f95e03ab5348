#include <gtest/gtest.h>
#include <torch/torch.h>

#include <set>

#include "data/device_images.h"
#include "data/seeds.h"
#include "data_support.h"

// Batches on the device: normalisation, padding, order and augmentation, each against a plain reference.

namespace batches_test {

using namespace stiefel::data;

Images random_images(int64_t count, int64_t channels, int64_t side) {
  return {torch::randint(0, 256, {count, channels, side, side}, torch::kByte), torch::arange(count) % 10};
}

/// One image flipped, then cut out of its reflect-padded self, pixel by pixel.
torch::Tensor reference_crop(const torch::Tensor& image, bool flip, int64_t down, int64_t right) {
  auto result = torch::empty_like(image, torch::MemoryFormat::Contiguous);
  const auto mirror = [](int64_t at) { return at < 0 ? -at : at > 31 ? 62 - at : at; };
  const auto source = flip ? torch::flip(image, {2}).contiguous() : image.contiguous();
  const auto from = source.accessor<float, 3>();
  auto to = result.accessor<float, 3>();
  for (int64_t c = 0; c < image.size(0); ++c) {
    for (int64_t y = 0; y < 32; ++y) {
      for (int64_t x = 0; x < 32; ++x) to[c][y][x] = from[c][mirror(y + down)][mirror(x + right)];
    }
  }
  return result;
}

class Batches : public ::testing::TestWithParam<std::tuple<int64_t, at::MemoryFormat>> {
 protected:
  int64_t channels() const { return std::get<0>(GetParam()); }
  at::MemoryFormat format() const { return std::get<1>(GetParam()); }
  int64_t side() const { return channels() == 1 ? 28 : 32; }

  DeviceImages resident(const Images& images) const {
    return {images, normalization_of(images), torch::kCPU, format()};
  }
};

TEST_P(Batches, NormalizationGivesMeanZeroAndDeviationOne) {
  auto images = random_images(50, channels(), side());
  images.pixels.select(1, 0).floor_divide_(3);  // so that channels differ
  const auto set = resident(images);
  auto all = set.batch(torch::arange(50), {}, 0, 0, 0).images.to(torch::kDouble);
  EXPECT_EQ(all.sizes(), (std::vector<int64_t>{50, channels(), 32, 32}));
  const auto edge = (32 - side()) / 2;
  const auto inner = all.slice(2, edge, 32 - edge).slice(3, edge, 32 - edge).transpose(0, 1).flatten(1);
  EXPECT_LT(inner.mean(1).abs().max().item<double>(), 1e-6);
  EXPECT_LT((inner.std(1, /*unbiased=*/false) - 1).abs().max().item<double>(), 1e-6);
}

TEST_P(Batches, ArePixelsAsTheyAreWithBlackAround) {
  const auto images = random_images(20, channels(), side());
  const auto norm = normalization_of(images);
  const DeviceImages set(images, norm, torch::kCPU, format());
  const auto pick = torch::tensor({7, 3, 19, 3}, torch::kLong);
  const auto batch = set.batch(pick, {}, 1, 2, 3);
  const auto edge = (32 - side()) / 2;
  const auto padded = torch::constant_pad_nd(images.pixels, {edge, edge, edge, edge});
  const auto mean = torch::tensor(norm.mean, torch::kDouble).view({1, -1, 1, 1});
  const auto deviation = torch::tensor(norm.deviation, torch::kDouble).view({1, -1, 1, 1});
  const auto expected = (padded.index_select(0, pick).to(torch::kDouble) / 255 - mean) / deviation;
  EXPECT_LT((batch.images - expected).abs().max().item<double>(), 1e-6);
  EXPECT_EQ(batch.images.scalar_type(), torch::kFloat);
  EXPECT_TRUE(torch::equal(batch.labels, pick % 10));
  EXPECT_TRUE(batch.images.is_contiguous(format()));
  EXPECT_EQ(batch.images.suggest_memory_format(), format());
  const auto range = set.range(5, 9);
  const auto same = set.batch(torch::arange(5, 9), {}, 0, 0, 0);
  EXPECT_TRUE(torch::equal(range.images, same.images) && torch::equal(range.labels, same.labels));
  EXPECT_EQ(range.images.suggest_memory_format(), format());
}

TEST_P(Batches, FlipsAndCropsAreExactlyThoseOfTheSource) {
  const auto set = resident(random_images(200, channels(), side()));
  const auto pick = set.epoch_order(3, 1);
  const auto plain = set.batch(pick, {}, 3, 1, 0).images;
  for (const Augment augment : {Augment{true, false}, Augment{false, true}, Augment{true, true}}) {
    const auto batch = set.batch(pick, augment, 3, 1, 0);
    EXPECT_TRUE(batch.images.is_contiguous(format()));
    EXPECT_EQ(batch.images.suggest_memory_format(), format());
    EXPECT_TRUE(torch::equal(batch.labels, pick % 10));
    int flips = 0;
    std::set<int64_t> downs, rights;
    for (int64_t i = 0; i < pick.size(0); ++i) {
      // The images are noise, so only the right flip and shift fit.
      int fits = 0;
      for (const bool flip : {false, true}) {
        const auto source = flip ? torch::flip(plain[i], {2}) : plain[i];
        for (int64_t down = -4; down <= 4; ++down) {
          for (int64_t right = -4; right <= 4; ++right) {
            // Cheap first: a few pixels far enough from the border.
            if (!torch::equal(batch.images[i].slice(1, 15, 17).slice(2, 12, 20),
                              source.slice(1, 15 + down, 17 + down).slice(2, 12 + right, 20 + right))) {
              continue;
            }
            EXPECT_TRUE(torch::equal(batch.images[i], reference_crop(plain[i], flip, down, right)));
            ++fits;
            flips += flip;
            downs.insert(down);
            rights.insert(right);
          }
        }
      }
      ASSERT_EQ(fits, 1) << "image " << i;
    }
    EXPECT_NEAR(flips, augment.flip ? 100 : 0, augment.flip ? 40 : 0);
    EXPECT_EQ(downs.size(), augment.crop ? 9U : 1U);
    EXPECT_EQ(rights.size(), augment.crop ? 9U : 1U);
  }
}

TEST_P(Batches, FlipsAndCropsAreThoseThatTheSeedDraws) {
  // What a seed means is part of a run: the draws in their order, and what each does to a pixel's place.
  const auto set = resident(random_images(60, channels(), side()));
  const auto pick = torch::randperm(60);
  const auto plain = set.batch(pick, {}, 0, 0, 0).images;
  const auto mirror = [](int64_t at) { return at < 0 ? -at : at > 31 ? 62 - at : at; };
  for (const Augment augment : {Augment{true, false}, Augment{false, true}, Augment{true, true}}) {
    const auto images = set.batch(pick, augment, 9, 4, 7).images;
    Stream stream(mix(9, 4, 7, Purpose::kAugment));
    for (int64_t i = 0; i < 60; ++i) {
      const bool flip = stream.below(2) == 1;
      const int64_t down = stream.below(9) - 4;
      const int64_t right = stream.below(9) - 4;
      std::vector<int64_t> rows, columns;
      for (int64_t j = 0; j < 32; ++j) {
        rows.push_back(augment.crop ? mirror(j + down) : j);
        const int64_t column = augment.flip && flip ? 31 - j : j;
        columns.push_back(augment.crop ? mirror(column + right) : column);
      }
      const auto expected =
          plain[i].index_select(1, torch::tensor(rows)).index_select(2, torch::tensor(columns));
      ASSERT_TRUE(torch::equal(images[i], expected)) << "image " << i;
    }
  }
}

TEST_P(Batches, TheTwoHalvesMakeTheWhole) {
  const auto set = resident(random_images(40, channels(), side()));
  const auto pick = torch::randperm(40).narrow(0, 0, 16).contiguous();
  for (const Augment augment : {Augment{}, Augment{true, false}, Augment{true, true}}) {
    const auto variants = DeviceImages::draw_variants(16, augment, 3, 2, 1);
    ASSERT_EQ(variants.defined(), augment.flip || augment.crop);
    if (variants.defined()) {
      EXPECT_GE(variants.min().item<int64_t>(), 0);
      EXPECT_LT(variants.max().item<int64_t>(), DeviceImages::kVariants);
    }
    const auto whole = set.batch(pick, augment, 3, 2, 1);
    const auto halves = set.pick(pick, variants);
    EXPECT_TRUE(torch::equal(whole.images, halves.images));
    EXPECT_TRUE(torch::equal(whole.labels, halves.labels));
    EXPECT_EQ(halves.images.suggest_memory_format(), format());
  }
}

TEST_P(Batches, ArePureFunctionsOfSeedEpochAndStep) {
  const auto set = resident(random_images(64, channels(), side()));
  const auto pick = torch::arange(64);
  const Augment both{true, true};
  const auto& generator = at::detail::getDefaultCPUGenerator();
  const auto state = generator.get_state();
  const auto first = set.batch(pick, both, 5, 6, 7).images;
  set.epoch_order(5, 6);
  EXPECT_TRUE(torch::equal(generator.get_state(), state)) << "the default generator was used";
  torch::rand(3);
  EXPECT_TRUE(torch::equal(set.batch(pick, both, 5, 6, 7).images, first));
  EXPECT_FALSE(torch::equal(set.batch(pick, both, 5, 6, 8).images, first));
  EXPECT_FALSE(torch::equal(set.batch(pick, both, 5, 7, 7).images, first));
  EXPECT_FALSE(torch::equal(set.batch(pick, both, 6, 6, 7).images, first));
}

INSTANTIATE_TEST_SUITE_P(All, Batches,
                         ::testing::Combine(::testing::Values(1, 3),
                                            ::testing::Values(at::MemoryFormat::Contiguous,
                                                              at::MemoryFormat::ChannelsLast)),
                         [](const auto& test) {
                           return std::string(std::get<0>(test.param) == 1 ? "Grey" : "Colour") +
                                  (std::get<1>(test.param) == at::MemoryFormat::Contiguous ? "Contiguous"
                                                                                           : "ChannelsLast");
                         });

TEST(Order, IsAPermutationThatChangesWithTheEpoch) {
  const Images images = random_images(1000, 1, 4);
  const DeviceImages set(images, normalization_of(images), torch::kCPU);
  const auto order = set.epoch_order(11, 0);
  EXPECT_EQ(order.scalar_type(), torch::kLong);
  EXPECT_TRUE(torch::equal(std::get<0>(order.sort()), torch::arange(1000)));
  EXPECT_TRUE(torch::equal(set.epoch_order(11, 0), order));
  EXPECT_FALSE(torch::equal(set.epoch_order(11, 1), order));
  EXPECT_FALSE(torch::equal(set.epoch_order(12, 0), order));
  // Every place equally likely: the mean of what stands first over many epochs.
  double first = 0;
  for (int64_t epoch = 0; epoch < 2000; ++epoch)
    first += static_cast<double>(set.epoch_order(1, epoch)[0].item<int64_t>()) / 2000;
  EXPECT_NEAR(first, 499.5, 4 * 288.7 / std::sqrt(2000.0));
}

TEST(Seeds, AreApartForEveryArgument) {
  std::set<uint64_t> seen;
  for (uint64_t seed = 0; seed < 8; ++seed) {
    for (int64_t epoch = 0; epoch < 8; ++epoch) {
      for (int64_t step = 0; step < 64; ++step) {
        for (const auto purpose : {Purpose::kOrder, Purpose::kAugment, Purpose::kSplit, Purpose::kDropout})
          seen.insert(mix(seed, epoch, step, purpose));
      }
    }
  }
  EXPECT_EQ(seen.size(), 8U * 8 * 64 * 4);
  // splitmix64's published values for the seed 1234567.
  Stream stream(1234567);
  EXPECT_EQ(stream.next(), 6457827717110365317U);
  EXPECT_EQ(stream.next(), 3203168211198807973U);
}

TEST(DeviceImagesErrors, NameWhatIsWrong) {
  const auto images = random_images(4, 3, 32);
  const auto norm = normalization_of(images);
  EXPECT_MESSAGE(DeviceImages(random_images(4, 3, 33), norm, torch::kCPU), "images of 33x33 are larger");
  EXPECT_MESSAGE(DeviceImages(random_images(4, 1, 32), norm, torch::kCPU), "images of 1 channels");
  EXPECT_MESSAGE(DeviceImages({images.pixels.to(torch::kFloat), images.labels}, norm, torch::kCPU), "uint8");
  EXPECT_MESSAGE(DeviceImages({images.pixels, images.labels.slice(0, 1)}, norm, torch::kCPU),
                 "4 images but [3] labels");
}

TEST(Normalize, AConstantChannelIsNoDivisionByZero) {
  const Images images{torch::full({3, 1, 28, 28}, 9, torch::kByte), torch::arange(3)};
  const DeviceImages set(images, normalization_of(images), torch::kCPU);
  EXPECT_TRUE(torch::isfinite(set.range(0, 3).images).all().item<bool>());
}

}  // namespace batches_test
