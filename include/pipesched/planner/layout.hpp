// SPDX-License-Identifier: MIT
#pragma once

/// \file
/// What each stage holds of the model, and Megatron-LM's text for it: `Et*3|(tt|)*29,m|L`.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include <pipesched/core/placement.hpp>
#include <pipesched/core/vector.hpp>
#include <pipesched/io/diagnostic.hpp>

namespace pipesched {
inline namespace v0 {

/// What one stage holds, in the order in which it runs. A stage may be empty: it passes its input on.
struct stage_content {
  bool embedding = false;
  std::int64_t layers = 0;  ///< transformer layers
  std::int64_t mtp = 0;     ///< layers of multi-token prediction
  bool loss = false;        ///< the output's head and the loss

  friend constexpr bool operator==(stage_content const&, stage_content const&) = default;
};

/// What every stage holds; stage s is on rank s mod P (Megatron-LM counts stages as chunk * P + rank).
struct pipeline_layout {
  std::vector<stage_content> stages;

  [[nodiscard]] constexpr std::int64_t layers() const noexcept {
    std::int64_t sum = 0;
    for (auto const& stage : stages) sum += stage.layers;
    return sum;
  }
  [[nodiscard]] constexpr std::int64_t mtp() const noexcept {
    std::int64_t sum = 0;
    for (auto const& stage : stages) sum += stage.mtp;
    return sum;
  }

  friend constexpr bool operator==(pipeline_layout const&, pipeline_layout const&) = default;
};

/// What was read from a layout's text: the layout, unless there are diagnostics.
struct layout_text {
  std::optional<pipeline_layout> layout = {};
  std::vector<diagnostic> diagnostics = {};
};

/// The most layers that a layout may have; its stages are bounded by `max_stages`.
inline constexpr std::int64_t max_layout_layers = 1'000'000;

namespace detail {

/// Reads one text; time and memory are bounded by its length and `max_stages`, whatever its counts say.
class layout_reader {
 public:
  explicit layout_reader(std::string_view text) : text_(text) {}

  layout_text run() {
    layout_text result;
    stages_.push_back(stage_content{});
    while (!failed() && at_ < text_.size()) text_[at_] == '(' ? group() : symbol(items_);
    for (auto const& item : items_)
      if (!failed()) append(item);
    if (!failed() && !stages_.front().embedding) complain(0, "has no embedding", "E as the first symbol");
    if (!failed() && !stages_.back().loss) complain(text_.size(), "has no loss", "L as the last symbol");
    if (failed())
      result.diagnostics.push_back(*wrong_);
    else
      result.layout = pipeline_layout{std::move(stages_)};
    return result;
  }

 private:
  /// A symbol in a row: `t*3`.
  struct run_of {
    char what;
    std::int64_t count;
    std::size_t column;
  };

  [[nodiscard]] bool failed() const noexcept { return wrong_.has_value(); }

  void complain(std::size_t at, std::string message, std::string expected) {
    diagnostic d{.kind = "bad_layout", .line = 1, .column = std::int64_t(at) + 1};
    if (at < text_.size()) d.op = printable(text_.substr(at, 1));
    d.message = std::move(message);
    d.expected = std::move(expected);
    wrong_ = std::move(d);
  }

  /// Commas are for the eye alone.
  void skip_commas() {
    while (at_ < text_.size() && text_[at_] == ',') ++at_;
  }

  /// The count behind `*`; 1 where there is none.
  std::int64_t count(bool required) {
    skip_commas();
    if (at_ >= text_.size() || text_[at_] != '*') {
      if (required) complain(at_, "a group is not repeated", "*n behind ')'");
      return 1;
    }
    ++at_;
    skip_commas();
    auto const begin = at_;
    std::int64_t value = 0;
    for (; at_ < text_.size() && ((text_[at_] >= '0' && text_[at_] <= '9') || text_[at_] == ','); ++at_)
      if (text_[at_] != ',') value = std::min(10 * value + (text_[at_] - '0'), max_layout_layers + 1);
    if (at_ == begin) complain(at_, "'*' without a count", "digits");
    if (value > max_layout_layers) complain(begin, "repeats too often", fmt::format("at most {}", max_layout_layers));
    return value;
  }

  void symbol(vector<run_of>& into) {
    skip_commas();
    if (at_ >= text_.size()) return;
    auto const column = at_;
    char const c = text_[at_];
    if (std::string_view("Etm|L").find(c) == std::string_view::npos)
      return complain(at_,
                      c == ')'   ? "closes no group"
                      : c == '*' ? "repeats nothing"
                                 : "is no symbol",
                      "E, t, m, L, '|' or a group (..)*n");
    ++at_;
    auto const n = count(false);
    if (!failed()) into.push_back(run_of{c, n, column});
  }

  void group() {
    auto const begin = at_++;
    vector<run_of> body;
    for (skip_commas(); !failed() && at_ < text_.size() && text_[at_] != ')'; skip_commas()) {
      if (text_[at_] == '(') return complain(at_, "a group within a group", "groups side by side");
      symbol(body);
    }
    if (failed()) return;
    if (at_ >= text_.size()) return complain(begin, "the group does not end", "')'");
    if (body.empty()) return complain(begin, "the group is empty", "symbols within ( )");
    ++at_;
    auto const n = count(true);
    if (failed()) return;
    if (std::int64_t(items_.size()) + n * std::int64_t(body.size()) > max_layout_layers)
      return complain(begin, "the group repeats too often", fmt::format("at most {} symbols", max_layout_layers));
    for (std::int64_t i = 0; i < n; ++i) items_.insert(items_.end(), body.begin(), body.end());
  }

  void append(run_of const& i) {
    if (i.count == 0) return;
    auto& stage = stages_.back();
    auto const out_of_order = [&](bool wrong, std::string_view expected) {
      if (wrong) complain(i.column, "is in a wrong place", std::string(expected));
      return wrong;
    };
    switch (i.what) {
      case '|':
        if (out_of_order(loss_, "nothing behind L")) return;
        if (std::int64_t(stages_.size()) + i.count > max_stages)
          return complain(i.column, "makes too many stages", fmt::format("at most {}", max_stages));
        stages_.insert(stages_.end(), std::size_t(i.count), stage_content{});
        return;
      case 'E':
        if (out_of_order(i.count > 1 || stages_.size() > 1 || stage != stage_content{}, "one E, as the first symbol"))
          return;
        stage.embedding = true;
        return;
      case 'L':
        if (out_of_order(i.count > 1 || loss_, "one L, as the last symbol")) return;
        loss_ = stage.loss = true;
        return;
      default: break;
    }
    if (out_of_order(loss_, "nothing behind L")) return;
    if (i.what == 't' && out_of_order(mtp_, "every t before the first m")) return;
    total_ += i.count;
    if (total_ > max_layout_layers)
      return complain(i.column, "makes too many layers", fmt::format("at most {}", max_layout_layers));
    (i.what == 't' ? stage.layers : stage.mtp) += i.count;
    mtp_ = mtp_ || i.what == 'm';
  }

  std::string_view text_;
  std::size_t at_ = 0;
  vector<run_of> items_;
  std::vector<stage_content> stages_;
  std::int64_t total_ = 0;
  bool loss_ = false;
  bool mtp_ = false;
  std::optional<diagnostic> wrong_;
};

[[nodiscard]] inline std::string repeated(std::string_view symbol, std::int64_t count) {
  if (count > 2) return fmt::format("{}*{}", symbol, count);
  std::string text;
  for (; count > 0; --count) text += symbol;
  return text;
}

[[nodiscard]] inline std::string text_of(stage_content const& stage) {
  return (stage.embedding ? "E" : "") + repeated("t", stage.layers) + repeated("m", stage.mtp) +
         (stage.loss ? "L" : "");
}

}  // namespace detail

/// Reads Megatron-LM's text of a layout: E (embedding), t (transformer layer), m (layer of multi-token prediction) and
/// L (loss), stages divided by `|`; `x*n` repeats a symbol, `(..)*n` a group; commas mean nothing. E comes first and L
/// last, once each, and every t before an m. Never throws for what is in `text`.
[[nodiscard]] inline layout_text read_layout(std::string_view text) { return detail::layout_reader(text).run(); }

/// The text of a layout, with runs of equal stages as groups: `read_layout` reads the same layout from it.
[[nodiscard]] inline std::string write_layout(pipeline_layout const& layout) {
  std::string text;
  auto const& stages = layout.stages;
  for (std::size_t at = 0; at < stages.size();) {
    auto const stage = detail::text_of(stages[at]);
    if (at + 1 == stages.size()) return text + stage;  // the last has no bar
    auto run = at + 1;
    while (run + 1 < stages.size() && stages[run] == stages[at]) ++run;
    if (run - at > 2)
      text += fmt::format("({}|)*{},", stage, run - at);
    else
      for (auto i = at; i < run; ++i) text += stage + '|';
    at = run;
  }
  return text;
}

/// What a layout has to hold.
struct layout_sums {
  std::int64_t layers;                     ///< transformer layers of the model
  std::int64_t mtp = 0;                    ///< layers of multi-token prediction
  std::optional<std::int64_t> ranks = {};  ///< pipeline ranks, which must divide the stages
};

/// Where a layout's sums differ from the model's: "the layout holds 62 transformer layers, too many from stage 30
/// ("tt") on; expected 61". Stages count from 0; where there are too few, the last that holds one is named.
[[nodiscard]] inline std::vector<diagnostic> check_layout(pipeline_layout const& layout, layout_sums const& expected) {
  std::vector<diagnostic> wrong;
  auto const complain = [&](std::string message, std::string right) {
    wrong.push_back({.kind = "layout_sum", .message = std::move(message), .expected = std::move(right)});
  };
  auto const place = [&](std::int64_t stage_content::* of, std::int64_t right) {
    std::int64_t sum = 0;
    std::optional<std::size_t> last;
    bool beyond = false;
    for (std::size_t s = 0; s < layout.stages.size() && !beyond; ++s) {
      sum += layout.stages[s].*of;
      beyond = sum > right;
      if (layout.stages[s].*of > 0) last = s;
    }
    if (!last) return std::string();
    return fmt::format(", {} stage {} (\"{}\"){}", beyond ? "too many from" : "the last in", *last,
                       detail::text_of(layout.stages[*last]), beyond ? " on" : "");
  };
  if (layout.layers() != expected.layers)
    complain(fmt::format("the layout holds {} transformer layers{}", layout.layers(),
                         place(&stage_content::layers, expected.layers)),
             fmt::format("{}", expected.layers));
  if (layout.mtp() != expected.mtp)
    complain(fmt::format("the layout holds {} layers of multi-token prediction{}", layout.mtp(),
                         place(&stage_content::mtp, expected.mtp)),
             fmt::format("{}", expected.mtp));
  if (expected.ranks && (*expected.ranks < 1 || std::int64_t(layout.stages.size()) % *expected.ranks != 0))
    complain(fmt::format("the layout has {} stages", layout.stages.size()),
             fmt::format("a multiple of {} ranks", *expected.ranks));
  return wrong;
}

}  // namespace v0
}  // namespace pipesched
