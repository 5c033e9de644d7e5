# Warnings are errors; ccache and mold are used when they are there.
add_compile_options(-Wall -Wextra -Wpedantic -Wshadow -Wnon-virtual-dtor -Wold-style-cast
                    -Woverloaded-virtual -Werror)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # GCC 12 reports these inside its own std headers once optimisation inlines them.
  set(wrong_warnings -Wno-restrict -Wno-maybe-uninitialized -Wno-dangling-pointer
                     -Wno-stringop-overflow -Wno-array-bounds)
  add_compile_options(${wrong_warnings})
  # With link-time optimisation the linker inlines, and warns.
  if(CMAKE_INTERPROCEDURAL_OPTIMIZATION)
    add_link_options(${wrong_warnings})
  endif()
endif()
# Clang, which builds the fuzz targets and reads the sources for `make lint`, warns about more; GCC decides.
if(CMAKE_CXX_COMPILER_ID MATCHES "Clang")
  add_compile_options(-Wno-error)
endif()
# C files (the simulated driver's ABI tables) do not know the C++ flags.
foreach(flag -Wnon-virtual-dtor -Wold-style-cast -Woverloaded-virtual)
  get_directory_property(options COMPILE_OPTIONS)
  string(REPLACE "${flag}" "$<$<COMPILE_LANGUAGE:CXX>:${flag}>" options "${options}")
  set_directory_properties(PROPERTIES COMPILE_OPTIONS "${options}")
endforeach()

# The cache lies where the person's ccache keeps it. All presets of one checkout are more than ccache's own
# 5 GB, so a smaller limit is raised for our builds, unless CCACHE_MAXSIZE is set.
find_program(PITCREW_CCACHE ccache)
if(PITCREW_CCACHE)
  set(cache_size "")
  execute_process(COMMAND ${PITCREW_CCACHE} --get-config max_size OUTPUT_VARIABLE cache_limit
                  OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
  if(NOT DEFINED ENV{CCACHE_MAXSIZE}
     AND (cache_limit MATCHES "^[0-9.]+ ?[kM]"
          OR (cache_limit MATCHES "^([0-9]+)[0-9.]* ?G" AND CMAKE_MATCH_1 LESS 15)))
    set(cache_size CCACHE_MAXSIZE=15G)
  endif()
  set(CMAKE_C_COMPILER_LAUNCHER
      ${CMAKE_COMMAND} -E env CCACHE_BASEDIR=${CMAKE_SOURCE_DIR} CCACHE_NOHASHDIR=1 ${cache_size}
      CCACHE_SLOPPINESS=pch_defines,time_macros ${PITCREW_CCACHE})
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_C_COMPILER_LAUNCHER})
endif()

option(PITCREW_MOLD "Link with mold when it is installed" ON)
find_program(PITCREW_MOLD_PROGRAM mold)
if(PITCREW_MOLD AND PITCREW_MOLD_PROGRAM AND NOT CMAKE_INTERPROCEDURAL_OPTIMIZATION)
  add_link_options(-fuse-ld=mold)
endif()
# The same code generation for libraries and programs, so that both can read one precompiled header.
add_compile_options(-fPIC -fno-semantic-interposition)
add_compile_options(-ffunction-sections -fdata-sections)
add_link_options(-Wl,--gc-sections)

# What ships is hardened; deploy/tests/hardening_test.py reads it back out of the programs.
if(CMAKE_BUILD_TYPE STREQUAL "Release")
  add_compile_options(-U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=3 -fstack-protector-strong
                      -fstack-clash-protection)
  # FORTIFY also warns where a result of the C library is ignored; dev and the sanitizers' builds have our own rule.
  add_compile_options(-Wno-error=unused-result)
  if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
    add_compile_options(-fcf-protection=full)
  elseif(CMAKE_SYSTEM_PROCESSOR MATCHES "aarch64|arm64")
    add_compile_options(-mbranch-protection=standard)
  endif()
  add_link_options(-Wl,-z,relro -Wl,-z,now -Wl,-z,noexecstack)
  set(CMAKE_EXE_LINKER_FLAGS "${CMAKE_EXE_LINKER_FLAGS} -pie")
endif()

set(PITCREW_SANITIZE "" CACHE STRING "Sanitizers, for example address,undefined")
set(PITCREW_SANITIZE_NOT "" CACHE STRING "Checks of PITCREW_SANITIZE that are left out, for example null,alignment")
if(PITCREW_SANITIZE)
  add_compile_options(-fsanitize=${PITCREW_SANITIZE} -fno-omit-frame-pointer
                      -fno-sanitize-recover=all)
  if(PITCREW_SANITIZE_NOT)
    add_compile_options(-fno-sanitize=${PITCREW_SANITIZE_NOT})
  endif()
  add_link_options(-fsanitize=${PITCREW_SANITIZE})
  # Sanitizers do not see the error of a std::expected that holds a value, nor an empty std::optional; the library's
  # own checks do.
  add_compile_definitions(_GLIBCXX_ASSERTIONS)
endif()

# Where several files are compiled at a time (Together.cmake), a type of one file's own is not of the main file, and GCC takes
# its file for a header.
if(CMAKE_UNITY_BUILD)
  add_compile_options($<$<COMPILE_LANG_AND_ID:CXX,GNU>:-Wno-subobject-linkage>)
endif()
