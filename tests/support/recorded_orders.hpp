// SPDX-License-Identifier: MIT
#pragma once

/// \file
/// The orders recorded from the original implementations (`tests/data/orders`), to compare with what is generated.

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include <pipesched/core/schedule.hpp>

namespace test_support {

/// One row of cells per rank, each cell as torch.distributed.pipelining writes it: "3F12", "(0F7;7B3)OVERLAP_F_B".
using order_rows = std::vector<std::vector<std::string>>;

/// One recorded schedule; its file's name holds its shape: P<ranks>_m<microbatches>[_v<chunks>][_n<group>].csv
struct recorded_order {
  std::string file;
  int ranks = 0;
  int microbatches = 0;
  int chunks = 1;
  int group = 0;  ///< 0 where the file's name gives none
  order_rows rows;
};

/// The cells of a schedule, one row per rank. The tokens do not name replicas.
inline order_rows rows_of(pipesched::schedule const& schedule) {
  order_rows rows;
  for (int rank = 0; rank < schedule.ranks(); ++rank) {
    auto& row = rows.emplace_back();
    auto const program = schedule.program(rank);
    for (std::size_t i = 0; i < program.size(); ++i) {
      if (program[i].overlaps_next() && i + 1 < program.size()) {
        row.push_back("(" + to_string(program[i]) + ";" + to_string(program[i + 1]) + ")OVERLAP_F_B");
        ++i;
      } else {
        row.push_back(to_string(program[i]));
      }
    }
  }
  return rows;
}

namespace detail {

inline std::vector<std::string> split(std::string_view text, char separator) {
  std::vector<std::string> parts;
  for (std::size_t begin = 0; begin <= text.size();) {
    auto const end = std::min(text.find(separator, begin), text.size());
    parts.emplace_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return parts;
}

inline recorded_order load(std::filesystem::path const& path) {
  recorded_order order;
  order.file = path.filename().string();
  for (auto const& part : split(path.stem().string(), '_')) {
    int const value = std::stoi(part.substr(1));
    switch (part.front()) {
      case 'P': order.ranks = value; break;
      case 'm': order.microbatches = value; break;
      case 'v': order.chunks = value; break;
      case 'n': order.group = value; break;
      default: throw std::runtime_error("no shape in the name of " + path.string());
    }
  }
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    while (!line.empty() && line.back() == '\r') line.pop_back();
    auto& row = order.rows.emplace_back();
    for (auto& cell : split(line, ','))
      if (!cell.empty()) row.push_back(std::move(cell));
  }
  return order;
}

}  // namespace detail

/// All recorded orders of one folder of `tests/data/orders`, by file name. Throws where there are none, so that a test
/// cannot pass on nothing.
inline std::vector<recorded_order> recorded_orders(std::string_view folder) {
  auto const directory = std::filesystem::path(__FILE__).parent_path().parent_path() / "data" / "orders" / folder;
  std::vector<recorded_order> orders;
  for (auto const& entry : std::filesystem::directory_iterator(directory))
    if (entry.path().extension() == ".csv") orders.push_back(detail::load(entry.path()));
  if (orders.empty()) throw std::runtime_error("no recorded orders in " + directory.string());
  std::sort(orders.begin(), orders.end(), [](auto const& a, auto const& b) { return a.file < b.file; });
  return orders;
}

/// Where the two differ first, in words; empty where they are equal op for op.
inline std::string first_difference(order_rows const& recorded, order_rows const& generated) {
  if (recorded.size() != generated.size())
    return std::to_string(recorded.size()) + " rows recorded, " + std::to_string(generated.size()) + " generated";
  for (std::size_t rank = 0; rank < recorded.size(); ++rank) {
    auto const& expected = recorded[rank];
    auto const& found = generated[rank];
    for (std::size_t i = 0; i < std::max(expected.size(), found.size()); ++i) {
      std::string const want = i < expected.size() ? expected[i] : "the end";
      std::string const have = i < found.size() ? found[i] : "the end";
      if (want != have)
        return "rank " + std::to_string(rank) + ", cell " + std::to_string(i) + ": recorded " + want + ", generated " +
               have;
    }
  }
  return {};
}

inline std::string first_difference(recorded_order const& recorded, pipesched::schedule const& generated) {
  return first_difference(recorded.rows, rows_of(generated));
}

}  // namespace test_support
