# Installs the library, then moves the tree: an installed package must not know where it was put at first.
file(REMOVE_RECURSE "${prefix}" "${prefix}-at-first")
execute_process(COMMAND "${CMAKE_COMMAND}" --install "${build}" --prefix "${prefix}-at-first" OUTPUT_QUIET
                        COMMAND_ERROR_IS_FATAL ANY)
file(RENAME "${prefix}-at-first" "${prefix}")
