// SPDX-License-Identifier: MIT
// Must not compile: an error code of a handler's would go unnoticed.
#include <pipesched/runtime/run.hpp>

struct c_style {
  int forward(pipesched::op) { return 1; }
  void backward(pipesched::op) {}
  void backward_input(pipesched::op) {}
  void backward_weight(pipesched::op) {}
};

int main() {
  pipesched::op const program[] = {pipesched::op::from_packed(0)};
  c_style handler;
  return pipesched::run(program, handler, 0) ? 0 : 1;
}
