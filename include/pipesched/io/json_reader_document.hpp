// SPDX-License-Identifier: MIT
#pragma once

/// \file
/// Parses JSON from outside: without exceptions, to a bounded depth, with what is wrong as a diagnostic.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <pipesched/io/diagnostic.hpp>

namespace pipesched {
inline namespace v0 {
namespace detail {

/// How deep arrays and objects may be nested; no format that is read here needs more than five.
inline constexpr int max_json_depth = 64;

/// Looks at every token and keeps none: finds what is wrong before memory is spent on values.
class json_guard {
 public:
  using json = nlohmann::json;

  bool null() { return true; }
  bool boolean(bool) { return true; }
  bool number_integer(json::number_integer_t) { return true; }
  bool number_unsigned(json::number_unsigned_t) { return true; }
  bool number_float(json::number_float_t, std::string const&) { return true; }
  bool string(std::string&) { return true; }
  bool binary(json::binary_t&) { return true; }
  bool key(std::string&) { return true; }
  bool start_object(std::size_t) { return enter(); }
  bool end_object() { return leave(); }
  bool start_array(std::size_t) { return enter(); }
  bool end_array() { return leave(); }
  bool parse_error(std::size_t position, std::string const&, nlohmann::detail::exception const& error) {
    position_ = position;
    message_ = error.what();
    // "[json.exception.parse_error.101] parse error at line 1, column 2: syntax error ...": the place is given apart.
    if (auto const place = message_.find(": "); place != std::string::npos) message_.erase(0, place + 2);
    return false;
  }

  [[nodiscard]] bool too_deep() const noexcept { return depth_ > max_json_depth; }
  [[nodiscard]] std::size_t position() const noexcept { return position_; }
  [[nodiscard]] std::string const& message() const noexcept { return message_; }

 private:
  bool enter() { return ++depth_ <= max_json_depth; }
  bool leave() {
    --depth_;
    return true;
  }

  int depth_ = 0;
  std::size_t position_ = 0;
  std::string message_;
};

/// The value of a text, or nothing and a diagnostic.
[[nodiscard]] inline std::optional<nlohmann::json> parse_json(std::string_view text,
                                                              std::vector<diagnostic>& diagnostics) {
  if (text.substr(0, 3) == "\xEF\xBB\xBF") text.remove_prefix(3);
  json_guard guard;
  if (nlohmann::json::sax_parse(text, &guard)) {
    auto value = nlohmann::json::parse(text, nullptr, false);
    if (!value.is_discarded()) return value;
  }
  diagnostic d{.kind = "bad_json"};
  if (guard.too_deep()) {
    d.message = "arrays and objects are nested too deep";
    d.expected = fmt::format("at most {} levels", max_json_depth);
  } else {
    auto const before = text.substr(0, std::min(guard.position() > 0 ? guard.position() - 1 : 0, text.size()));
    auto const line_start = before.rfind('\n');
    d.line = 1 + std::count(before.begin(), before.end(), '\n');
    d.column = 1 + std::int64_t(line_start == std::string_view::npos ? before.size() : before.size() - line_start - 1);
    d.message = fmt::format("is no JSON: {}", printable(guard.message(), 200));
  }
  diagnostics.push_back(std::move(d));
  return {};
}

/// Reads members of JSON objects; each that is not as expected becomes a diagnostic that names its path.
class json_members {
 public:
  using json = nlohmann::json;

  explicit json_members(std::vector<diagnostic>& diagnostics) : diagnostics_(diagnostics) {}

  void complain(std::string_view path, std::string_view expected) {
    diagnostics_.push_back({.kind = "bad_value",
                            .op = std::string(path),
                            .message = "is missing or of a wrong value",
                            .expected = std::string(expected)});
  }

  /// The member, or null where there is none.
  [[nodiscard]] static json const* find(json const& object, std::string_view name) {
    if (!object.is_object()) return nullptr;
    auto const at = object.find(name);
    return at != object.end() ? &*at : nullptr;
  }

  /// A whole number in [low, high].
  [[nodiscard]] std::optional<std::int64_t> whole(json const& object, std::string_view name, std::int64_t low,
                                                  std::int64_t high) {
    auto const* value = find(object, name);
    if (value != nullptr)
      if (auto const number = whole_value(*value); number && *number >= low && *number <= high) return number;
    complain(name, fmt::format("a whole number from {} to {}", low, high));
    return {};
  }

  [[nodiscard]] static std::optional<std::int64_t> whole_value(json const& value) {
    // What does not fit 64 bits is unsigned or a floating-point number for the parser.
    if (!value.is_number_integer()) return {};
    if (value.is_number_unsigned() && value.get<std::uint64_t>() > std::uint64_t{INT64_MAX}) return {};
    return value.get<std::int64_t>();
  }

  /// A number of at least 0.
  [[nodiscard]] static std::optional<double> duration_value(json const& value) {
    if (!value.is_number()) return {};
    auto const number = value.get<double>();
    return number >= 0 ? std::optional(number) : std::nullopt;
  }

 private:
  std::vector<diagnostic>& diagnostics_;
};

}  // namespace detail
}  // namespace v0
}  // namespace pipesched
