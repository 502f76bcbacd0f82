# Weak symbols that two targets share: the linker keeps one copy of each, perhaps the one that this machine cannot run.
execute_process(COMMAND ${NM} --demangle ${OBJECTS} OUTPUT_VARIABLE symbols COMMAND_ERROR_IS_FATAL ANY)
string(REGEX MATCHALL "[^\n]* [WVu] [^\n]*" weak "${symbols}")
list(FILTER weak EXCLUDE REGEX " [WVu] (DW\\.ref|.*unrolled::${TARGET}::|.*8unrolled[0-9]+${TARGET})")  # some stay mangled
if(weak)
  list(JOIN weak "\n  " text)
  message(FATAL_ERROR "engine.cpp for ${TARGET} defines what other targets may define too:\n  ${text}")
endif()
