// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>

/// Refuses a schedule whose analysis needs more memory than the machine has free, before the system stops the program.
/// Throws `usage_error`.
void require_memory_for(std::int64_t operations);
