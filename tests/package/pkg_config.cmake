# Compiles the consumer by hand with the flags that pkg-config gives, and runs it.
set(ENV{PKG_CONFIG_PATH} "${prefix}/share/pkgconfig")
execute_process(COMMAND "${pkg_config}" --cflags --libs pipesched OUTPUT_VARIABLE flags OUTPUT_STRIP_TRAILING_WHITESPACE
                        COMMAND_ERROR_IS_FATAL ANY)
separate_arguments(flags UNIX_COMMAND "${flags}")
execute_process(COMMAND "${compiler}" -std=c++20 "${CMAKE_CURRENT_LIST_DIR}/consumer/consumer.cpp" -o consumer_by_hand
                        ${flags} COMMAND_ERROR_IS_FATAL ANY)
execute_process(COMMAND ./consumer_by_hand COMMAND_ERROR_IS_FATAL ANY)
