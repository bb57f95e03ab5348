#include "retraction_cases.h"

// RetractionSGD saved and loaded, and its options.

namespace retraction_archive_test {

using at::Tensor;
using stiefel::Landing;
using stiefel::Polar;
using stiefel::Qr;
using stiefel::RetractionSGD;
using stiefel::RetractionSGDOptions;
using stiefel::WenYin;
using support::copy_of;
using support::randomize_gradients;

TEST(RetractionSgdArchive, ContinuingEqualsNotStopping) {
  for (const auto& one : cases::every()) {
    for (const double momentum : {0.0, 0.9}) {
      const auto whole = support::point({5, 12}, at::kFloat);
      const auto parted = copy_of(whole);
      const auto run = [](torch::optim::Optimizer& optimizer, const Tensor& weight, int from, int to) {
        for (int step = from; step < to; ++step) {
          torch::manual_seed(100 + step);
          randomize_gradients({weight});
          if (step == 2) weight.mutable_grad()[0][0] = NAN;
          optimizer.step();
        }
      };
      const auto straight = one.sgd({whole}, 0.3, momentum, false);
      run(*straight, whole, 0, 12);
      const auto first = one.sgd({parted}, 0.3, momentum, false);
      run(*first, parted, 0, 5);
      const auto resumed = copy_of(parted);
      const auto second = one.sgd({resumed}, 0.7, 0.5, false);
      support::load(*second, support::save(*first));
      EXPECT_EQ(second->skipped_steps(), 1);
      run(*second, resumed, 5, 12);
      EXPECT_TRUE(torch::equal(whole, resumed)) << one.name << " " << momentum;
    }
  }
}

TEST(RetractionSgdArchive, HoldsTheRetractionsOptions) {
  const auto weight = support::point({4, 9});
  RetractionSGD<Polar> first({weight}, RetractionSGDOptions<Polar>(0.1).retraction(cases::newton_schulz(7)));
  RetractionSGD<Polar> second({weight}, RetractionSGDOptions<Polar>(0.2));
  support::load(second, support::save(first));
  const auto& polar =
      static_cast<const RetractionSGDOptions<Polar>&>(second.param_groups()[0].options()).retraction();
  EXPECT_EQ(polar.by, Polar::By::kNewtonSchulz);
  EXPECT_EQ(polar.rounds, 7);

  RetractionSGD<Qr> third({weight}, RetractionSGDOptions<Qr>(0.1).retraction(cases::cholesky_qr()));
  RetractionSGD<Qr> fourth({weight}, RetractionSGDOptions<Qr>(0.2));
  support::load(fourth, support::save(third));
  const auto& qr =
      static_cast<const RetractionSGDOptions<Qr>&>(fourth.param_groups()[0].options()).retraction();
  EXPECT_EQ(qr.by, Qr::By::kCholesky);

  using LandingOptions = RetractionSGDOptions<Landing>;
  RetractionSGD<Landing> fifth({weight}, LandingOptions(0.1).retraction({3, 0.25}));
  RetractionSGD<Landing> sixth({weight}, LandingOptions(0.2));
  support::load(sixth, support::save(fifth));
  const auto& landing = static_cast<const LandingOptions&>(sixth.param_groups()[0].options()).retraction();
  EXPECT_EQ(landing.lambda, 3);
  EXPECT_EQ(landing.epsilon, 0.25);

  EXPECT_ERROR(support::load(fourth, support::save(first)), "RetractionSGD polar");
  const stiefel::GroupOptions::Visitor sevens{{}, [](const char*, int64_t& value) { value = 7; }, {}};
  EXPECT_ERROR(Polar().visit(sevens), "7");
  EXPECT_ERROR(Qr().visit(sevens), "7");
}

TEST(RetractionSgdOptions, BadOnesAreNamed) {
  using Options = RetractionSGDOptions<WenYin>;
  const auto make = [](const Options& options) { RetractionSGD<WenYin>({support::point({4, 9})}, options); };
  EXPECT_ERROR(make(Options(-1)), "lr");
  EXPECT_ERROR(make(Options(0.1).momentum(1)), "momentum");
  EXPECT_ERROR(make(Options(0.1).weight_decay(0.1)), "weight_decay");
  EXPECT_ERROR(make(Options(0.1).momentum(0.9).nesterov(true)), "nesterov");
  EXPECT_ERROR(make(Options(0.1).momentum(0.9).dampening(0.1)), "dampening");
  const auto no_rounds = RetractionSGDOptions<Polar>(0.1).retraction(cases::newton_schulz(0));
  EXPECT_ERROR(RetractionSGD<Polar>({support::point({4, 9})}, no_rounds), "round");
  for (const Landing& bad : {Landing{0, 0.5}, Landing{-1, 0.5}, Landing{NAN, 0.5}, Landing{HUGE_VAL, 0.5}}) {
    const auto options = RetractionSGDOptions<Landing>(0.1).retraction(bad);
    EXPECT_ERROR(RetractionSGD<Landing>({support::point({4, 9})}, options), "lambda");
  }
  for (const Landing& bad : {Landing{1, 0}, Landing{1, -0.1}, Landing{1, 0.6}, Landing{1, NAN}}) {
    const auto options = RetractionSGDOptions<Landing>(0.1).retraction(bad);
    EXPECT_ERROR(RetractionSGD<Landing>({support::point({4, 9})}, options), "epsilon");
  }
}

}  // namespace retraction_archive_test
