#include <cmath>
#include <map>
#include <set>

#include "tests/data/data_support.h"
#include "tests/support.h"
#include "train/rms_scaling.h"
#include "train/tasks/pixel_task.h"
#include "train/tasks/synthetic_tasks.h"

// What the sequence tasks put before a network and what they make of its answers, and the scaling of
// gradients by their root mean square.

namespace sequence_tasks_test {

using at::Tensor;
using stiefel::record::Config;
using stiefel::train::AddingTask;
using stiefel::train::CopyingTask;
using stiefel::train::make_task;
using stiefel::train::PixelTask;
using stiefel::train::RmsScaling;
using stiefel::train::Task;
using stiefel::train::TaskBatch;
using Part = Task::Part;

Config config_of(const std::string& task, int64_t length, int64_t batch = 40, int64_t seed = 1) {
  Config config;
  config.task = task;
  config.length = length;
  config.batch = batch;
  config.seed = seed;
  return config;
}

bool same(const TaskBatch& a, const TaskBatch& b) {
  return at::equal(a.inputs, b.inputs) && at::equal(a.targets, b.targets);
}

// --- copying ---

/// Ten symbols, length − 1 blanks, the mark, ten blanks; the answer is blank but for the last ten places.
TEST(Copying, LaysOutItsSequences) {
  for (const int64_t length : {2, 7, 30}) {
    CopyingTask task(config_of("copying", length), at::kCPU);
    const auto batch = task.batch(3, 5);
    const int64_t steps = length + 20;
    ASSERT_EQ(batch.inputs.sizes(), at::IntArrayRef({40, steps, 10}));
    ASSERT_EQ(batch.targets.sizes(), at::IntArrayRef({40, steps}));
    EXPECT_EQ(batch.inputs.scalar_type(), at::kFloat);
    EXPECT_EQ(batch.targets.scalar_type(), at::kLong);
    EXPECT_TRUE((batch.inputs == 0).logical_or(batch.inputs == 1).all().item<bool>());
    EXPECT_TRUE((batch.inputs.sum(-1) == 1).all().item<bool>());
    const auto given = batch.inputs.argmax(-1);
    std::map<int64_t, int64_t> counts;
    for (int64_t i = 0; i < 40; ++i) {
      for (int64_t t = 0; t < steps; ++t) {
        const auto symbol = given[i][t].item<int64_t>(), answer = batch.targets[i][t].item<int64_t>();
        if (t < 10) {
          EXPECT_TRUE(symbol >= 1 && symbol <= 8);
          EXPECT_EQ(batch.targets[i][steps - 10 + t].item<int64_t>(), symbol);
          ++counts[symbol];
        } else {
          EXPECT_EQ(symbol, t == steps - 11 ? 9 : 0) << t;
        }
        EXPECT_EQ(answer == 0, t < steps - 10) << t;
      }
    }
    EXPECT_EQ(counts.size(), 8U);
    for (const auto& [symbol, count] : counts) EXPECT_NEAR(static_cast<double>(count), 50, 35) << symbol;
  }
}

/// Blank until the mark and the eight symbols alike after it, which needs no memory of which they were.
TEST(Copying, KnowsTheLossWithoutMemory) {
  for (const int64_t length : {2, 10, 100}) {
    CopyingTask task(config_of("copying", length), at::kCPU);
    const auto batch = task.batch(0, 0);
    auto scores = torch::full({40, length + 20, 9}, -60.0);
    scores.narrow(1, 0, length + 10).select(-1, 0).fill_(0);
    scores.narrow(1, length + 10, 10).narrow(-1, 1, 8).fill_(0);
    const double loss = task.loss(scores, batch.targets).item<double>();
    const double wanted = 10 * std::log(8.0) / static_cast<double>(length + 20);
    EXPECT_NEAR(loss, wanted, 1e-6);
    EXPECT_NEAR(CopyingTask::memoryless_loss(length), wanted, 1e-12);
  }
}

TEST(Copying, CountsTheSymbolsThatWereNotRecalled) {
  CopyingTask task(config_of("copying", 6, 5), at::kCPU);
  EXPECT_EQ(task.answers_per_item(), 10);
  const auto batch = task.batch(0, 0);
  auto scores = at::one_hot(batch.targets, 9).to(at::kFloat);
  EXPECT_EQ(task.wrong(scores, batch.targets).item<int64_t>(), 0);
  scores.narrow(1, 0, 16) = -scores.narrow(1, 0, 16);  // what is said before the mark's end is not counted
  EXPECT_EQ(task.wrong(scores, batch.targets).item<int64_t>(), 0);
  scores[2][16] = -scores[2][16];
  scores[2][25] = -scores[2][25];
  scores[4][20] = -scores[4][20];
  EXPECT_EQ(task.wrong(scores, batch.targets).item<int64_t>(), 3);
}

// --- adding ---

TEST(Adding, MarksOneNumberInEachHalfAndAsksForTheirSum) {
  for (const int64_t length : {2, 7, 10}) {
    AddingTask task(config_of("adding", length, 300), at::kCPU);
    const auto batch = task.batch(2, 1);
    ASSERT_EQ(batch.inputs.sizes(), at::IntArrayRef({300, length, 2}));
    ASSERT_EQ(batch.targets.sizes(), at::IntArrayRef({300, 1}));
    const auto values = batch.inputs.select(-1, 0), marks = batch.inputs.select(-1, 1);
    EXPECT_GE(values.min().item<double>(), 0);
    EXPECT_LT(values.max().item<double>(), 1);
    EXPECT_NEAR(values.mean().item<double>(), 0.5, 0.05);
    EXPECT_NEAR(values.std().item<double>(), std::sqrt(1.0 / 12), 0.02);
    std::set<int64_t> marked;
    for (int64_t i = 0; i < 300; ++i) {
      double sum = 0;
      int64_t first_half = 0, second_half = 0;
      for (int64_t t = 0; t < length; ++t) {
        const double mark = marks[i][t].item<double>();
        ASSERT_TRUE(mark == 0 || mark == 1);
        if (mark == 0) continue;
        ++(t < length / 2 ? first_half : second_half);
        sum += values[i][t].item<double>();
        marked.insert(t);
      }
      EXPECT_EQ(first_half, 1);
      EXPECT_EQ(second_half, 1);
      EXPECT_NEAR(batch.targets[i][0].item<double>(), sum, 1e-6);
    }
    EXPECT_EQ(static_cast<int64_t>(marked.size()), length);  // any place may be marked
  }
}

/// (1 − a − b)² has the mean 1/6 over a and b from 0 to 1.
TEST(Adding, MeasuresTheMeanSquareAndCountsWhatIsFarOff) {
  AddingTask task(config_of("adding", 20), at::kCPU);
  const auto items = task.items(Part::kTest, 0, 1000);
  EXPECT_NEAR(task.loss(torch::ones({1000, 1}), items.targets).item<double>(), 1.0 / 6, 0.02);
  const auto targets = torch::tensor({0.5, 1.0, 1.5}).reshape({3, 1});
  const auto scores = torch::tensor({0.58, 0.85, 1.75}).reshape({3, 1});
  const double mean = (0.08 * 0.08 + 0.15 * 0.15 + 0.25 * 0.25) / 3;
  EXPECT_NEAR(task.loss(scores, targets).item<double>(), mean, 1e-6);
  EXPECT_EQ(task.wrong(scores, targets).item<int64_t>(), 2);
  EXPECT_EQ(task.wrong(targets, targets).item<int64_t>(), 0);
  EXPECT_EQ(task.answers_per_item(), 1);
}

// --- both ---

TEST(SyntheticTask, IsAFunctionOfSeedEpochAndStep) {
  for (const std::string name : {"copying", "adding"}) {
    const auto task = make_task(config_of(name, 12), at::kCPU);
    const auto other = make_task(config_of(name, 12), at::kCPU);
    const auto batch = task->batch(1, 2);
    other->batch(7, 7);
    other->items(Part::kTest, 0, 3);
    EXPECT_TRUE(same(batch, other->batch(1, 2)));
    EXPECT_TRUE(same(batch, task->batch(1, 2)));
    EXPECT_FALSE(same(batch, task->batch(1, 3)));
    EXPECT_FALSE(same(batch, task->batch(2, 2)));
    EXPECT_FALSE(same(batch, task->batch(2, 1)));
    EXPECT_FALSE(same(batch, make_task(config_of(name, 12, 40, 2), at::kCPU)->batch(1, 2)));
    EXPECT_FALSE(at::equal(batch.inputs[0], batch.inputs[1]));
  }
}

TEST(SyntheticTask, TestsEveryRunOnTheSameItems) {
  for (const std::string name : {"copying", "adding"}) {
    const auto task = make_task(config_of(name, 12), at::kCPU);
    const auto other = make_task(config_of(name, 12, 8, 0), at::kCPU);
    const auto whole = task->items(Part::kTest, 0, 1000);
    EXPECT_EQ(whole.inputs.size(0), 1000);
    EXPECT_TRUE(same(whole, other->items(Part::kTest, 0, 1000)));
    for (const auto& [from, to] : std::vector<std::pair<int64_t, int64_t>>{{0, 10}, {10, 37}, {990, 1000}}) {
      const auto some = other->items(Part::kTest, from, to);
      EXPECT_TRUE(at::equal(some.inputs, whole.inputs.narrow(0, from, to - from)));
      EXPECT_TRUE(at::equal(some.targets, whole.targets.narrow(0, from, to - from)));
    }
    // Not even seed 0's first batch is a piece of them.
    EXPECT_FALSE(at::equal(other->batch(0, 0).inputs, whole.inputs.narrow(0, 0, 8)));
    EXPECT_EQ(task->size(Part::kTest), 1000);
    EXPECT_EQ(task->size(Part::kValidation), 0);
    EXPECT_EQ(task->steps_per_epoch(), 100);
  }
}

TEST(SyntheticTask, HasAShapeWithoutData) {
  const auto copying = stiefel::train::shape_of(config_of("copying", 12));
  EXPECT_EQ(copying.inputs, 10);
  EXPECT_EQ(copying.outputs, 9);
  EXPECT_TRUE(copying.every_step);
  const auto adding = stiefel::train::shape_of(config_of("adding", 12));
  EXPECT_EQ(adding.inputs, 2);
  EXPECT_EQ(adding.outputs, 1);
  EXPECT_FALSE(adding.every_step);
  auto pixel = config_of("pixel", 12);
  pixel.data = "mnist";
  EXPECT_EQ(stiefel::train::shape_of(pixel).inputs, 1);
  EXPECT_EQ(stiefel::train::shape_of(pixel).outputs, 10);
  EXPECT_FALSE(stiefel::train::shape_of(pixel).every_step);
}

// --- pixels ---

class Pixels : public support::DataTest {
 protected:
  void SetUp() override {
    DataTest::SetUp();
    support::write_set("mnist", folder_ / "mnist", 12);
  }

  Config config(int64_t validation = 4, bool permuted = false, int64_t seed = 1) const {
    Config c = config_of("pixel", 2, 4, seed);
    c.data = "mnist";
    c.data_dir = folder_.string();
    c.validation = validation;
    c.permuted = permuted;
    return c;
  }

  /// The images of a file as the test reads them, (12, 784) from 0 to 1.
  Tensor raw(bool train) const {
    for (const auto& file : stiefel::data::facts_of("mnist").files) {
      if (file.train != train || file.content != stiefel::data::Content::kIdxImages) continue;
      const auto bytes = support::contents(folder_ / "mnist" / file.name);
      auto images = torch::empty({12, 784});
      for (int64_t i = 0; i < 12 * 784; ++i) {
        images.view(-1)[i] = static_cast<float>(static_cast<unsigned char>(bytes[16 + i])) / 255.0F;
      }
      return images;
    }
    return {};
  }
};

/// Which image of `all` each sequence is; −1 for none.
std::vector<int64_t> places(const Tensor& sequences, const Tensor& all) {
  std::vector<int64_t> found;
  for (const auto& sequence : sequences.squeeze(-1).unbind(0)) {
    int64_t place = -1;
    for (int64_t i = 0; i < all.size(0); ++i) {
      if (at::allclose(sequence, all[i], 0, 1e-6)) place = i;
    }
    found.push_back(place);
  }
  return found;
}

TEST_F(Pixels, AreReadOneAtATimeRowByRow) {
  const PixelTask task(config(), at::kCPU);
  ASSERT_EQ(task.size(Part::kTest), 12);
  const auto items = task.items(Part::kTest, 0, 12);
  ASSERT_EQ(items.inputs.sizes(), at::IntArrayRef({12, 784, 1}));
  EXPECT_EQ(items.inputs.scalar_type(), at::kFloat);
  EXPECT_LT(support::distance(items.inputs.squeeze(-1), raw(false)), 1e-6);
  for (int64_t i = 0; i < 12; ++i) EXPECT_EQ(items.targets[i].item<int64_t>(), i % 10);
  const auto some = task.items(Part::kTest, 3, 8);
  EXPECT_TRUE(at::equal(some.inputs, items.inputs.narrow(0, 3, 5)));
  EXPECT_TRUE(at::equal(some.targets, items.targets.narrow(0, 3, 5)));
}

/// An epoch meets every training image once, with its label, in an order of its own; none is a validation
/// image.
TEST_F(Pixels, TrainOnWhatIsNotSetAside) {
  const auto all = raw(true);
  PixelTask task(config(), at::kCPU);
  EXPECT_EQ(task.steps_per_epoch(), 2);
  ASSERT_EQ(task.size(Part::kValidation), 4);
  const auto aside = task.items(Part::kValidation, 0, 4);
  const auto kept = places(aside.inputs, all);
  std::vector<std::vector<int64_t>> orders;
  for (const int64_t epoch : {0, 1}) {
    std::multiset<int64_t> met(kept.begin(), kept.end());
    orders.emplace_back();
    for (const int64_t step : {0, 1}) {
      const auto batch = task.batch(epoch, step);
      ASSERT_EQ(batch.inputs.sizes(), at::IntArrayRef({4, 784, 1}));
      const auto now = places(batch.inputs, all);
      for (int64_t i = 0; i < 4; ++i) EXPECT_EQ(batch.targets[i].item<int64_t>(), now[i] % 10);
      met.insert(now.begin(), now.end());
      orders.back().insert(orders.back().end(), now.begin(), now.end());
    }
    EXPECT_EQ(met, (std::multiset<int64_t>{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}));
  }
  for (int64_t i = 0; i < 4; ++i) EXPECT_EQ(aside.targets[i].item<int64_t>(), kept[i] % 10);
  EXPECT_NE(orders[0], orders[1]);
  PixelTask again(config(), at::kCPU), other(config(4, false, 2), at::kCPU), whole(config(0), at::kCPU);
  EXPECT_TRUE(same(again.batch(1, 1), task.batch(1, 1)));
  EXPECT_FALSE(same(other.batch(1, 1), task.batch(1, 1)));
  EXPECT_EQ(whole.size(Part::kValidation), 0);
  EXPECT_EQ(whole.steps_per_epoch(), 3);
}

/// One order of the pixels for all parts and all seeds; the twelve bytes of a place tell it from any other.
TEST_F(Pixels, ArePermutedInOneWay) {
  PixelTask plain(config(), at::kCPU), permuted(config(4, true), at::kCPU);
  const PixelTask other(config(4, true, 2), at::kCPU);
  const auto columns = plain.items(Part::kTest, 0, 12).inputs.squeeze(-1);
  const auto moved = permuted.items(Part::kTest, 0, 12).inputs.squeeze(-1);
  std::map<std::vector<float>, int64_t> place_of;
  const auto column = [](const Tensor& t, int64_t j) {
    const auto one = t.select(1, j).contiguous();
    return std::vector<float>(one.data_ptr<float>(), one.data_ptr<float>() + one.numel());
  };
  for (int64_t j = 0; j < 784; ++j) place_of[column(columns, j)] = j;
  ASSERT_EQ(place_of.size(), 784U);
  auto order = torch::empty({784}, at::kLong);
  std::set<int64_t> taken;
  for (int64_t j = 0; j < 784; ++j) {
    const auto found = place_of.find(column(moved, j));
    ASSERT_NE(found, place_of.end()) << j;
    order[j] = found->second;
    taken.insert(found->second);
  }
  EXPECT_EQ(taken.size(), 784U);
  EXPECT_LT((order == torch::arange(784)).sum().item<int64_t>(), 20);
  EXPECT_TRUE(same(permuted.items(Part::kTest, 0, 12), other.items(Part::kTest, 0, 12)));
  const auto expect_moved = [&](const TaskBatch& now, const TaskBatch& before) {
    EXPECT_TRUE(same(now, {before.inputs.index_select(1, order), before.targets}));
  };
  expect_moved(permuted.batch(0, 1), plain.batch(0, 1));
  expect_moved(permuted.items(Part::kValidation, 0, 4), plain.items(Part::kValidation, 0, 4));
}

TEST_F(Pixels, SayWhatDoesNotSuitThem) {
  auto color = config();
  color.data = "cifar10";
  support::write_set("cifar10", folder_ / stiefel::data::facts_of("cifar10").folders[0], 6);
  EXPECT_MESSAGE(make_task(color, at::kCPU), "cifar10 has colours");
  EXPECT_THROW(make_task(color, at::kCPU), std::invalid_argument);
  EXPECT_MESSAGE(make_task(config(12), at::kCPU), "--validation is 12");
  EXPECT_MESSAGE(make_task(config(9), at::kCPU), "--batch is 4");
}

// --- gradients by their root mean square ---

/// v ← 0.9v + 0.1|g|², g ← g/√(v + 1e-5), number by number.
TEST(RmsScaling, EqualsAPlainLoop) {
  for (const auto type : {at::kDouble, at::kComplexDouble}) {
    const auto x = torch::randn({3, 4}, type).requires_grad_(true);
    const auto idle = torch::randn({2}, type).requires_grad_(true);
    const auto before = x.detach().clone();
    RmsScaling scaling({idle, x});
    std::vector<double> v(12, 0);
    for (int step = 0; step < 4; ++step) {
      const auto g = torch::randn({3, 4}, type) * std::pow(10.0, -step);
      support::set_gradient(x, g);
      scaling.step();
      auto wanted = g.clone().view(-1);
      for (int64_t i = 0; i < 12; ++i) {
        const double size = wanted[i].abs().item<double>();
        v[i] = 0.9 * v[i] + 0.1 * size * size;
        wanted[i] /= std::sqrt(v[i] + 1e-5);
      }
      EXPECT_LT(support::distance(x.grad().view(-1), wanted), 1e-12);
    }
    EXPECT_TRUE(at::equal(x.detach(), before));
    EXPECT_FALSE(idle.grad().defined());
  }
}

TEST(RmsScaling, GoesOnFromItsArchive) {
  const auto x = torch::randn({3}, at::kComplexFloat).requires_grad_(true);
  const auto y = torch::randn({2, 2}).requires_grad_(true);
  RmsScaling scaling({x, y}), resumed({x, y}), fresh({x, y});
  support::randomize_gradients({x, y});
  scaling.step();
  support::load(resumed, support::save(scaling));
  const auto gx = torch::randn({3}, at::kComplexFloat), gy = torch::randn({2, 2});
  const auto scaled = [&](RmsScaling& by) {
    support::set_gradient(x, gx);
    support::set_gradient(y, gy);
    by.step();
    return at::cat({x.grad().abs(), y.grad().reshape(-1)});
  };
  const auto wanted = scaled(scaling);
  EXPECT_TRUE(at::equal(scaled(resumed), wanted));
  EXPECT_FALSE(at::equal(scaled(fresh), wanted));
  RmsScaling narrow({y, x});
  EXPECT_ERROR(support::load(narrow, support::save(scaling)), "squares0 has the shape [3] instead of [2, 2]");
  EXPECT_ERROR(scaling.step([] { return Tensor(); }), "closure");
}

}  // namespace sequence_tasks_test
