#pragma once

#include <string>

/// Text made safe for the place where it is put.
namespace stiefel::base {

/// The text with every byte that is not UTF-8, and every character that HTML and XML do not allow, replaced
/// by U+FFFD. File names may hold any byte.
std::string valid_text(const std::string& text);

/// Text that is safe between tags and inside quoted attributes of HTML and SVG, whatever bytes it had.
std::string escape_html(const std::string& text);

/// JSON that is safe inside a <script> element, where "</script>" would end it and "<!--" would change how it
/// is read.
std::string escape_json_for_script(const std::string& json);

/// JavaScript that is safe inside a <script> element, without references to source maps.
std::string escape_script(const std::string& code);

/// The same for CSS inside a <style> element.
std::string escape_style(const std::string& css);

}  // namespace stiefel::base
