// SPDX-License-Identifier: MIT
#pragma once

/// \file
/// What `chimera` is woven from: the two lanes of a rank.

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>

#include <pipesched/core/concepts.hpp>
#include <pipesched/core/folding.hpp>
#include <pipesched/core/ids.hpp>
#include <pipesched/core/op.hpp>
#include <pipesched/core/placement.hpp>
#include <pipesched/core/writer.hpp>

namespace pipesched {
inline namespace v0 {
namespace detail {

/// Ops of one kind and pipeline that are still to come, one per microbatch.
struct chimera_ops {
  op next{};
  std::int64_t left = 0;
};

/// The grid of slots that Chimera's pipelines are merged on. Every op takes one slot; microbatch i of a unit is
/// forwarded on stage s in slot s + 2i and passed backward in slot 2D - 1 - s + 2i, where D is the number of stages.
///
/// So on one rank every second slot belongs to the forwards of the pipelines that run down and to the backwards of
/// those that run up, and the slots between to the others: two lanes, which cannot meet because D is even. A lane is
/// filled without a hole: D/2 slots of forwards, in windows of D/(2f) for each of the f pipelines, then as many of
/// backwards, and so on with the next unit.
class chimera_grid {
 public:
  constexpr chimera_grid(std::int64_t ranks, std::int64_t pipelines, std::int64_t microbatches,
                         std::int64_t forwards_a_slot)
      : stages(ranks),
        ways(pipelines / 2),
        distance(ranks / ways),
        window(distance / 2),
        passes(forwards_a_slot),
        share_(microbatches / pipelines),
        longer_(microbatches % pipelines) {
    auto const longest = share(0);
    auto const in_a_unit = passes * window;
    units = (longest + in_a_unit - 1) / in_a_unit;
    bool const closes_up = units > 1 && ways == 1;
    last_window = closes_up ? (longest - (units - 1) * in_a_unit + passes - 1) / passes : window;
  }

  std::int64_t stages;    ///< D
  std::int64_t ways;      ///< f: pipelines in each direction
  std::int64_t distance;  ///< ranks from the entry of one pipeline to that of the next in the same direction
  std::int64_t window;    ///< slots of a lane that one pipeline's forwards have in a unit; each pass of backwards too
  std::int64_t passes;    ///< of backwards in a unit, and forwards in one slot: 2 where forwards are doubled
  std::int64_t units;     ///< that the longest pipeline needs
  /// The last unit's window. One way alone closes up to what is left; several have to keep their distance, and leave
  /// slots empty.
  std::int64_t last_window;

  /// Slots of a lane.
  [[nodiscard]] constexpr std::int64_t slots() const {
    return ways * (1 + passes) * ((units - 1) * window + last_window);
  }

  /// All ops of one kind of a pipeline's stage.
  [[nodiscard]] constexpr chimera_ops all_of(op_kind kind, std::int64_t stage, std::int64_t pipeline) const {
    auto const first_microbatch = pipeline * share_ + std::min(pipeline, longer_);
    return {op(kind, stage_id{stage}, microbatch_id{first_microbatch}, replica_id{pipeline}), share(pipeline)};
  }

 private:
  /// Microbatches of a pipeline: they are dealt evenly, and the first pipelines have one more where they must.
  [[nodiscard]] constexpr std::int64_t share(std::int64_t pipeline) const {
    return share_ + (pipeline < longer_ ? 1 : 0);
  }

  std::int64_t share_;
  std::int64_t longer_;  ///< how many pipelines have one more
};

/// Slots of a lane that are alike: each takes the next `ops_a_slot` ops of one window.
struct chimera_stretch {
  std::int64_t slots = 0;
  std::int64_t ops_a_slot = 0;  ///< 0 where a window is longer than its microbatches need
  op next{};

  [[nodiscard]] constexpr bool is_plain() const { return ops_a_slot == 1; }
  template <op_sink Sink>
  constexpr void write_slot(Sink& out) {
    if (ops_a_slot > 0) write_op(out);
    if (ops_a_slot > 1) write_op(out);
  }
  template <op_sink Sink>
  constexpr void write_op(Sink& out) {
    out(next);
    next = next.next_microbatch();
  }
};

/// One lane of a rank: a pass of forwards in one direction, then one or two of backwards in the other, unit after unit.
/// In each pass the pipelines have their windows one after another, the one with the nearest entry first. The backwards
/// make room for the next unit's forwards, so their windows are as long as its own.
class chimera_lane {
 public:
  /// `position` counts ranks in the direction of the forwards; `direction` 0 runs down, 1 up.
  constexpr chimera_lane(chimera_grid const& grid, std::int64_t position, int direction)
      : grid_(grid), start_(position % grid.distance), size_(grid.window) {
    auto const nearest = position / grid.distance;
    auto const ways = grid.ways;
    for (std::int64_t turn = 0; turn < ways; ++turn) {
      auto const stage = start_ + turn * grid.distance;
      auto const forwards = direction * ways + (nearest - turn + ways) % ways;
      auto const backwards = (1 - direction) * ways + (turn - nearest + ways) % ways;
      auto const at = std::size_t(turn);
      forwards_[at] = grid.all_of(op_kind::forward, stage, forwards);
      backwards_[at] = grid.all_of(op_kind::backward, grid.stages - 1 - stage, backwards);
    }
    open_window();
  }

  /// The lane's first slot in the grid.
  [[nodiscard]] constexpr std::int64_t start() const { return start_; }
  /// What comes next.
  [[nodiscard]] constexpr chimera_stretch const& ahead() const { return ahead_; }
  /// Goes on by `slots`, which are all in the stretch ahead.
  constexpr void advance(std::int64_t slots) {
    ahead_.slots -= slots;
    ahead_.next = ahead_.next.microbatches_later(slots * ahead_.ops_a_slot);
    if (ahead_.slots > 0) return;
    if (window_ > 0)
      look_ahead();
    else
      next_window();
  }

  /// How many more times it can go on as it did since before: within a stretch, or, where it is at the same place of a
  /// later unit, while the units are whole.
  [[nodiscard]] constexpr std::int64_t repetitions(chimera_lane const& before) const {
    if (pass_ != before.pass_ || turn_ != before.turn_) return 0;
    if (unit_ == before.unit_) {
      auto const slots = before.ahead_.slots - ahead_.slots;
      bool const in_one_stretch = window_ == before.window_ && slots > 0;
      return in_one_stretch ? ahead_.slots / slots : 0;
    }
    bool const is_whole = window_ == 0 && before.window_ == 0 && size_ == grid_.window && before.size_ == grid_.window;
    if (!is_whole || ahead_.slots != before.ahead_.slots) return 0;
    auto fewest = (grid_.units - 3 - unit_) / (unit_ - before.unit_);
    for (auto const* ops : {&forwards_, &backwards_})
      for (std::size_t turn = 0; turn < std::size_t(grid_.ways); ++turn)
        fewest = std::min(fewest, (*ops)[turn].left / advance_since(before));
    return std::max<std::int64_t>(fewest, 0);
  }
  /// By how many microbatches of each pipeline it is later, at the same place of a later unit.
  [[nodiscard]] constexpr std::int64_t advance_since(chimera_lane const& before) const {
    return (unit_ - before.unit_) * grid_.passes * grid_.window;
  }
  constexpr void skip(chimera_lane const& before, std::int64_t times) {
    if (times == 0) return;
    if (unit_ == before.unit_) return advance(times * (before.ahead_.slots - ahead_.slots));
    auto const microbatches = times * advance_since(before);
    for (auto* ops : {&forwards_, &backwards_})
      for (std::size_t turn = 0; turn < std::size_t(grid_.ways); ++turn) {
        (*ops)[turn].next = (*ops)[turn].next.microbatches_later(microbatches);
        (*ops)[turn].left -= microbatches;
      }
    ahead_.next = ahead_.next.microbatches_later(microbatches);
    unit_ += times * (unit_ - before.unit_);
  }

 private:
  constexpr void next_window() {
    if (++turn_ == grid_.ways) {
      turn_ = 0;
      if (++pass_ > grid_.passes) pass_ = 0, ++unit_;
      size_ = unit_ == grid_.units - (pass_ == 0 ? 1 : 2) ? grid_.last_window : grid_.window;
    }
    open_window();
  }

  constexpr void open_window() {
    auto& pipeline = (pass_ == 0 ? forwards_ : backwards_)[std::size_t(turn_)];
    auto const ops_a_slot = pass_ == 0 ? grid_.passes : 1;
    auto const room = size_ * ops_a_slot;
    ahead_ = {size_, ops_a_slot, pipeline.next};
    if (pipeline.left >= room) {
      pipeline.next = pipeline.next.microbatches_later(room);
      pipeline.left -= room;
    } else {
      window_ = size_;
      todo_ = std::exchange(pipeline.left, 0);
      look_ahead();
    }
  }

  /// Within a window that is longer than its microbatches need: full slots, one for what is left, empty slots.
  constexpr void look_ahead() {
    ahead_.ops_a_slot = std::min(todo_, ahead_.ops_a_slot);
    ahead_.slots = ahead_.ops_a_slot > 0 ? todo_ / ahead_.ops_a_slot : window_;
    window_ -= ahead_.slots;
    todo_ -= ahead_.slots * ahead_.ops_a_slot;
  }

  chimera_grid grid_;
  std::int64_t start_;
  std::array<chimera_ops, max_replicas / 2> forwards_;   // by turn; only `ways` of them are ever written
  std::array<chimera_ops, max_replicas / 2> backwards_;  // likewise

  std::int64_t unit_ = 0;
  std::int64_t pass_ = 0;    ///< 0: forwards; 1, 2: backwards
  std::int64_t turn_ = 0;    ///< whose window it is: 0 that of the nearest entry
  std::int64_t size_;        ///< of the windows of this pass
  std::int64_t window_ = 0;  ///< slots of a window that is not full, after the stretch ahead
  std::int64_t todo_ = 0;    ///< its ops, likewise
  chimera_stretch ahead_{0, 0, {op_kind::forward, stage_id{0}, microbatch_id{0}}};
};

/// `slots` times a slot of each. Takes copies: counters that nothing else can see stay in registers.
template <op_sink Sink, class... Stretches>
constexpr void write_slots(std::int64_t slots, Sink& out, Stretches... ahead) {
  if ((... && ahead.is_plain()))
    repeat(slots, [&] { (ahead.write_op(out), ...); });
  else
    repeat(slots, [&] { (ahead.write_slot(out), ...); });
}

/// Writes one slot after another, by turns of each lane, for a sink that stores repetitions as such.
template <op_sink Sink, std::size_t Count>
class lane_writer {
 public:
  using lanes = std::array<chimera_lane, Count>;

  constexpr lane_writer(Sink& out, lanes const& begin) : out_(&out), lanes_(begin) {}

  constexpr void slot() {
    for (auto& lane : lanes_) {
      auto ahead = lane.ahead();
      ahead.write_slot(*out_);
      lane.advance(1);
    }
  }
  /// \name What `fold_phase` asks: see `repeating_writer`
  /// \{
  [[nodiscard]] constexpr lanes const& state() const { return lanes_; }
  [[nodiscard]] constexpr std::int64_t repetitions(lanes const& before) const {
    auto fewest = unlimited;
    for (std::size_t i = 0; i < Count; ++i) {
      bool const in_units = lanes_[i].advance_since(before[i]) == lanes_[0].advance_since(before[0]);
      fewest = std::min(fewest, in_units ? lanes_[i].repetitions(before[i]) : 0);
    }
    return fewest;
  }
  [[nodiscard]] constexpr std::int64_t advance_since(lanes const& before) const {
    return lanes_[0].advance_since(before[0]);
  }
  constexpr void skip(lanes const& before, std::int64_t times) {
    for (std::size_t i = 0; i < Count; ++i) lanes_[i].skip(before[i], times);
  }
  /// \}

 private:
  Sink* out_;
  lanes lanes_;
};

/// `slots` times a slot of each lane.
template <op_sink Sink, class... Lanes>
constexpr void in_turns(std::int64_t slots, Sink& out, Lanes&... lanes) {
  if constexpr (folding_sink<Sink>) {
    lane_writer<Sink, sizeof...(Lanes)> writer(out, {lanes...});
    auto slot = [&] { writer.slot(); };
    fold_phase(writer, out, slots, slot);
    auto const* after = writer.state().data();
    ((lanes = *after++), ...);
  } else {
    while (slots > 0) {
      auto const alike = std::min({slots, lanes.ahead().slots...});
      write_slots(alike, out, lanes.ahead()...);
      (lanes.advance(alike), ...);
      slots -= alike;
    }
  }
}

}  // namespace detail

}  // namespace v0
}  // namespace pipesched
