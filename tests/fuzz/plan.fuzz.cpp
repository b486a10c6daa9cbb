// SPDX-License-Identifier: MIT
// Whatever rows with sends and receives are in a CSV file: where the checker finds nothing wrong with their messages
// there is a plan, and every transport lets it run or says who waits for whom.

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include <pipesched/analysis/plan_buffers.hpp>
#include <pipesched/analysis/transport.hpp>
#include <pipesched/graph/read_plan.hpp>
#include <pipesched/io/check_torch_csv.hpp>

extern "C" int LLVMFuzzerTestOneInput(std::uint8_t const* data, std::size_t size) {
  using namespace pipesched;
  auto const file = read_torch_csv({reinterpret_cast<char const*>(data), size});
  if (!file.compute || file.rows != torch_rows::compute_comms) return 0;
  auto rows = file.actions;
  for (auto& row : rows) std::erase_if(row, [](op o) { return !is_chunk_op(o.kind()) && !is_communication(o.kind()); });
  auto const plan = read_plan(file.compute->where(), file.compute->microbatches(), rows);
  if (!plan) {
    if (check(file).empty()) std::abort();  // it would be called valid
    return 0;
  }
  if (plan->channels().size() > plan->messages().size()) std::abort();
  for (auto const& entry : plan->entries())
    if (reason_of(*plan, entry).empty()) std::abort();
  for (auto kind : all_transports) {
    auto const report = check_transport(*plan, {kind});
    for (auto const& waits : {report.blocked, report.cycle})
      for (auto const& wait : waits)
        if (to_string(*plan, wait).empty()) std::abort();
    if (report.cycle.size() > report.blocked.size()) std::abort();
  }
  // The checker itself looks for deadlocks of ranks that wait for nothing but data.
  if (check(file).empty() && !check_transport(*plan, {transport_kind::async}).deadlock_free()) std::abort();
  buffer_plan const buffers(*plan);
  for (int rank = 0; rank < plan->ranks(); ++rank)
    for (auto kind : {buffer_kind::received_activation, buffer_kind::outstanding_send})
      if (buffers.slots(rank, kind) > std::int64_t(plan->messages().size())) std::abort();
  return 0;
}
