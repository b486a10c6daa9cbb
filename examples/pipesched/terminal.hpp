// SPDX-License-Identifier: MIT
#pragma once

/// Whether standard output is a terminal.
bool is_terminal();

/// The columns of the terminal; 80 where the output is not one.
int terminal_width();

/// Whether the output is a terminal that shows colours, and a user who has not asked for none (https://no-color.org).
bool wants_color();
