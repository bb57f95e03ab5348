#include "method_facts.h"

#include <algorithm>
#include <stdexcept>

namespace stiefel::record {

namespace {

/// A row that is filled field by field, so that each value stands beside its name.
class FactsBuilder {
 public:
  FactsBuilder(MethodFamily family, const char* name, const char* title) {
    facts_.family = family;
    facts_.name = name;
    facts_.title = title;
  }

  FactsBuilder& paper_role(PaperRole value) { return set(facts_.paper_role, value); }
  FactsBuilder& lr(double value) { return set(facts_.lr, value); }
  FactsBuilder& sequence_lr(double value) { return set(facts_.sequence_lr, value); }
  FactsBuilder& lr_manifold(double value) { return set(facts_.lr_manifold, value); }
  FactsBuilder& pixel_lr_manifold(double value) { return set(facts_.pixel_lr_manifold, value); }
  FactsBuilder& synthetic_lr_manifold(double value) { return set(facts_.synthetic_lr_manifold, value); }
  FactsBuilder& beta2(double value) { return set(facts_.beta2, value); }
  FactsBuilder& weight_decay(double value) { return set(facts_.weight_decay, value); }
  FactsBuilder& uses_momentum() { return set(facts_.uses_momentum, true); }
  FactsBuilder& uses_betas() { return set(facts_.uses_betas, true); }
  FactsBuilder& uses_root() { return set(facts_.uses_root, true); }
  FactsBuilder& has_mixed_step() { return set(facts_.has_mixed_step, true); }
  FactsBuilder& defect_bound(double value) { return set(facts_.defect_bound, value); }
  FactsBuilder& operations(const char* value) { return set(facts_.operations, value); }
  FactsBuilder& operations_with_momentum(const char* value) {
    return set(facts_.operations_with_momentum, value);
  }
  FactsBuilder& lacks(const char* value) { return set(facts_.lacks, value); }

  operator MethodFacts() const { return facts_; }

 private:
  template <class Field, class Value>
  FactsBuilder& set(Field& field, Value value) {
    field = value;
    return *this;
  }

  MethodFacts facts_;
};

FactsBuilder euclidean(const char* name, const char* title) {
  return FactsBuilder(MethodFamily::kEuclidean, name, title).operations("–").lacks("orthonormality");
}

FactsBuilder cayley(const char* name, const char* title) {
  return FactsBuilder(MethodFamily::kCayley, name, title)
      .paper_role(PaperRole::kProposed)
      .lr(0.01)
      .sequence_lr(0.001)
      .beta2(0.99)
      .operations("12np² + 6p³");
}

FactsBuilder retraction(const char* name, const char* title) {
  return FactsBuilder(MethodFamily::kRetraction, name, title)
      .lr(0.01)
      .sequence_lr(1e-3)
      .lr_manifold(0.2)
      .pixel_lr_manifold(1e-5)
      .synthetic_lr_manifold(1e-3)
      .uses_momentum();
}

FactsBuilder penalty(const char* name, const char* title) {
  return FactsBuilder(MethodFamily::kPenalty, name, title)
      .paper_role(PaperRole::kRival)
      .lacks("orthonormality");
}

FactsBuilder parametrization(const char* name, const char* title) {
  return FactsBuilder(MethodFamily::kParametrization, name, title);
}

std::vector<MethodFacts> make_method_facts() {
  return {
      euclidean("sgd", "SGD").paper_role(PaperRole::kBaseline).lr(0.1).sequence_lr(0.1).uses_momentum(),
      euclidean("adam", "ADAM").paper_role(PaperRole::kBaseline).lr(0.001).sequence_lr(0.001).uses_betas(),
      euclidean("adamw", "AdamW").lr(0.001).sequence_lr(0.001).weight_decay(0.01).uses_betas(),
      euclidean("muon", "Muon")
          .lr(0.1)
          .lr_manifold(0.02)
          .sequence_lr(0.001)
          .pixel_lr_manifold(1e-3)
          .synthetic_lr_manifold(1e-3)
          .operations("4np² + 18p³")
          .uses_momentum()
          .uses_root(),

      cayley("cayley-sgd", "Cayley SGD")
          .lr_manifold(0.2)
          .pixel_lr_manifold(1e-5)
          .synthetic_lr_manifold(1e-3)
          .has_mixed_step()
          .uses_momentum(),
      cayley("cayley-adam", "Cayley ADAM")
          .lr_manifold(0.4)
          .pixel_lr_manifold(0.01)
          .synthetic_lr_manifold(0.01)
          .has_mixed_step()
          .uses_betas(),
      cayley("cayley-muon", "Cayley Muon")
          .paper_role(PaperRole::kNone)
          .lr(0.1)
          .lr_manifold(0.01)
          .pixel_lr_manifold(1e-3)
          .synthetic_lr_manifold(1e-3)
          .operations("12np² + 30p³")
          .has_mixed_step()
          .uses_momentum()
          .uses_root(),

      penalty("so", "SO").operations("4np²"),
      penalty("dso", "DSO").operations("4np²"),
      penalty("srip", "SRIP").operations("22np"),

      parametrization("omdsm", "OMDSM").paper_role(PaperRole::kRival).operations("10np² + p×p eigenproblem"),

      FactsBuilder(MethodFamily::kNormalization, "dbn", "DBN")
          .paper_role(PaperRole::kRival)
          .operations("on activations")
          .lacks("orthonormality"),

      retraction("polar", "polar (SVD)")
          .paper_role(PaperRole::kRival)
          .operations("6np² + n×p SVD")
          .lacks("speed on a GPU"),
      retraction("polar-ns", "polar (Newton–Schulz)").operations("8np² + 6kp³"),
      retraction("qr", "QR").paper_role(PaperRole::kRival).operations("8np²").lacks("speed on a GPU"),
      retraction("cholesky-qr", "Cholesky QR").operations("7np² + ⅓p³"),
      retraction("wen-yin", "Wen–Yin")
          .paper_role(PaperRole::kRival)
          .operations("10np² + 19p³")
          .operations_with_momentum("12np² + 21p³")
          .lacks("repair of drift"),
      retraction("cayley-closed", "closed-form Cayley")
          .paper_role(PaperRole::kRival)
          .operations("⅔n³ + 6n²p + 4np²")
          .operations_with_momentum("⅔n³ + 6n²p + 6np²")
          .lacks("repair of drift"),
      retraction("cayley-exact", "exact Cayley").operations("12np² + 6p³"),
      retraction("pogo", "POGO")
          .operations("12np²")
          .operations_with_momentum("14np² + 2p³")
          .lacks("orthonormality to rounding"),
      retraction("landing", "landing")
          .defect_bound(0.5)
          .operations("8np²")
          .operations_with_momentum("10np² + 2p³")
          .lacks("orthonormality"),

      parametrization("matrix-exp", "matrix exponential").operations("n×n exponential, twice"),
      parametrization("cayley", "Cayley map").operations("n×n solve, twice"),
      parametrization("householder", "Householder").operations("4np², then backward"),
  };
}

}  // namespace

bool MethodFacts::is_optimizer() const {
  return family == MethodFamily::kEuclidean || family == MethodFamily::kCayley || is_retraction();
}

bool MethodFacts::is_constrained() const { return family == MethodFamily::kCayley || is_retraction(); }

bool MethodFacts::keeps_orthonormal() const {
  return is_constrained() || family == MethodFamily::kParametrization;
}

const std::vector<MethodFacts>& method_facts() {
  static const auto all = make_method_facts();
  return all;
}

const MethodFacts* find_method_facts(const std::string& name) {
  for (const auto& facts : method_facts()) {
    if (facts.name == name) return &facts;
  }
  return nullptr;
}

const MethodFacts& optimizer_facts(const std::string& name) {
  std::string names;
  for (const auto& facts : method_facts()) {
    if (!facts.is_optimizer()) continue;
    if (facts.name == name) return facts;
    names += (names.empty() ? "" : ", ") + facts.name;
  }
  throw std::invalid_argument("--optim is '" + name + "'; it must be one of " + names);
}

namespace {

template <class Predicate>
std::vector<std::string> names_where(Predicate holds) {
  std::vector<std::string> names;
  for (const auto& facts : method_facts()) {
    if (holds(facts)) names.push_back(facts.name);
  }
  return names;
}

}  // namespace

std::vector<std::string> method_names(MethodFamily family) {
  return names_where([family](const MethodFacts& facts) { return facts.family == family; });
}

std::vector<std::string> method_names(PaperRole role) {
  return names_where([role](const MethodFacts& facts) { return facts.paper_role == role; });
}

std::string method_title(const std::string& name) {
  std::string title;
  for (size_t start = 0; start <= name.size();) {
    const auto end = std::min(name.find('+', start), name.size());
    const auto part = name.substr(start, end - start);
    const auto* facts = find_method_facts(part);
    if (facts == nullptr && (part != "m" || title.empty())) return name;
    title += (title.empty() ? "" : " + ") + (facts != nullptr ? facts->title : "momentum");
    start = end + 1;
  }
  return title;
}

}  // namespace stiefel::record
