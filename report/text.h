#pragma once

#include <string>

namespace stiefel::report {

/// The text with every byte that is no UTF-8, and every character that HTML and XML do not have, replaced by
/// U+FFFD. Names of files may hold any byte.
std::string valid_text(const std::string& text);

/// Text that is safe between tags and inside quoted attributes, whatever bytes it had.
std::string escape_html(const std::string& text);

/// JSON that is safe inside a <script> element, where "</script>" and "<!--" would end or derail it.
std::string escape_json_for_script(const std::string& json);

/// JavaScript that is safe inside a <script> element, and asks for no source map.
std::string escape_script(const std::string& code);

/// The same for CSS inside a <style> element.
std::string escape_style(const std::string& css);

// Numbers as people read them; "–" where the value is missing.
std::string format_percent(double value);   // 8.71 %
std::string format_loss(double value);      // 0.4123
std::string format_small(double value);     // 8.1e-7
std::string format_seconds(double value);   // 7.12 s
std::string format_duration(double value);  // 2 min 03 s
std::string format_count(double value);     // 123,456

/// The title of a method or a data set: "cayley-sgd" is Cayley SGD, "fashion-mnist" Fashion-MNIST. Other
/// names stay as they are.
std::string display_name(const std::string& name);

}  // namespace stiefel::report
