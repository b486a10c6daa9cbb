// SPDX-License-Identifier: MIT
#pragma once

/// \file
/// One action of torch.distributed.pipelining as text: "3F12", "(0F7;7B3)OVERLAP_F_B", "0SEND_F3", "2UNSHARD".

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include <pipesched/core/op.hpp>
#include <pipesched/core/placement.hpp>
#include <pipesched/core/schedule.hpp>

namespace pipesched {
inline namespace v0 {

/// How the actions of a file are to be read: the tokens have changed over the years, and "B" with them.
enum class torch_dialect : std::uint8_t {
  detect,    ///< find out from the tokens
  current,   ///< F, I, W and B, the full backward; since about torch 2.6
  v2_5,      ///< F, W and B, the full backward; torch 2.5
  mid_2024,  ///< F, W, BW, the full backward, and B, the backward for the input; torch of the middle of 2024
  v2_4,      ///< "F0_s1": kind, microbatch, stage; torch 2.4
};

[[nodiscard]] constexpr std::string_view name_of(torch_dialect dialect) noexcept {
  switch (dialect) {
    case torch_dialect::detect: return "detect";
    case torch_dialect::current: return "current";
    case torch_dialect::v2_5: return "2.5";
    case torch_dialect::mid_2024: return "mid-2024";
    case torch_dialect::v2_4: return "2.4";
  }
  return "?";
}

namespace detail {

inline constexpr std::string_view overlap_suffix = ")OVERLAP_F_B";
inline constexpr std::string_view fused_backward = "BW";

inline constexpr op_kind torch_kinds[] = {
    op_kind::forward,           op_kind::backward,           op_kind::backward_input, op_kind::backward_weight,
    op_kind::send_forward,      op_kind::recv_forward,       op_kind::send_backward,  op_kind::recv_backward,
    op_kind::wait_send_forward, op_kind::wait_send_backward, op_kind::unshard,        op_kind::reshard,
    op_kind::reduce_grad,
};

[[nodiscard]] constexpr bool is_blank(char c) noexcept { return c == ' ' || c == '\t' || c == '\v' || c == '\f'; }

[[nodiscard]] constexpr std::string_view stripped(std::string_view text) noexcept {
  while (!text.empty() && is_blank(text.front())) text.remove_prefix(1);
  while (!text.empty() && is_blank(text.back())) text.remove_suffix(1);
  return text;
}

/// Takes ASCII digits from the front of `text`; empty where there are none.
[[nodiscard]] constexpr std::string_view take_digits(std::string_view& text) noexcept {
  std::size_t length = 0;
  while (length < text.size() && text[length] >= '0' && text[length] <= '9') ++length;
  auto const digits = text.substr(0, length);
  text.remove_prefix(length);
  return digits;
}

/// The number that the digits write, or `limit` + 1 where it is larger than `limit`, however many digits there are.
[[nodiscard]] constexpr std::int64_t value_of(std::string_view digits, std::int64_t limit) noexcept {
  std::int64_t value = 0;
  for (char const c : digits) {
    value = value * 10 + (c - '0');
    if (value > limit) return limit + 1;
  }
  return value;
}

/// The parts of a token that is one action, before its dialect gives them a meaning.
struct torch_token {
  std::string_view stage;       ///< digits
  std::string_view name;        ///< what stands between the numbers
  std::string_view microbatch;  ///< digits, or empty
  bool underscored = false;     ///< written "F0_s1"
};

[[nodiscard]] constexpr std::optional<torch_token> split_action(std::string_view text) noexcept {
  torch_token token;
  token.stage = take_digits(text);
  auto const name_length = [&] {
    std::size_t length = 0;
    while (length < text.size() && ((text[length] >= 'A' && text[length] <= 'Z') || text[length] == '_')) ++length;
    return length;
  }();
  token.name = text.substr(0, name_length);
  text.remove_prefix(name_length);
  token.microbatch = take_digits(text);
  if (token.name.empty()) return {};
  if (!token.stage.empty()) return text.empty() ? std::optional(token) : std::nullopt;
  if (token.microbatch.empty() || text.substr(0, 2) != "_s") return {};
  text.remove_prefix(2);
  token.stage = take_digits(text);
  token.underscored = true;
  return text.empty() && !token.stage.empty() ? std::optional(token) : std::nullopt;
}

[[nodiscard]] constexpr std::optional<op_kind> torch_kind(std::string_view name) noexcept {
  for (auto kind : torch_kinds)
    if (name_of(kind) == name) return kind;
  return {};
}

/// An action, or what is wrong with the token. The texts are literals.
struct parsed_action {
  op what = op::from_packed(0);
  std::string_view kind = {};  ///< of the diagnostic; empty where `what` is read
  std::string_view message = {};
  std::string_view expected = {};

  [[nodiscard]] constexpr explicit operator bool() const noexcept { return kind.empty(); }
};

[[nodiscard]] constexpr parsed_action not_an_action(std::string_view why) noexcept {
  return {op::from_packed(0), "bad_token", why,
          "<stage><F, B, I, W, SEND_F, ...><microbatch>, whole and in ASCII digits"};
}

[[nodiscard]] constexpr parsed_action of_another_dialect(std::string_view expected) noexcept {
  return {op::from_packed(0), "wrong_dialect", "is of another dialect than the file", expected};
}

/// Reads one action, which is no pair. The whole token must match.
[[nodiscard]] constexpr parsed_action parse_action(std::string_view text, torch_dialect dialect) noexcept {
  auto const token = split_action(text);
  if (!token) return not_an_action("is no action");
  bool const old = dialect == torch_dialect::v2_4;
  if (old != token->underscored)
    return of_another_dialect(old ? "<kind><microbatch>_s<stage>" : "<stage><kind><microbatch>");

  auto kind = torch_kind(token->name);
  if (token->name == fused_backward) {
    if (dialect != torch_dialect::mid_2024) return of_another_dialect("B for a full backward");
    kind = op_kind::backward;
  } else if (!kind) {
    return not_an_action("is of no kind that there is");
  } else if (*kind == op_kind::backward && dialect == torch_dialect::mid_2024) {
    kind = op_kind::backward_input;
  } else if (*kind == op_kind::backward_input && dialect != torch_dialect::current) {
    return of_another_dialect("no I: that kind is of the current dialect");
  }

  if (has_microbatch(*kind) == token->microbatch.empty())
    return not_an_action(token->microbatch.empty() ? "has no microbatch" : "has a microbatch, which its kind has not");
  auto const stage = value_of(token->stage, max_stages - 1);
  auto const microbatch = value_of(token->microbatch, max_microbatches - 1);
  static_assert(max_stages == 65536 && max_microbatches == 2147483647, "the texts below name the bounds");
  if (stage >= max_stages) return {op::from_packed(0), "out_of_range", "its stage is too large", "at most 65535"};
  if (microbatch >= max_microbatches)
    return {op::from_packed(0), "out_of_range", "its microbatch is too large", "at most 2147483646"};
  return {op(*kind, stage_id{stage}, microbatch_id{microbatch})};
}

/// The two members of a compound "(A;B)OVERLAP_F_B", or nothing where the token is none.
struct compound_members {
  std::string_view first;
  std::string_view second;
};
[[nodiscard]] constexpr std::optional<compound_members> split_compound(std::string_view text) noexcept {
  if (text.size() < 1 + overlap_suffix.size() || text.front() != '(') return {};
  if (text.substr(text.size() - overlap_suffix.size()) != overlap_suffix) return {};
  text = text.substr(1, text.size() - 1 - overlap_suffix.size());
  auto const middle = text.find(';');
  if (middle == std::string_view::npos) return {};
  return compound_members{stripped(text.substr(0, middle)), stripped(text.substr(middle + 1))};
}

}  // namespace detail
}  // namespace v0
}  // namespace pipesched
