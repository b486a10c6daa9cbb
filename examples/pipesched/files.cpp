// SPDX-License-Identifier: MIT
#include "files.hpp"

#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <memory>
#include <system_error>

#include <fmt/format.h>

#include "usage_error.hpp"

namespace {

namespace fs = std::filesystem;

struct closer {
  void operator()(std::FILE* file) const { std::fclose(file); }
};
using file_handle = std::unique_ptr<std::FILE, closer>;

[[noreturn]] void fail(std::string_view action, std::string const& path, int error) {
  throw usage_error(fmt::format("cannot {} {}: {}", action, path, std::strerror(error)));
}

/// Whether all of `text` has reached the system.
bool write_all(std::FILE* file, std::string_view text) {
  return std::fwrite(text.data(), 1, text.size(), file) == text.size() && std::fflush(file) == 0;
}

}  // namespace

std::string read_file(std::string const& path) {
  constexpr std::size_t most = std::size_t{1} << 30;
  std::error_code status;
  if (fs::is_directory(path, status)) fail("read", path, EISDIR);
  file_handle const file(std::fopen(path.c_str(), "rb"));
  if (!file) fail("read", path, errno);
  std::string text;
  char part[65536];
  while (auto const count = std::fread(part, 1, sizeof part, file.get())) {
    text.append(part, count);
    if (text.size() > most)
      throw usage_error(fmt::format("{} (bytes) = more than {}, must be at most {}", path, most, most));
  }
  if (std::ferror(file.get())) fail("read", path, errno);
  return text;
}

void write_stdout(std::string_view text) {
  if (!write_all(stdout, text) && errno != EPIPE) fail("write", "standard output", errno);
}

void write_output(std::string const& path, std::string_view text) {
  if (path.empty() || path == "-") return write_stdout(text);
  std::error_code status;
  auto const target = fs::weakly_canonical(path, status);  // a link stays, what it names is written
  if (status) fail("write", path, status.value());
  if (fs::exists(target, status) && !fs::is_regular_file(target, status)) {  // a device or pipe cannot be replaced
    file_handle const file(std::fopen(target.c_str(), "wb"));
    if (!file || !write_all(file.get(), text)) fail("write", path, errno);
    return;
  }
  auto const neighbour = fmt::format("{}.{}.part", target.string(), ::getpid());
  file_handle file(std::fopen(neighbour.c_str(), "wbx"));
  if (!file) fail("write", path, errno);
  bool const written = write_all(file.get(), text);
  int error = errno;
  bool const closed = std::fclose(file.release()) == 0;
  if (written && !closed) error = errno;
  if (written && closed) {
    fs::rename(neighbour, target, status);
    if (!status) return;
    error = status.value();
  }
  fs::remove(neighbour, status);
  fail("write", path, error);
}
