// SPDX-License-Identifier: MIT
#pragma once

/// \file
/// The whole library, but for what brings a dependency of its own: the matchers for Catch2 (`testing/`), the MPI
/// adapter (`runtime/mpi.hpp`) and the JSON reader (`io/json_reader*.hpp`, `planner/json_reader.hpp`).

#include <pipesched/core/buffer.hpp>
#include <pipesched/core/concepts.hpp>
#include <pipesched/core/digest.hpp>
#include <pipesched/core/error.hpp>
#include <pipesched/core/fault.hpp>
#include <pipesched/core/forward_only.hpp>
#include <pipesched/core/ids.hpp>
#include <pipesched/core/op.hpp>
#include <pipesched/core/placement.hpp>
#include <pipesched/core/schedule.hpp>
#include <pipesched/core/schedule_builder.hpp>
#include <pipesched/core/writer.hpp>

#include <pipesched/schedules/building_block.hpp>
#include <pipesched/schedules/chimera.hpp>
#include <pipesched/schedules/chimera_lane.hpp>
#include <pipesched/schedules/dual_pipe.hpp>
#include <pipesched/schedules/dual_pipe_v.hpp>
#include <pipesched/schedules/eager_one_f_one_b.hpp>
#include <pipesched/schedules/gpipe.hpp>
#include <pipesched/schedules/interleaved.hpp>
#include <pipesched/schedules/interleaved_overlap.hpp>
#include <pipesched/schedules/interleaved_zb.hpp>
#include <pipesched/schedules/looped.hpp>
#include <pipesched/schedules/looped_bfs.hpp>
#include <pipesched/schedules/one_f_one_b.hpp>
#include <pipesched/schedules/one_f_one_b_overlap.hpp>
#include <pipesched/schedules/pass_times.hpp>
#include <pipesched/schedules/registry.hpp>
#include <pipesched/schedules/squeezed_v.hpp>
#include <pipesched/schedules/v_half.hpp>
#include <pipesched/schedules/v_min.hpp>
#include <pipesched/schedules/v_weight_filling.hpp>
#include <pipesched/schedules/zb_h1.hpp>
#include <pipesched/schedules/zb_h2.hpp>
#include <pipesched/schedules/zb_v.hpp>

#include <pipesched/graph/build_graph.hpp>
#include <pipesched/graph/check_communication.hpp>
#include <pipesched/graph/check_graph.hpp>
#include <pipesched/graph/check_structure.hpp>
#include <pipesched/graph/checker.hpp>
#include <pipesched/graph/communication_plan.hpp>
#include <pipesched/graph/edge.hpp>
#include <pipesched/graph/execution_order.hpp>
#include <pipesched/graph/fault_list.hpp>
#include <pipesched/graph/graph_builder.hpp>
#include <pipesched/graph/infer_placement.hpp>
#include <pipesched/graph/lower_moe.hpp>
#include <pipesched/graph/moe_events.hpp>
#include <pipesched/graph/moe_pair_order.hpp>
#include <pipesched/graph/op_graph.hpp>
#include <pipesched/graph/op_groups.hpp>
#include <pipesched/graph/op_index.hpp>
#include <pipesched/graph/plan_communication.hpp>
#include <pipesched/graph/read_plan.hpp>

#include <pipesched/analysis/comparison.hpp>
#include <pipesched/analysis/cost.hpp>
#include <pipesched/analysis/critical_path.hpp>
#include <pipesched/analysis/decorators.hpp>
#include <pipesched/analysis/hardware.hpp>
#include <pipesched/analysis/idle.hpp>
#include <pipesched/analysis/measured_cost.hpp>
#include <pipesched/analysis/memory.hpp>
#include <pipesched/analysis/moe_cost.hpp>
#include <pipesched/analysis/plan_buffers.hpp>
#include <pipesched/analysis/report.hpp>
#include <pipesched/analysis/send_budget.hpp>
#include <pipesched/analysis/streams.hpp>
#include <pipesched/analysis/timeline.hpp>
#include <pipesched/analysis/transport.hpp>
#include <pipesched/analysis/transport_engine.hpp>
#include <pipesched/analysis/transport_layout.hpp>
#include <pipesched/analysis/transport_model.hpp>

#include <pipesched/io/check_torch_csv.hpp>
#include <pipesched/io/comparison.hpp>
#include <pipesched/io/csv_cells.hpp>
#include <pipesched/io/describe.hpp>
#include <pipesched/io/diagnostic.hpp>
#include <pipesched/io/dot.hpp>
#include <pipesched/io/json.hpp>
#include <pipesched/io/json_text.hpp>
#include <pipesched/io/measured_csv.hpp>
#include <pipesched/io/measured_name.hpp>
#include <pipesched/io/op_label.hpp>
#include <pipesched/io/report_json.hpp>
#include <pipesched/io/report_text.hpp>
#include <pipesched/io/stage_list.hpp>
#include <pipesched/io/streams_text.hpp>
#include <pipesched/io/text_table.hpp>
#include <pipesched/io/text_timeline.hpp>
#include <pipesched/io/torch_action.hpp>
#include <pipesched/io/torch_csv.hpp>
#include <pipesched/io/torch_csv_writer.hpp>

#include <pipesched/runtime/handler.hpp>
#include <pipesched/runtime/run.hpp>
#include <pipesched/runtime/run_events.hpp>
#include <pipesched/runtime/threads.hpp>

#include <pipesched/planner/cluster.hpp>
#include <pipesched/planner/evaluate.hpp>
#include <pipesched/planner/failure.hpp>
#include <pipesched/planner/layout.hpp>
#include <pipesched/planner/model.hpp>
#include <pipesched/planner/model_memory.hpp>
#include <pipesched/planner/partition.hpp>
#include <pipesched/planner/plan.hpp>
#include <pipesched/planner/plan_json.hpp>
#include <pipesched/planner/plan_text.hpp>
#include <pipesched/planner/planner.hpp>
#include <pipesched/planner/presets.hpp>
#include <pipesched/planner/search.hpp>
#include <pipesched/planner/stage_costs.hpp>

#include <pipesched/version.hpp>
