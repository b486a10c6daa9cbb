// SPDX-License-Identifier: MIT
#include "support/catch.hpp"

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

/// A folder of its own, removed with all that is in it.
struct scratch {
  fs::path path = fs::temp_directory_path() / "pipesched_program_files";
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

  auto const compute = folder.file("compute.csv", "0F0,0F1,0B0,0B1\n1F0,1B0,1F1,1B1\n");
  CHECK(run_program("check " + compute + " --transport blocking").status == 0);
  auto const lost =
      folder.file("lost.csv", "0F0,0SEND_F0,0F1,0SEND_F1\n1RECV_F1,1F0,1F1\n");  // 1F0 never gets its input
  CHECK(run_program("check " + lost + " --transport async").status == 1);
  auto const late = folder.file("late.csv", "0F0,0W0,0I0\n");
  CHECK(run_program("check " + late + " --transport async").status == 1);
}
