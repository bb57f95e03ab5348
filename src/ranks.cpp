#include <stiefel/ranks.h>

namespace stiefel {

Ranks::~Ranks() = default;

}  // namespace stiefel
