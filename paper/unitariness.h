#pragma once

#include <functional>
#include <string>
#include <vector>

#include "record/config.h"

/// How unitary the hidden-to-hidden matrix stays under the iterative Cayley transform: the paper's Table 5.
namespace stiefel::paper {

/// How the iteration is carried out.
enum class CayleyForm {
  kPrinted,  ///< Algorithm 1 as printed: Y⁰ = X + αWX; in closed form solved for Y as a whole
  kReleased,  ///< the same but Y⁰ = X + αM with the momentum before its projection, as the released code has
              ///< it
  kPolished,  ///< the library's default, which removes the error that the iteration leaves
};

std::string to_string(CayleyForm form);

/// In a word, for the names of rows and folders: printed, released, polished.
std::string short_name(CayleyForm form);

// What the table is measured with, by the command and by the paper's table alike.
inline constexpr int64_t kUnitarinessIterations = 430;  ///< an epoch
/// Of K. The paper does not say; between 1e-4 and 3e-4 an epoch shows the printed pattern
/// (docs/unitary-rnn.md).
inline constexpr double kUnitarinessRate = 2e-4;
inline constexpr double kUnitarinessMomentum = 0.9;   ///< of K
inline constexpr double kUnitarinessRestRate = 1e-3;  ///< of the other parameters, by RMSprop

/// One cell: so many rounds of the iteration, or the closed form.
struct UnitarinessCell {
  CayleyForm form = CayleyForm::kPrinted;
  int64_t rounds = 2;
  bool closed = false;
  double mean = 0;     ///< of ‖KᴴK − I‖_F over all iterations
  double last = 0;     ///< at the end
  double turn = 0;     ///< the mean α‖W‖_F, which the error depends on
  double loss = 0;     ///< of the last tenth of the iterations
  double seconds = 0;  ///< of the whole cell
};

/// Trains config's recurrent network with Cayley SGD for `iterations` steps once for each cell, from the same
/// start and on the same batches, and fills in what the cells showed. K moves at config.lr_manifold with
/// config.momentum, the rest by RMSprop at config.lr. `progress` is called with what is being done.
void measure_unitariness(const record::Config& config, int64_t iterations,
                         std::vector<UnitarinessCell>& cells,
                         const std::function<void(const std::string&)>& progress);

/// s = 0 … 4 and the closed form, in each form of the iteration (the released start has no closed form; the
/// polished one solves for the increment alone).
std::vector<UnitarinessCell> unitariness_cells();

}  // namespace stiefel::paper
