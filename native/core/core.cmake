# The core, which knows no Python: one library of all targets that the machine's family has. Its tests include this too.
set(core "${CMAKE_CURRENT_LIST_DIR}")
# -O3 makes a third more code and no call faster: the loops that matter say themselves how far they unroll, and what has to
# be inlined in them says so too. That leaves little for g++ to inline of its own accord.
set(UNROLLED_OPTIMISE -O2 $<$<CXX_COMPILER_ID:GNU>:--param=max-inline-insns-single=40>
    CACHE STRING "How hard the engine is optimised; the sanitizers of tests/native take less.")
set(UNROLLED_TARGETS "generic;avx2;avx512" CACHE STRING "Targets to build, where the machine's family has them; generic always.")

add_library(unrolled_core STATIC "${core}/dispatch.cpp" "${core}/team.cpp")
target_include_directories(unrolled_core PUBLIC "${core}")
target_link_libraries(unrolled_core PUBLIC Threads::Threads)
target_compile_options(unrolled_core PRIVATE -Wall -Wextra)

# engine.cpp once a target: its name, the bytes of its vectors, its instructions.
function(add_engine name bytes)
  if(NOT name STREQUAL "generic" AND NOT name IN_LIST UNROLLED_TARGETS)
    return()
  endif()
  string(TOUPPER ${name} upper)
  target_compile_definitions(unrolled_core PRIVATE UNROLLED_HAS_${upper})
  add_library(unrolled_${name} OBJECT "${core}/engine.cpp")
  target_compile_definitions(unrolled_${name} PRIVATE UNROLLED_TARGET=${name} UNROLLED_VECTOR_BYTES=${bytes})
  # Contraction makes a * b + c one instruction where the target has it; nothing else about IEEE arithmetic is relaxed.
  # -Wno-psabi: vectors are passed only between functions of the same target.
  target_compile_options(unrolled_${name} PRIVATE ${UNROLLED_OPTIMISE} -ffp-contract=fast -Wall -Wextra -Wno-psabi ${ARGN})
  target_sources(unrolled_core PRIVATE $<TARGET_OBJECTS:unrolled_${name}>)
endfunction()

add_engine(generic 16)
if(CMAKE_SYSTEM_PROCESSOR MATCHES "^(x86_64|AMD64|amd64)$")
  add_engine(avx2 32 -mavx2 -mfma)
  add_engine(avx512 64 -mavx512f -mavx512vl -mavx512dq -mavx512bw -mfma -mprefer-vector-width=512)
endif()
