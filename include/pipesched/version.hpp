// SPDX-License-Identifier: MIT
#pragma once

/// \file
/// The library's version; the build reads it from here.

#define PIPESCHED_VERSION_MAJOR 0
#define PIPESCHED_VERSION_MINOR 1
#define PIPESCHED_VERSION_PATCH 0
