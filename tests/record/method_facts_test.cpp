#include "record/method_facts.h"

#include <gtest/gtest.h>

#include <set>
#include <stdexcept>

// The table of methods, on which the trainer, the benchmarks, the paper's recipes and the report rely.

namespace method_facts_test {

using namespace stiefel::record;

TEST(MethodFacts, RowsHaveNamesOfTheirOwn) {
  std::set<std::string> names;
  std::set<std::string> titles;
  for (const auto& facts : method_facts()) {
    EXPECT_TRUE(names.insert(facts.name).second) << facts.name;
    EXPECT_TRUE(titles.insert(facts.title).second) << facts.title;
    EXPECT_EQ(facts.name.find_first_of("+, "), std::string::npos) << "joins names: " << facts.name;
    EXPECT_EQ(find_method_facts(facts.name), &facts);
  }
  EXPECT_EQ(find_method_facts("m"), nullptr) << "taken: it stands for momentum";
  EXPECT_EQ(find_method_facts("no such"), nullptr);
}

TEST(MethodFacts, EveryOptimizerHasTheDefaultsThatItNeeds) {
  for (const auto& facts : method_facts()) {
    EXPECT_EQ(facts.is_optimizer(), facts.lr > 0) << facts.name;
    EXPECT_EQ(facts.is_optimizer(), facts.sequence_lr > 0) << facts.name;
    EXPECT_EQ(facts.is_constrained() || facts.uses_root, facts.has_matrix_rate()) << facts.name;
    EXPECT_EQ(facts.has_matrix_rate(), facts.pixel_lr_manifold > 0) << facts.name;
    EXPECT_EQ(facts.has_matrix_rate(), facts.synthetic_lr_manifold > 0) << facts.name;
    EXPECT_EQ(facts.is_optimizer(), facts.uses_momentum || facts.uses_betas) << facts.name;
    EXPECT_FALSE(facts.operations.empty()) << facts.name;
  }
}

TEST(MethodFacts, OptimizersAreFoundAndOthersRefusedWithTheNames) {
  EXPECT_EQ(optimizer_facts("cayley-adam").beta2, 0.99);
  for (const char* other : {"so", "omdsm", "dbn", "Cayley SGD", ""}) {
    try {
      optimizer_facts(other);
      FAIL() << other;
    } catch (const std::invalid_argument& error) {
      EXPECT_EQ(
          std::string(error.what()),
          "--optim is '" + std::string(other) +
              "'; it must be one of sgd, adam, adamw, muon, cayley-sgd, cayley-adam, cayley-muon, polar, "
              "polar-ns, qr, cholesky-qr, wen-yin, cayley-closed, cayley-exact, pogo, landing");
    }
  }
}

TEST(MethodFacts, NamesComeInTheOrderOfTheTable) {
  using Names = std::vector<std::string>;
  EXPECT_EQ(method_names(MethodFamily::kPenalty), (Names{"so", "dso", "srip"}));
  EXPECT_EQ(method_names(PaperRole::kProposed), (Names{"cayley-sgd", "cayley-adam"}));
  EXPECT_EQ(method_names(PaperRole::kRival),
            (Names{"so", "dso", "srip", "omdsm", "dbn", "polar", "qr", "wen-yin", "cayley-closed"}));
}

TEST(MethodFacts, TitlesOfJoinedNames) {
  EXPECT_EQ(method_title("cayley-sgd"), "Cayley SGD");
  EXPECT_EQ(method_title("qr+m"), "QR + momentum");
  EXPECT_EQ(method_title("sgd+omdsm+dbn"), "SGD + OMDSM + DBN");
  for (const char* other : {"", "+", "m", "qr+", "qr+x", "x+m", "no\xff"})
    EXPECT_EQ(method_title(other), other);
}

}  // namespace method_facts_test
