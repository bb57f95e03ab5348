#pragma once

#include <stiefel/detail/group_rate.h>
#include <stiefel/export.h>
#include <stiefel/optim/device_rates.h>
#include <stiefel/optim/group_options.h>
#include <stiefel/sharding.h>
#include <torch/optim/optimizer.h>

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace stiefel {

/// What the optimiser remembers of any parameter. `master` is the float32 point of a half or bfloat16
/// parameter on the manifold, whose own type cannot hold an orthonormal matrix; the parameter is its
/// rounding. A parameter that someone else has written since becomes its own new master at the next step.
class STIEFEL_API ParamState : public torch::optim::OptimizerParamState {
 public:
  at::Tensor master;
  int64_t written_version = -1;  ///< the parameter's version when it was last made the master's rounding

  void serialize(torch::serialize::OutputArchive& archive) const override;
  void serialize(torch::serialize::InputArchive& archive) override;

  /// The tensors that make up the state: each in the parameter's shape, or one number per matrix.
  struct Entry {
    const char* name;
    at::Tensor* tensor;
    bool per_matrix;
  };
  virtual std::vector<Entry> entries();

  /// Throws c10::Error where an archive had some of the entries that are always there together.
  virtual void check_whole(Manifold manifold) const;
};

namespace detail {

/// Parameters of a group that are stepped together, in their own shapes.
struct ParameterBatch {
  std::vector<at::Tensor> points;
  std::vector<at::Tensor> momenta;  ///< empty where the method has none, and for Euclidean parameters
  std::vector<at::Tensor> gradients;
  std::vector<ParamState*> states;
  Sharding sharding;  ///< of the points, where ranks have parts of them
};

/// The shape of one number per matrix of a point.
STIEFEL_API std::vector<int64_t> batch_shape_of(const at::Tensor& point, const GroupOptions& options);

class SharedSteps;
struct ShardExtents;
struct StepPart;

}  // namespace detail

class OverlappedStep;

/// What all optimisers here share: groups on the manifold beside Euclidean ones, batching by shape,
/// the checks at the start, and archives from which training continues bit for bit.
///
/// Every group has options of the optimiser's own type, Euclidean ones included; others are an error.
///
/// Parameters on the manifold are checked when their group is first seen: a matrix within 1e-3 of the
/// manifold (nearest_start(); more for landing) is left as it is (the first step draws it in), one further
/// off is made orthonormal with a warning, and one without full rank is an error. A matrix that a later step
/// finds off the manifold by more than its group's farthest_start(), because it was loaded or scaled in
/// between, is left in place and counted, while all others move. On the CPU that step() then throws an error
/// naming it; on a GPU, where a step cannot look, the next skipped_steps() does.
///
/// On a GPU every step, Euclidean groups included, reads rates and step counts from the device and waits for
/// nothing, so it can be captured into a CUDA graph after it has been taken once; refresh_rates() brings a
/// schedule's rates there. A capture that would freeze a rate or reset a buffer at every replay is an error.
class STIEFEL_API ManifoldOptimizer : public torch::optim::Optimizer, public DeviceRates {
 public:
  ~ManifoldOptimizer() override;

  /// Gradients are read, never changed. Parameters without a gradient are passed over.
  at::Tensor step(LossClosure closure = nullptr) override;

  /// Adds a group. Hides the base class's function of the same name to keep Euclidean defaults off the
  /// manifold; a group added through the base class is checked at the next step all the same.
  void add_param_group(const torch::optim::OptimizerParamGroup& group);

  void refresh_rates() override;
  bool has_device_rates() const override;

  /// How often a matrix was left in place, because its gradient was not finite, it was too far off the
  /// manifold, or the retraction failed. Waits for the device. Throws, once for each time, where a step on a
  /// GPU found matrices too far off the manifold.
  int64_t skipped_steps() const;

  /// Shares the steps on the manifold among ranks that hold the same weights: each weight has an owner, which
  /// alone steps it and keeps its state, and at the end of step() one gathering per device hands all weights
  /// to all ranks. Owners are chosen so that the work, np² + p³ per matrix, is divided evenly; Euclidean
  /// groups are stepped by every rank. Called on every rank, before the first step, with equal weights; from
  /// then on every rank calls step(), with gradients that are equal on all ranks (averaged, as data-parallel
  /// training does). Skipped steps are counted over all ranks, and an error about a matrix off the manifold
  /// is thrown on every rank.
  void distribute(std::shared_ptr<Ranks> ranks);

  /// After this, called on every rank, `rank` has the states of all weights, so that it can save(). The next
  /// step lets those of other ranks' weights go again.
  void consolidate_states(int64_t rank = 0);

  /// The state of a distributed optimizer lies on all ranks: save() is for the rank that has called
  /// consolidate_states() for itself since the last step. The archive is the same as without ranks, and
  /// load() takes it on every rank, however many there are.
  void save(torch::serialize::OutputArchive& archive) const override;
  void load(torch::serialize::InputArchive& archive) override;

 protected:
  ManifoldOptimizer(std::vector<torch::optim::OptimizerParamGroup> groups,
                    std::unique_ptr<GroupOptions> defaults);

  using ParameterBatch = detail::ParameterBatch;

  /// The optimiser's name in its archives.
  virtual std::string name() const = 0;

  virtual std::unique_ptr<ParamState> new_state() const = 0;

  /// The momentum of a point, in the point's shape; creates what the state lacks. Undefined where the method
  /// keeps none.
  virtual at::Tensor momentum_of(const GroupOptions& options, ParamState& state, const at::Tensor& point) = 0;

  /// What the steps on one device count, as 0-dim int64 tensors there.
  struct Counters {
    at::Tensor skipped;       ///< matrices that were left in place
    at::Tensor off_manifold;  ///< those of them that were too far off the manifold
    int64_t reported = 0;     ///< of the latter, how many an error has told of
    at::Tensor elsewhere;     ///< both counts of all other ranks, where steps are shared
    bool sharded = false;     ///< of weights that all ranks step together, and count alike
  };

  /// One step of a batch on the manifold, of one type and device. `rate` is the group's rate, one double on
  /// the device.
  virtual void step_manifold(const GroupOptions& options, const ParameterBatch& batch, const at::Tensor& rate,
                             const Counters& counters) = 0;

  /// One step of a group's Euclidean parameters, of any types and devices.
  virtual void step_euclidean(const GroupOptions& options, const ParameterBatch& batch,
                              detail::GroupRate& rate) = 0;

  /// Whether a step computes this weight apart from all others, so that its result has the same bits whatever
  /// is stepped with it. Weights of which this is not true are stepped with all others of their shape.
  virtual bool is_stepped_alone(const GroupOptions& options, const at::Tensor& point) const;

  /// Throws where a group of this optimizer cannot have the options that an archive holds.
  virtual void check_loaded(const GroupOptions&) const {}

  /// Validates and prepares groups that have not been seen yet. Constructors of derived classes call it last.
  void prepare();

 private:
  friend class OverlappedStep;  // takes a step in parts

  /// Weights on the manifold of one group that must be stepped together, for results to keep their bits.
  struct StepUnit {
    std::vector<at::Tensor> weights;
    bool batched;
  };
  struct Group {
    size_t prepared = 0;  // how many of its parameters are
    detail::GroupRate rate;
  };

  ParamState& state_of(const at::Tensor& parameter);
  const ParamState* find_state(const at::Tensor& parameter) const;
  void place_on_manifold(const std::vector<at::Tensor>& parameters, const GroupOptions& options);
  void check_capture(const detail::StepPart& part) const;
  void begin_step();
  void step_part(const detail::StepPart& part);
  void end_step();
  void begin_parts();
  std::vector<StepUnit> step_units() const;
  void follow_changes(const at::Tensor& parameter, ParamState& state, const GroupOptions& options) const;
  void step_manifold_group(torch::optim::OptimizerParamGroup& group, detail::GroupRate& rate,
                           const detail::StepPart& part);
  void step_euclidean_group(torch::optim::OptimizerParamGroup& group, detail::GroupRate& rate);
  void place_shards_on_manifold(const std::vector<at::Tensor>& parameters, const GroupOptions& options);
  const detail::ShardExtents& extents_of(const at::Tensor& parameter) const;
  Counters& counters_on(const at::Device& device, bool sharded = false);
  int64_t total_skipped() const;
  void report_off_manifold(Counters& counters) const;
  void check_ranks() const;
  bool is_mine(const at::Tensor& parameter) const;
  const ParamState* state_to_save(const at::Tensor& parameter) const;
  void exchange_steps();
  void release_states_of_others();

  std::vector<Group> groups_;               // beside torch's param_groups_
  mutable std::vector<Counters> counters_;  // of each device that has points
  int64_t skipped_before_ = 0;              // counted by the optimizer whose archive this one has loaded
  std::unique_ptr<detail::SharedSteps> sharing_;  // none on its own
  std::map<const void*, std::unique_ptr<detail::ShardExtents>>
      extents_;  // of sharded weights, by the parameter's identity
  std::map<const void*, std::unique_ptr<ParamState>> consolidated_;  // whole states beside those of this rank
  int64_t consolidated_on_ = -1;                                     // the rank that has all states
  bool has_states_of_others_ = false;
  bool is_in_parts_ = false;  // between the first and the last part of a step
};

}  // namespace stiefel
