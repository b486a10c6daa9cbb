# Fails unless PAGE holds all that PROGRAM prints for ARGS, line for line: what a page shows is what the code does.
# cmake -D PROGRAM=... [-D ARGS="a b c"] -D PAGE=... -P output_in_page.cmake
separate_arguments(args UNIX_COMMAND "${ARGS}")
execute_process(COMMAND "${PROGRAM}" ${args} OUTPUT_VARIABLE output COMMAND_ERROR_IS_FATAL ANY)
file(READ "${PAGE}" page)
string(FIND "${page}" "${output}" position)
if(position EQUAL -1)
  message(FATAL_ERROR "${PAGE} does not show what ${PROGRAM} ${ARGS} prints now:\n${output}")
endif()
