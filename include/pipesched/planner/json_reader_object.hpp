// SPDX-License-Identifier: MIT
#pragma once

/// \file
/// Reads the members of a JSON object, each with its kind of value; what is wrong becomes a diagnostic.

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <pipesched/analysis/hardware.hpp>
#include <pipesched/io/diagnostic.hpp>
#include <pipesched/io/json_reader_document.hpp>

namespace pipesched {
inline namespace v0 {
namespace detail {

/// Reads the members of one object into variables, and complains of those that it was not asked for.
class object_reader {
 public:
  using json = nlohmann::json;

  object_reader(json const& object, std::string path, std::vector<diagnostic>& diagnostics)
      : object_(object), path_(std::move(path)), diagnostics_(diagnostics) {}

  /// The member of a key that the object may have.
  json const* find(std::string_view key) {
    known_.push_back(key);
    return json_members::find(object_, key);
  }
  [[nodiscard]] bool has(std::string_view key) const { return json_members::find(object_, key) != nullptr; }
  void require(std::string_view key) {
    if (!json_members::find(object_, key)) complain(key, "is missing", "a value");
  }
  /// A figure that a GPU needs whose kind is not in the table.
  void require_of_kind(std::string_view key, std::string_view kind) {
    if (json_members::find(object_, key)) return;
    std::string known;
    for (auto const& gpu : known_gpus) known += (known.empty() ? "" : ", ") + std::string(gpu.name);
    complain(key, "is missing", fmt::format("a value, for gpu \"{}\" is none of {}", printable(kind), known));
  }
  void whole(std::string_view key, std::int64_t& into) {
    auto const* value = find(key);
    if (!value) return;
    auto const number = json_members::whole_value(*value);
    number ? void(into = *number) : complain(key, "is " + shown(*value), "a whole number");
  }
  void real(std::string_view key, double& into) {
    auto const* value = find(key);
    if (!value) return;
    value->is_number() ? void(into = value->get<double>()) : complain(key, "is " + shown(*value), "a number");
  }
  void flag(std::string_view key, bool& into) {
    auto const* value = find(key);
    if (!value) return;
    value->is_boolean() ? void(into = value->get<bool>()) : complain(key, "is " + shown(*value), "true or false");
  }
  void text(std::string_view key, std::string& into) {
    auto const* value = find(key);
    if (!value) return;
    value->is_string() ? void(into = value->get<std::string>()) : complain(key, "is " + shown(*value), "a string");
  }
  /// One of `values`, by name.
  template <class Value, std::size_t N>
  void one_of(std::string_view key, Value& into, std::array<Value, N> const& values) {
    auto const* value = find(key);
    if (!value) return;
    std::string expected;
    for (auto const& candidate : values) {
      if (value->is_string() && value->get_ref<std::string const&>() == name_of(candidate)) {
        into = candidate;
        return;
      }
      expected += (expected.empty() ? "" : ", ") + std::string(name_of(candidate));
    }
    complain(key, "is " + shown(*value), "one of " + expected);
  }
  /// A bandwidth in bytes per second, or the name of a known link.
  void bandwidth(std::string_view key, double& into) {
    auto const* value = find(key);
    if (!value || !value->is_string()) return value ? real(key, into) : void();
    for (auto const& link : known_links)
      if (link.name == value->get_ref<std::string const&>()) return void(into = link.bytes_per_second);
    std::string names;
    for (auto const& link : known_links) names += ", " + std::string(link.name);
    complain(key, "is " + shown(*value), "bytes per second, or a link's name" + names);
  }
  /// A whole number or an array of them, not too long.
  void sizes(std::string_view key, std::vector<std::int64_t>& into) {
    auto const* value = find(key);
    if (!value) return;
    into.clear();
    auto const add = [&](json const& element) {
      auto const number = json_members::whole_value(element);
      if (number) into.push_back(*number);
      return number.has_value();
    };
    bool const fine = value->is_array()
                          ? value->size() <= most_choices && std::all_of(value->begin(), value->end(), add)
                          : add(*value);
    if (!fine) complain(key, "is " + shown(*value), fmt::format("a whole number, or at most {} of them", most_choices));
  }
  void names(std::string_view key, std::vector<std::string>& into) {
    auto const* value = find(key);
    if (!value) return;
    bool const fine = value->is_array() && value->size() <= most_choices &&
                      std::all_of(value->begin(), value->end(), [](json const& name) { return name.is_string(); });
    if (!fine) return complain(key, "is " + shown(*value), "an array of names");
    for (auto const& name : *value) into.push_back(name.get<std::string>());
  }

  /// A value as it stands in the file, cut where it is long.
  [[nodiscard]] static std::string shown(json const& value) {
    if (value.is_object()) return value.empty() ? "{}" : "{...}";
    return printable(value.dump(-1, ' ', true, json::error_handler_t::replace));
  }

  void complain(std::string_view key, std::string message, std::string expected) {
    diagnostics_.push_back({.kind = "bad_value",
                            .op = path_ + '.' + printable(key),
                            .message = std::move(message),
                            .expected = std::move(expected)});
  }
  /// Complains of the first members that were not asked for.
  void finish() {
    int count = 0;
    std::string names;
    for (auto const key : known_) names += (names.empty() ? "one of " : ", ") + std::string(key);
    for (auto const& [key, value] : object_.items())
      if (std::find(known_.begin(), known_.end(), key) == known_.end() && count++ < 8)
        complain(key, "is unknown", names);
  }

 private:
  static constexpr std::size_t most_choices = 64;

  json const& object_;
  std::string path_;
  std::vector<diagnostic>& diagnostics_;
  std::vector<std::string_view> known_;
};

/// The first key that an object of a valid text has twice, with its path; nlohmann's parser keeps the last value alone.
[[nodiscard]] inline std::optional<std::string> repeated_key(std::string_view text, std::string_view root) {
  struct open_object {
    std::set<std::string> keys;
    std::string last;
  };
  std::vector<open_object> open;
  std::optional<std::string> found;
  auto const look = [&](int, nlohmann::json::parse_event_t event, nlohmann::json& value) {
    using kind = nlohmann::json::parse_event_t;
    if (event == kind::object_start) open.emplace_back();
    if (event == kind::object_end) open.pop_back();
    if (event == kind::key) {
      auto& object = open.back();
      object.last = value.template get<std::string>();
      if (!object.keys.insert(object.last).second && !found) {
        found = root;
        for (auto const& outer : open) *found += '.' + printable(outer.last);
      }
    }
    return true;
  };
  [[maybe_unused]] auto const kept = nlohmann::json::parse(text, look, false);
  return found;
}

/// The file's object, or nothing and a diagnostic; `root` is its name in diagnostics.
[[nodiscard]] inline std::optional<nlohmann::json> parse_object(std::string_view text, std::string_view root,
                                                                std::vector<diagnostic>& diagnostics) {
  auto document = parse_json(text, diagnostics);
  if (document)
    if (auto key = repeated_key(text, root))
      diagnostics.push_back(
          {.kind = "bad_value", .op = *std::move(key), .message = "stands twice", .expected = "one value"});
  if (document && !document->is_object()) {
    diagnostics.push_back({.kind = "bad_value", .message = "the file is no object", .expected = "a JSON object"});
    document.reset();
  }
  return document;
}

}  // namespace detail
}  // namespace v0
}  // namespace pipesched
