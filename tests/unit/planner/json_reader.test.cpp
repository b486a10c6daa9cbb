// SPDX-License-Identifier: MIT
#include <cstdint>
#include <fstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

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
  auto const own = read_cluster(R"({"gpus": 8, "gpu": "other", "bf16_rate": 1e15, "memory": 1e11, "nvlink": 3e11,
    "memory_bandwidth": 2e12})");
  CHECK(own.diagnostics.empty());
  CHECK(own.cluster.memory == 1e11);
  CHECK(own.cluster.memory_bandwidth == 2e12);
  CHECK(own.cluster.fp8_rate == 0);
  CHECK(to_string(read_cluster(R"({"gpus": 8, "gpu": "other"})").diagnostics.at(0)) ==
        "cluster.bf16_rate: is missing; expected a value, for gpu \"other\" is none of H100, H800, H200, B200");
  CHECK(to_string(read_cluster(R"({"gpus": 8, "gpu": "A", "bf16_rate": 1e15, "memory": 1e11, "nvlink": 3e11})")
                      .diagnostics.at(0))
            .find("cluster.memory_bandwidth: is missing") == 0);
  CHECK(read_cluster("{}").diagnostics.size() == 1);
  CHECK(read_model(R"({"preset": "deepseek-v3", "batch": 7680})").model.batch == 7680);
}

TEST_CASE("GPUs without a name are said to be custom, and which of their figures are the H100's") {
  auto const name = [](std::string const& members) {
    return read_cluster(R"({"gpus": 8)" + members + "}").cluster.gpu;
  };
  CHECK(name("") == "H100");
  CHECK(name(R"(, "network": 1e10)") == "H100");
  CHECK(name(R"(, "bf16_rate": 1e14, "memory": 4e10, "memory_bandwidth": 1e12, "nvlink": 1e11)") ==
        "custom GPUs (as H100: fp8_rate, multiprocessors)");
  CHECK(name(R"(, "bf16_rate": 1e14, "fp8_rate": 2e14, "memory": 4e10, "memory_bandwidth": 1e12, "nvlink": 1e11,
               "multiprocessors": 100)") == "custom GPUs");
  CHECK(read_cluster(R"({"preset": "deepseek-v3", "memory": 4e10})").cluster.gpu == "H800");
}

TEST_CASE("FP8 products need the rate of a GPU that is not known") {
  std::string const gpu = R"({"gpus": 8, "gpu": "A", "bf16_rate": 3e14, "memory": 8e10, "memory_bandwidth": 2e12,
    "nvlink": 3e11)";
  plan_request request{llama_3_70b(), read_cluster(gpu + "}").cluster};
  CHECK(check_request(request).empty());
  request.model.products = precision::fp8;
  auto const wrong = check_request(request);
  REQUIRE(wrong.size() == 1);
  CHECK(to_string(wrong[0]) == "cluster: fp8_rate = 0, must be greater than 0 (the model's precision is fp8)");
  CHECK_THROWS_AS(plan(request), parameter_error);
  CHECK_THROWS_AS(evaluate_plan(request, {.schedule = "1f1b", .pipeline = 2}), parameter_error);
  request.cluster = read_cluster(gpu + R"(, "fp8_rate": 6e14})").cluster;
  CHECK(check_request(request).empty());
}

TEST_CASE("what cannot be read is named, and nothing is thrown") {
  CHECK(first_wrong("").find("is no JSON") != std::string::npos);
  CHECK(first_wrong("[]") == "the file is no object; expected a JSON object");
  CHECK(first_wrong("{}") == "model.layers: is missing; expected a value");
  CHECK(first_wrong(R"({"preset": "gpt-9"})").find("model.preset: is \"gpt-9\"; expected deepseek-v3") == 0);
  CHECK(first_wrong(R"({"preset": "deepseek-v3", "layers": 6.5})") == "model.layers: is 6.5; expected a whole number");
  CHECK(first_wrong(R"({"preset": "deepseek-v3", "layers": 18446744073709551615})").find("whole number") !=
        std::string::npos);
  CHECK(first_wrong(R"({"preset": "deepseek-v3", "precision": "int4"})") ==
        "model.precision: is \"int4\"; expected one of bf16, fp8");
  CHECK(first_wrong(R"({"preset": "deepseek-v3", "lairs": 61})").find("model.lairs: is unknown") == 0);
  CHECK(first_wrong(R"({"preset": "deepseek-v3", "choices": {"layout": "Et|x"}})") ==
        "model.choices.layout: column 4, x: is no symbol; expected E, t, m, L, '|' or a group (..)*n");
  CHECK(first_wrong(R"({"preset": "deepseek-v3", "choices": {"pipeline": ["x"]}})") ==
        "model.choices.pipeline: is [\"x\"]; expected a whole number, or at most 64 of them");
  CHECK(first_wrong(R"({"preset": "deepseek-v3", "choices": 3})").find("an object") != std::string::npos);
  CHECK(first_wrong(std::string(1000, '[')).find("nested too deep") != std::string::npos);
  CHECK(first_wrong(R"({"preset": 3})").find("a string") != std::string::npos);
}

TEST_CASE("whatever is in a file, its field is named with the value that is wrong") {
  struct hostile {
    std::string_view member;
    std::string_view diagnostic;
  };
  // Read as they are: what a size must be at least is the check's question.
  for (auto const& [member, diagnostic] :
       {hostile{R"("layers": null)", "model.layers: is null; expected a whole number"},
        hostile{R"("layers": -9223372036854775809)",
                "model.layers: is -9.223372036854776e+18; expected a whole number"},
        hostile{R"("layers": 99999999999999999999)", "model.layers: is 1e+20; expected a whole number"},
        hostile{R"("layers": 8e0)", "model.layers: is 8.0; expected a whole number"},
        hostile{R"("dropout": 1)", "model.dropout: is 1; expected true or false"},
        hostile{R"("name": {"a": 1})", "model.name: is {...}; expected a string"},
        hostile{R"("recomputation": "Full")",
                "model.recomputation: is \"Full\"; expected one of none, selective, pointwise, full"},
        hostile{R"("choices": {"schedules": "1f1b"})",
                "model.choices.schedules: is \"1f1b\"; expected an array of names"},
        hostile{R"("choices": {"chunk": 2})",
                "model.choices.chunk: is unknown; expected one of pipeline, chunks, tensor, expert, context, "
                "schedules, layout"}})
    CHECK(first_wrong(R"({"preset": "llama-3-70b", )" + std::string(member) + "}") == diagnostic);
  // What JSON has no number for is refused with its place.
  for (std::string_view member : {R"("layers": 1e400)", R"("layers": NaN)", R"("layers": 0x10)", R"("layers": 08)"}) {
    auto const text = first_wrong(R"({"preset": "llama-3-70b", )" + std::string(member) + "}");
    CHECK(text.find("line 1, column ") == 0);
    CHECK(text.find("is no JSON: ") != std::string::npos);
  }
  CHECK(first_wrong(R"({"preset": "llama-3-70b", "batch": 1, "batch": 2})") ==
        "model.batch: stands twice; expected one value");
  CHECK(to_string(read_cluster(R"({"gpus": 8, "network": "carrier pigeon"})").diagnostics.at(0))
            .find("cluster.network: is \"carrier pigeon\"; expected bytes per second, or a link's name, NVLink 4") ==
        0);
}

TEST_CASE("the schemas have the keys that are read, and the bounds that are checked") {
  auto const schema = [](std::string const& what) {
    std::ifstream file(std::string(PIPESCHED_TEST_DATA "/../../docs/") + what + ".schema.json");
    REQUIRE(file);
    return nlohmann::json::parse(file)["properties"];
  };
  auto const wrong_of = [](bool of_cluster, std::string const& member) {
    std::string const text = R"({"preset": "deepseek-v3", )" + member + "}";
    plan_request request{deepseek_v3(), deepseek_v3_cluster()};
    std::vector<diagnostic> wrong;
    if (of_cluster) {
      auto file = read_cluster(text);
      request.cluster = file.cluster;
      wrong = std::move(file.diagnostics);
    } else {
      auto file = read_model(text);
      request.model = file.model;
      wrong = std::move(file.diagnostics);
    }
    if (wrong.empty()) wrong = check_request(request);
    return wrong;
  };
  for (bool const of_cluster : {false, true}) {
    auto const keys = schema(of_cluster ? "cluster" : "model");
    for (auto const& [key, of_key] : keys.items()) {
      if (key == "preset") continue;
      INFO(key);
      CHECK(of_key.contains("description"));
      // Null is of no kind; a key that is not read would be unknown.
      auto const null = wrong_of(of_cluster, '"' + key + R"(": null)");
      REQUIRE_FALSE(null.empty());
      CHECK(null.front().message == "is null");
      auto const named_by = [&](std::string const& value) {
        for (auto const& d : wrong_of(of_cluster, '"' + key + "\": " + value))
          if (to_string(d).find(": " + key + " = ") != std::string::npos) return true;
        return false;
      };
      if (of_key.value("type", "") == "integer") {
        auto const low = of_key["minimum"].get<std::int64_t>();
        CHECK(named_by(std::to_string(low - 1)));
        if (low < 2 && key != "top_k" && key != "expert_hidden") CHECK_FALSE(named_by(std::to_string(low)));
        if (of_key.contains("maximum")) CHECK(named_by(std::to_string(of_key["maximum"].get<std::int64_t>() + 1)));
      }
      if (of_key.value("type", "") == "number") {
        CHECK(named_by("-1"));
        CHECK(named_by("1e300"));
      }
    }
  }
}

TEST_CASE("a size out of bounds is named with value and bound") {
  auto const wrong = [](std::string const& member, bool of_cluster = false) {
    auto const model = read_model(R"({"preset": "deepseek-v3")" + (of_cluster ? "" : ", " + member) + "}");
    auto const cluster = read_cluster(R"({"preset": "deepseek-v3")" + (of_cluster ? ", " + member : "") + "}");
    INFO(member);
    REQUIRE(model.diagnostics.empty());
    REQUIRE(cluster.diagnostics.empty());
    auto const found = check_request({model.model, cluster.cluster, model.choices});
    REQUIRE(found.size() == 1);
    return to_string(found.front());
  };
  CHECK(wrong(R"("layers": 0)") == "model: layers = 0, must be at least 1");
  CHECK(wrong(R"("hidden": -7168)") == "model: hidden = -7168, must be at least 1");
  CHECK(wrong(R"("batch": 9223372036854775807)") == "model: batch = 9223372036854775807, must be at most 2147483648");
  CHECK(wrong(R"("top_k": 0)") == "model: top_k = 0, must be at least 1");
  CHECK(wrong(R"("kv_heads": 3)") == "model: heads = 128, must be a multiple of 3 (kv_heads)");
  CHECK(wrong(R"("zero_stage": 4)") == "model: zero_stage = 4, must be at most 3");
  CHECK(wrong(R"("microbatch": 15361)") == "model: microbatch = 15361, must be at most 15360 (batch)");
  CHECK(wrong(R"("choices": {"tensor": 0})") == "model: choices.tensor = 0, must be at least 1");
  CHECK(wrong(R"("choices": {"pipeline": [16, 1000000000]})") ==
        "model: choices.pipeline = 1000000000, must be at most 65536");
  CHECK(wrong(R"("gpus": -1)", true) == "cluster: gpus = -1, must be at least 1");
  CHECK(wrong(R"("bf16_share": 1.5)", true) == "cluster: bf16_share = 1.5, must be at most 1");
  CHECK(wrong(R"("network": 0)", true) == "cluster: network = 0, must be at least 1e+06 (bytes per second)");
  CHECK(wrong(R"("network": 400)", true) == "cluster: network = 400, must be at least 1e+06 (bytes per second)");
  CHECK(wrong(R"("memory": 80)", true) == "cluster: memory = 80, must be at least 1e+06 (bytes)");
  CHECK(wrong(R"("bf16_rate": 989)", true) ==
        "cluster: bf16_rate = 989, must be at least 1e+06 (operations per second)");
  CHECK(wrong(R"("memory": 1e300)", true) == "cluster: memory = 1e+300, must be at most 1e+13 (bytes)");
  CHECK(wrong(R"("transfer_latency": -1e-9)", true) == "cluster: transfer_latency = -1e-09, must be at least 0");
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
  CHECK(failure["nearest"][0]["change"] == "pipeline = 8");
  CHECK(plan_text(failed, request).find("no plan: gpus: ") != std::string::npos);
}
