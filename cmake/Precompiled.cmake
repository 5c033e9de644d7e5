# The large headers of other projects, parsed once per build folder instead of once per file: a file
# that uses JSON compiles in a third of the time. Sources still include what they use; a build with
# PITCREW_PRECOMPILED=OFF proves it.
option(PITCREW_PRECOMPILED "Parse large headers once" ON)

function(pitcrew_use_precompiled target from)
  if(PITCREW_PRECOMPILED)
    target_precompile_headers(${target} REUSE_FROM ${from})
  endif()
endfunction()

# GCC reads a precompiled header only under the same macros: `libraries` are those that define some.
function(pitcrew_precompile target libraries)
  file(CONFIGURE OUTPUT ${CMAKE_BINARY_DIR}/${target}.cc CONTENT "// Only here to carry headers.\n")
  add_library(${target} OBJECT EXCLUDE_FROM_ALL ${CMAKE_BINARY_DIR}/${target}.cc)
  target_link_libraries(${target} PRIVATE ${libraries})
  target_precompile_headers(${target} PRIVATE ${ARGN})
endfunction()

if(PITCREW_PRECOMPILED)
  set(libraries fmt::fmt nlohmann_json::nlohmann_json)
  set(headers <algorithm> <chrono> <filesystem> <functional> <map> <memory> <mutex> <optional> <set>
              <string> <thread> <vector> <fmt/format.h> <nlohmann/json.hpp>)
  pitcrew_precompile(pitcrew_precompiled "${libraries}" ${headers})
  pitcrew_precompile(pitcrew_precompiled_tests "${libraries};GTest::gmock" ${headers} <gmock/gmock.h> <gtest/gtest.h>)
endif()
