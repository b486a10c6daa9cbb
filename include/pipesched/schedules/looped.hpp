// SPDX-License-Identifier: MIT
#pragma once

/// \file
/// What the schedules on a loop placement share: how a rank goes through its chunks, and in groups of how many
/// microbatches.

#include <algorithm>
#include <cstdint>

#include <pipesched/core/concepts.hpp>
#include <pipesched/core/error.hpp>
#include <pipesched/core/folding.hpp>
#include <pipesched/core/op.hpp>
#include <pipesched/core/placement.hpp>

namespace pipesched {
inline namespace v0 {
namespace detail {

/// The shape of a schedule that runs its microbatches in groups: N microbatches on one chunk, the same N on the next
/// chunk, and so on; then the next group. The last group is ragged where N does not divide m.
struct loop_shape {
  int ranks;
  int microbatches;
  int chunks;
  int group;  ///< as the user gave it; 0 chooses

  /// Forwards of one rank.
  [[nodiscard]] constexpr std::int64_t forwards() const { return std::int64_t{microbatches} * chunks; }

  /// N. The smallest group that keeps all ranks busy: fewer microbatches than ranks leave a hole between two chunks,
  /// so each group, the last one too, wants P of them; more of them only cost memory. It has the shortest makespan
  /// of all N, and equals torch's m / max(1, m / P) wherever torch takes the shape.
  [[nodiscard]] constexpr int group_size() const {
    if (group > 0) return std::min(group, microbatches);
    int const enough = std::min(ranks, microbatches);
    int size = enough;
    for (;;) {
      int const full_groups = (microbatches - 1) / size;
      if (microbatches - full_groups * size >= enough) return size;
      // Larger groups would only shorten the last one further, until there is one group less.
      size = (microbatches - 1) / full_groups + 1;
    }
  }

  /// Forwards of a group before its first one on the last chunk.
  [[nodiscard]] constexpr std::int64_t all_but_one_pass() const { return std::int64_t{chunks - 1} * group_size(); }

  /// Whether groups of `size` deadlock, where rank 0 warms up with `lead` forwards more than all but one pass.
  ///
  /// Rank P-1 has no lead. Its forward number v*N + 1 (from 0), which is the second of the second group, comes after
  /// its backward number N, or in one slot with it: the first that waits for rank 0, for its first backward. Rank 0
  /// takes that microbatch up again, on the next chunk, as its forward number v*N + L + 1, with L the size of the
  /// second group. Where the lead reaches so far there is a cycle. The shortest pair of neighbours decides: a full
  /// group and the last one.
  [[nodiscard]] constexpr bool makes_cycle(std::int64_t size, std::int64_t lead) const {
    if (chunks == 1 || size >= microbatches) return false;
    auto const last = microbatches % size == 0 ? size : microbatches % size;
    if (chunks > 2 || last > 1) return size + last < lead;
    // On two chunks a lone last microbatch is never taken up again after its second pass, so the groups before it
    // decide; where all are of one microbatch, the third one's second pass is the first to wait.
    auto const groups = (microbatches - 1) / size + 1;
    return groups > 2 && (size == 1 ? 3 : 2 * size) < lead;
  }

  [[nodiscard]] constexpr check_result check_sizes() const {
    return first_violation({pipesched::placement::check_size(ranks, ranks), at_least("microbatches", microbatches, 1),
                            at_least("chunks", chunks, 1),
                            at_most("chunks", chunks, max_stages / std::max(ranks, 1), "65536 stages"),
                            at_least("group", group, 0, "0 chooses")});
  }

  /// The sizes, and that the group makes no cycle. A lead of that many microbatches is always outrun, so the search
  /// for the bound ends within `lead` steps.
  [[nodiscard]] constexpr check_result check(std::int64_t lead) const {
    if (auto sizes = check_sizes()) return sizes;
    if (group == 0 || !makes_cycle(group, lead)) return {};
    std::int64_t bound = group;
    while (makes_cycle(bound, lead)) ++bound;
    return parameter_violation{"group", group, "must be at least", bound, "the next one without a dependency cycle"};
  }
};

/// One kind's ops of one rank, in the order of the groups.
class group_cursor {
 public:
  enum class direction : std::uint8_t { up, down };  // from the first chunk to the last, or back

  constexpr group_cursor(op_kind kind, loop_shape const& shape, int rank, direction chunk_order)
      : kind_(kind),
        stride_(chunk_order == direction::up ? shape.ranks : -shape.ranks),
        chunks_(shape.chunks),
        microbatches_(shape.microbatches),
        in_group_(shape.group_size()),
        stage_(chunk_order == direction::up ? rank : rank + (shape.chunks - 1) * shape.ranks),
        passes_left_(shape.chunks),
        left_in_pass_(in_group_),
        next_(kind, stage_id{stage_}, microbatch_id{0}) {}

  constexpr op next() {
    op const result = next_;
    next_ = next_.next_microbatch();
    if (--left_in_pass_ == 0) next_pass();
    return result;
  }

  /// By how many microbatches it is later than before.
  [[nodiscard]] constexpr std::int64_t advance_since(group_cursor const& before) const {
    return next_.microbatch() - before.next_.microbatch();
  }
  /// How many more times it can go on as it did since before: while the pass lasts, or, where it is at the same place
  /// of a later group, while the groups are whole.
  [[nodiscard]] constexpr std::int64_t repetitions(group_cursor const& before) const {
    if (next_ == before.next_) return unlimited;
    if (stage_ != before.stage_) return 0;
    auto const advance = advance_since(before);
    if (first_microbatch_ == before.first_microbatch_) return left_in_pass_ / advance;
    if (left_in_pass_ != before.left_in_pass_ || in_group_ != before.in_group_) return 0;
    return (std::int64_t{microbatches_} - first_microbatch_ - in_group_) / advance;
  }
  constexpr void skip(group_cursor const& before, std::int64_t times) {
    auto const microbatches = static_cast<int>(times * advance_since(before));
    if (microbatches == 0) return;
    next_ = next_.microbatches_later(microbatches);
    if (first_microbatch_ != before.first_microbatch_)
      first_microbatch_ += microbatches;
    else if ((left_in_pass_ -= microbatches) == 0)
      next_pass();
  }

 private:
  constexpr void next_pass() {
    stage_ += stride_;
    if (--passes_left_ == 0) {  // the next group, on the first chunk again
      stage_ -= chunks_ * stride_;
      passes_left_ = chunks_;
      first_microbatch_ += in_group_;
      in_group_ = std::min(in_group_, microbatches_ - first_microbatch_);
    }
    left_in_pass_ = in_group_;
    next_ = op(kind_, stage_id{stage_}, microbatch_id{first_microbatch_});
  }
  op_kind kind_;
  int stride_;
  int chunks_;
  int microbatches_;

  int in_group_;
  int first_microbatch_ = 0;  // of the group
  int stage_;
  int passes_left_;
  int left_in_pass_;  // microbatches of the group that are still to come on this chunk
  op next_;
};

/// Writes the ops of all chunks of one rank of a loop placement, forwards from the first chunk to the last, backwards
/// from the last to the first; the counterpart of `stage_writer`.
template <op_sink Sink>
class loop_writer {
 public:
  constexpr loop_writer(Sink& out, loop_shape const& shape, int rank)
      : out_(&out),
        forward_(op_kind::forward, shape, rank, group_cursor::direction::up),
        gradient_(op_kind::backward, shape, rank, group_cursor::direction::down),
        weight_(op_kind::backward_weight, shape, rank, group_cursor::direction::down) {}

  constexpr loop_writer& forward() { return write(forward_.next()); }
  constexpr loop_writer& backward() { return write(gradient_.next()); }
  constexpr loop_writer& backward_input() { return write(gradient_.next().as(op_kind::backward_input)); }
  constexpr loop_writer& backward_weight() { return write(weight_.next()); }

  /// A forward that shares its slot with the op after it, which has to be a full backward.
  constexpr loop_writer& overlapped_forward() { return write(forward_.next().overlapping_next()); }

  /// \name What `repeat` asks: see `repeating_writer`
  /// \{
  [[nodiscard]] constexpr Sink& sink() const noexcept { return *out_; }
  [[nodiscard]] constexpr loop_writer state() const noexcept { return *this; }
  /// Where the three move by different numbers of microbatches, what is the same pass to one is another group to
  /// another: that does not count as the same.
  [[nodiscard]] constexpr std::int64_t repetitions(loop_writer const& before) const {
    auto const advance = advance_since(before);
    auto const repetitions_of = [&](group_cursor const& now, group_cursor const& then) {
      auto const own = now.advance_since(then);
      return own == 0 || own == advance ? now.repetitions(then) : 0;
    };
    return std::min({repetitions_of(forward_, before.forward_), repetitions_of(gradient_, before.gradient_),
                     repetitions_of(weight_, before.weight_)});
  }
  [[nodiscard]] constexpr std::int64_t advance_since(loop_writer const& before) const {
    return std::max({forward_.advance_since(before.forward_), gradient_.advance_since(before.gradient_),
                     weight_.advance_since(before.weight_)});
  }
  constexpr void skip(loop_writer const& before, std::int64_t times) {
    if (times == 0) return;
    forward_.skip(before.forward_, times);
    gradient_.skip(before.gradient_, times);
    weight_.skip(before.weight_, times);
  }
  /// \}

 private:
  constexpr loop_writer& write(op o) {
    (*out_)(o);
    return *this;
  }

  Sink* out_;
  group_cursor forward_;
  group_cursor gradient_;
  group_cursor weight_;
};

}  // namespace detail
}  // namespace v0
}  // namespace pipesched
