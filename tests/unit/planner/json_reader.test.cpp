// SPDX-License-Identifier: MIT
#include <string>
#include <string_view>

#include <nlohmann/json.hpp>
#include <pipesched/planner/json_reader.hpp>
#include <pipesched/planner/plan_json.hpp>
#include <pipesched/planner/planner.hpp>

#include "support/catch.hpp"

using namespace pipesched;

namespace {

std::string first_wrong(std::string_view model) {
  auto const file = read_model(model);
  INFO(model);
  REQUIRE_FALSE(file.diagnostics.empty());
  return to_string(file.diagnostics.front());
}

constexpr std::string_view tiny = R"({"layers": 8, "hidden": 1024, "heads": 8, "sequence": 1024, "vocabulary": 32000,
  "batch": 32, "microbatch": 2, "precision": "fp8", "recomputation": "full", "dropout": false, "zero_stage": 2,
  "choices": {"pipeline": [2, 4], "schedules": ["1f1b", "zb-h1"], "tensor": 1, "layout": "Et*4|t*4L"}})";

}  // namespace

TEST_CASE("a model, its training and the choices are read") {
  auto const file = read_model(tiny);
  CHECK(file.diagnostics.empty());
  CHECK(file.model.layers == 8);
  CHECK(file.model.microbatch == 2);
  CHECK(file.model.products == precision::fp8);
  CHECK(file.model.recompute == recomputation::full);
  CHECK_FALSE(file.model.dropout);
  CHECK(file.model.zero_stage == 2);
  CHECK(file.choices.pipeline == std::vector<std::int64_t>{2, 4});
  CHECK(file.choices.tensor == std::vector<std::int64_t>{1});
  CHECK(file.choices.schedules.size() == 2);
  REQUIRE(file.choices.layout);
  CHECK(file.choices.layout->layers() == 8);
}

TEST_CASE("a cluster is a kind of GPU, its figures, or a preset") {
  auto const by_name = read_cluster(R"({"gpus": 2048, "gpu": "H800", "network": "InfiniBand XDR"})").cluster;
  CHECK(by_name.nvlink == 200e9);
  CHECK(by_name.network == 100e9);
  CHECK(read_cluster(R"({"preset": "llama-3-405b"})").cluster.gpus == 16384);
  auto const own = read_cluster(R"({"gpus": 8, "gpu": "other", "bf16_rate": 1e15, "memory": 1e11, "nvlink": 3e11})");
  CHECK(own.diagnostics.empty());
  CHECK(own.cluster.memory == 1e11);
  CHECK(to_string(read_cluster(R"({"gpus": 8, "gpu": "other"})").diagnostics.at(0)) ==
        "cluster.bf16_rate: is missing; expected a value");
  CHECK(read_cluster("{}").diagnostics.size() == 1);
  CHECK(read_model(R"({"preset": "deepseek-v3", "batch": 7680})").model.batch == 7680);
}

TEST_CASE("what cannot be read is named, and nothing is thrown") {
  CHECK(first_wrong("").find("is no JSON") != std::string::npos);
  CHECK(first_wrong("[]") == "the file is no object; expected a JSON object");
  CHECK(first_wrong("{}") == "model.layers: is missing; expected a value");
  CHECK(first_wrong(R"({"preset": "gpt-9"})").find("model.preset: is unknown") == 0);
  CHECK(first_wrong(R"({"preset": "deepseek-v3", "layers": 6.5})") ==
        "model.layers: is of a wrong kind; expected a whole number");
  CHECK(first_wrong(R"({"preset": "deepseek-v3", "layers": 18446744073709551615})").find("whole number") !=
        std::string::npos);
  CHECK(first_wrong(R"({"preset": "deepseek-v3", "precision": "int4"})") ==
        "model.precision: is of a wrong value; expected one of bf16, fp8");
  CHECK(first_wrong(R"({"preset": "deepseek-v3", "lairs": 61})").find("model.lairs: is unknown") == 0);
  CHECK(first_wrong(R"({"preset": "deepseek-v3", "choices": {"layout": "Et|x"}})").find("is no symbol") !=
        std::string::npos);
  CHECK(first_wrong(R"({"preset": "deepseek-v3", "choices": {"pipeline": ["x"]}})").find("choices.pipeline") == 0);
  CHECK(first_wrong(R"({"preset": "deepseek-v3", "choices": 3})").find("an object") != std::string::npos);
  CHECK(first_wrong(std::string(1000, '[')).find("nested too deep") != std::string::npos);
  CHECK(first_wrong(R"({"preset": 3})").find("a string") != std::string::npos);
}

TEST_CASE("a plan's JSON can be parsed, and has what the text has") {
  auto const file = read_model(tiny);
  plan_request request{file.model, cluster_spec::of(h100, 8), file.choices};
  request.choices.layout.reset();
  auto const result = plan(request);
  REQUIRE_FALSE(result.entries.empty());
  auto const json = nlohmann::json::parse(plan_json(result, request));
  CHECK(json["gpus"] == 8);
  CHECK(json["fitting"] == result.entries.size());
  REQUIRE(json["plans"].size() > 0);
  CHECK(json["plans"][0]["schedule"] == std::string(result.entries[0].shape.schedule));
  CHECK(json["plans"][0]["step_time"].get<double>() == result.entries[0].step_time);
  CHECK(json["plans"][0]["memory"]["total"] == result.entries[0].memory.total());
  CHECK(json["changes"].size() == result.changes.size());
  auto const text = plan_text(result, request);
  for (auto const* part : {"why it is first", "what would change the choice", "layout E", "MFU"})
    CHECK(text.find(part) != std::string::npos);

  request.choices.pipeline = {7};
  auto const failed = plan(request);
  auto const failure = nlohmann::json::parse(plan_json(failed, request))["failure"];
  CHECK(failure["constraint"] == "gpus");
  CHECK(failure["nearest"][0]["change"] == "gpus = 7");
  CHECK(plan_text(failed, request).find("no plan: gpus: ") != std::string::npos);
}
