// SPDX-License-Identifier: MIT
#include "support/catch.hpp"

#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include <nlohmann/json.hpp>

#include "support/run_program.hpp"

using test_support::contains;
using test_support::run_program;

namespace {

namespace fs = std::filesystem;

/// A folder of this process, for the cases run side by side; removed with all that is in it.
struct scratch {
  fs::path path = fs::temp_directory_path() / ("pipesched_files_" + std::to_string(::getpid()));
  scratch() {
    fs::remove_all(path);
    fs::create_directory(path);
  }
  ~scratch() { fs::remove_all(path); }
  scratch(scratch const&) = delete;
  scratch& operator=(scratch const&) = delete;

  [[nodiscard]] std::string file(std::string const& name) const { return (path / name).string(); }
  [[nodiscard]] std::string file(std::string const& name, std::string const& text) const {
    std::ofstream(file(name)) << text;
    return file(name);
  }
};

std::string text_of(std::string const& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

}  // namespace

TEST_CASE("A schedule that is exported is read back the same", "[program]") {
  scratch const folder;
  for (auto const* format : {"torch-csv", "json"}) {
    auto const path = folder.file("schedule");
    REQUIRE(run_program(std::string("export dualpipe --ranks 4 --microbatches 10 --format ") + format + " -o " + path)
                .status == 0);
    CHECK(run_program("check " + path).output == "valid: 4 ranks, 4 stages, 10 microbatches, 90 operations\n");
    auto const again = run_program(std::string("export --file ") + path + " --format " + format);
    CHECK(again.output == text_of(path));
    auto const named =
        nlohmann::json::parse(run_program("analyze dualpipe --ranks 4 --microbatches 10 --format json").output);
    auto const read = nlohmann::json::parse(run_program("analyze --file " + path + " --format json").output);
    CHECK(named.at("makespan") == read.at("makespan"));
    CHECK(named.at("per_rank") == read.at("per_rank"));
    CHECK(named.at("parameter_copies") == 2);
  }
}

TEST_CASE("export leaves a whole file or none", "[program]") {
  scratch const folder;
  std::string const shape = "export 1f1b --ranks 2 --microbatches 2 --format torch-csv -o ";
  auto const path = folder.file("out.csv", "before");
  CHECK(run_program(shape + path).status == 0);
  CHECK(text_of(path) == "0F0,0F1,0B0,0B1\n1F0,1B0,1F1,1B1\n");

  std::ofstream(path) << "before";
  CHECK(run_program("export 1f1b --ranks 0 --microbatches 2 --format torch-csv -o " + path).status == 2);
  CHECK(text_of(path) == "before");

  auto const unwritable = run_program(shape + folder.file("none") + "/out.csv");
  CHECK(unwritable.status == 2);
  CHECK_THAT(unwritable.output, contains("cannot write"));
  CHECK(run_program(shape + folder.path.string()).status == 2);
  CHECK(run_program(shape + "/dev/full").status == 2);
  CHECK(run_program(shape + "/dev/null").status == 0);
  CHECK(fs::is_character_file("/dev/null"));

  auto const link = folder.file("link.csv");
  fs::create_symlink(path, link);
  CHECK(run_program(shape + link).status == 0);
  CHECK(fs::is_symlink(link));
  CHECK(text_of(path) == "0F0,0F1,0B0,0B1\n1F0,1B0,1F1,1B1\n");
  CHECK(std::distance(fs::directory_iterator(folder.path), {}) == 2);
}

TEST_CASE("Output that cannot be written is an error, a closed pipe is none", "[program]") {
  CHECK(run_program("show 1f1b --ranks 4 --microbatches 8 >/dev/full").status == 2);
  CHECK(run_program("show 1f1b --ranks 64 --microbatches 512 | head -1").status == 0);
}

TEST_CASE("check names what is wrong, with status 1", "[program]") {
  scratch const folder;
  auto const cycle = run_program("check " + folder.file("cycle.csv", "0F0,0B0,0F1,0B1\n1F1,1B1,1F0,1B0\n"));
  CHECK(cycle.status == 1);
  CHECK_THAT(cycle.output, contains("deadlock"));
  CHECK_THAT(cycle.output, contains("rank 1, position 0, 1F1"));
  CHECK_THAT(cycle.output, contains("waits for 0F1"));

  auto const late = run_program("check " + folder.file("late.csv", "0F0,0W0,0I0\n"));
  CHECK(late.status == 1);
  CHECK_THAT(late.output, contains("rank 0, position 1, 0W0"));

  auto const token = folder.file("token.csv", "0F0,1F0xyz,0B0\n");
  CHECK(run_program("check " + token).status == 1);
  CHECK(run_program("show --file " + token).status == 1);
  auto const duplicate = folder.file("twice.csv", "0F0,0F0,0B0\n");
  for (std::string const command : {"show", "analyze", "export --format json"}) {
    auto const run = run_program(command + " --file " + duplicate);
    CHECK(run.status == 1);
    CHECK_THAT(run.output, contains("rank 0, position 1, 0F0: duplicate"));
  }
  CHECK(run_program("analyze --file " + folder.file("empty.csv", "")).status == 1);
  CHECK(run_program("analyze --file " + folder.path.string()).status == 2);

  auto const json = run_program("check --diagnostics json " + folder.file("late.csv"));
  CHECK(json.status == 1);
  CHECK(nlohmann::json::parse(json.output).at(0).at("op") == "0W0");
  CHECK(run_program("analyze --file " + folder.file("cycle.csv")).status == 1);
}

TEST_CASE("check --transport tells the transports under which sends and receives hang", "[program]") {
  scratch const folder;
  auto const rows = folder.file("deferred.csv",
                                "0F0,0SEND_F0,0F1,0SEND_F1,2RECV_F0,2F0\n"
                                "1RECV_F0,1F0,1SEND_F0,1RECV_F1,1F1,1SEND_F1\n");
  auto const under = [&](std::string const& transport) {
    return run_program("check " + rows + " --transport " + transport);
  };
  CHECK(under("async").status == 0);
  CHECK_THAT(under("async").output, contains("not valid, but runs"));  // it has no backwards
  CHECK(under("dir-queue").status == 0);
  for (auto const* transport : {"pair-queue", "rank-queue", "blocking"}) {
    auto const run = under(transport);
    CHECK(run.status == 1);
    CHECK_THAT(run.output, contains("deadlock under " + std::string(transport)));
    CHECK_THAT(run.output, contains("0SEND_F1"));
    CHECK_THAT(run.output, contains("1SEND_F0"));
  }
  CHECK(under("bounded").status == 2);
  CHECK(under("bounded --buffered 0").status == 2);
  CHECK(under("blocking --buffered 1").status == 2);
  CHECK(under("bounded --buffered 1").status == 0);

  auto const compute = folder.file("compute.csv", "0F0,0F1,0B0,0B1\n1F0,1B0,1F1,1B1\n");
  CHECK(run_program("check " + compute + " --transport blocking").status == 0);
  auto const lost =
      folder.file("lost.csv", "0F0,0SEND_F0,0F1,0SEND_F1\n1RECV_F1,1F0,1F1\n");  // 1F0 never gets its input
  CHECK(run_program("check " + lost + " --transport async").status == 1);
  auto const late = folder.file("late.csv", "0F0,0W0,0I0\n");
  CHECK(run_program("check " + late + " --transport async").status == 1);
}

TEST_CASE("A schedule's file keeps the times it was exported with, and they are its own until others are given",
          "[program]") {
  scratch const folder;
  auto const makespan = [](std::string const& arguments) {
    auto const run = run_program("analyze --format json " + arguments);
    INFO(run.output);
    REQUIRE(run.status == 0);
    return nlohmann::json::parse(run.output).at("makespan");
  };
  std::string const shape = "1f1b --ranks 4 --microbatches 8 ";
  std::string const times = "--forward 2 --backward-input 3 --backward-weight 1 --latency 1 --stage-scale 1,1,1,2 ";
  auto const file = folder.file("timed.json");
  REQUIRE(run_program("export " + shape + times + "--format json -o " + file).status == 0);
  CHECK(nlohmann::json::parse(text_of(file)).at("costs").at("forward") == nlohmann::json({2, 2, 2, 4}));
  CHECK(makespan("--file " + file) == makespan(shape + times));
  CHECK(makespan("--file " + file + " --forward 5") != makespan("--file " + file));
  CHECK(makespan("--file " + file + " --forward 1 --backward-input 1 --backward-weight 1 --latency 0") ==
        makespan(shape));
  CHECK(makespan("--cost " + file + " " + shape) == makespan(shape + times));
  CHECK(run_program("export --file " + file + " --format json").output == text_of(file));
  CHECK_FALSE(nlohmann::json::parse(run_program("export " + shape + "--format json").output).contains("costs"));
}

TEST_CASE("Measured times are those of the ops of a run", "[program]") {
  scratch const folder;
  auto const schedule = folder.file("schedule.csv", "0F0,0F1,0B0,0B1\n1F0,1B0,1F1,1B1\n");
  auto const with = [&](std::string const& options) {
    return run_program("analyze --format json --file " + schedule + " --cost " + options);
  };
  auto const makespan = [&](std::string const& options) {
    auto const run = with(options);
    INFO(run.output);
    REQUIRE(run.status == 0);
    return nlohmann::json::parse(run.output).at("makespan");
  };
  auto const csv = folder.file("run.csv", "0F0,1\n0F1,2\n0B0,3\n1F0,4\n1F1,4\n1B0,5\n0B1,3\n1B1,5\n");
  CHECK(makespan(csv) == 22);  // 0F0 1, 1F0 4, 1B0 5, 1F1 4, 1B1 5, 0B1 3
  CHECK(makespan(csv + " --latency 1") == 24);
  // Without a time of their own, 1F1 and 1B1 take the mean of their stage and kind.
  auto const trace = folder.file("trace.json", R"({"traceEvents": [
    {"name": "PP:0F0", "ph": "X", "ts": 0, "dur": 1, "pid": 0}, {"name": "PP:0B0", "ph": "X", "ts": 10, "dur": 3},
    {"name": "PP:1F0", "ph": "X", "ts": 1, "dur": 4, "pid": 1}, {"name": "PP:1B0", "ph": "X", "ts": 5, "dur": 5}]})");
  CHECK(makespan(trace) == 22);

  auto const refused = [&](std::string const& options, std::string const& message) {
    auto const run = with(options);
    CHECK(run.status == 2);
    CHECK_THAT(run.output, contains(message));
  };
  refused(folder.file("part.csv", "0F0,1\n0B0,3\n1F0,4\n"), "1B0: has no measured time");
  refused(csv + " --forward 2", "measured times");
  refused(csv + " --stage-scale 1,2", "measured times");
  auto const compare = run_program("compare --ranks 2 --microbatches 2 --cost " + csv);
  CHECK(compare.status == 2);
  CHECK_THAT(compare.output, contains("one schedule"));

  auto const kept = folder.file("kept.json");
  REQUIRE(run_program("export --file " + schedule + " --cost " + csv + " --format json -o " + kept).status == 0);
  CHECK(nlohmann::json::parse(text_of(kept)).at("measured").size() == 8);
  CHECK(nlohmann::json::parse(run_program("analyze --format json --file " + kept).output).at("makespan") == 22);
}

TEST_CASE("A text that is no schedule is told in a hundred lines, not one for each cell", "[program]") {
  scratch const folder;
  std::string text;
  for (int line = 0; line < 1000; ++line) text += "no, schedule\n";
  auto const file = folder.file("text.csv", text);
  auto const run = run_program("check " + file);
  CHECK(run.status == 1);
  CHECK(std::count(run.output.begin(), run.output.end(), '\n') == 101);
  CHECK_THAT(run.output, contains(" more; check --diagnostics json"));
  CHECK(nlohmann::json::parse(run_program("check --diagnostics json " + file).output).size() >= 1000);
}
