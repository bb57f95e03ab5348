#pragma once

#include <string>
#include <vector>

#include "experiment.h"

/// What several tables and figures share: the recipes at full scale and the names of the methods.
namespace stiefel::paper {

/// A network on images by one of the thirteen methods of the paper's Table 3: sgd, adam, so, dso, srip,
/// omdsm, dbn, polar, qr, wen-yin, cayley-closed, cayley-sgd, cayley-adam. 200 epochs, batch 128, rates × 0.2
/// at 60, 120 and 160, flips and reflect-padded crops; weight decay 5e-4, on every parameter by SGD and ADAM
/// (by ADAM apart from the gradient) and on Euclidean matrices alone beside orthonormal weights.
Recipe image_recipe(const std::string& method, const std::string& data, const std::string& model);

/// All thirteen, in the table's order.
const std::vector<std::string>& all_methods();

/// The four of Tables 1 and 2: sgd, adam, cayley-sgd, cayley-adam.
const std::vector<std::string>& main_methods();

/// The nine others that constrain weights or activations, softly or hard: all but sgd, adam, cayley-sgd and
/// cayley-adam.
std::vector<std::string> rival_methods();

/// The full-capacity uRNN with N units on MNIST pixel by pixel, by cayley-closed, cayley-sgd or cayley-adam.
Recipe pixel_recipe(const std::string& method, int64_t units);

}  // namespace stiefel::paper
