#pragma once

#include <string_view>

// Files that CMake embeds, see embed.cmake.

namespace stiefel::report::assets {

extern const std::string_view page_css;
extern const std::string_view page_js;

// All empty where the build found no dygraphs; the charts are then the static ones.
extern const std::string_view dygraphs_js;
extern const std::string_view dygraphs_css;
extern const std::string_view dygraphs_license;

}  // namespace stiefel::report::assets
