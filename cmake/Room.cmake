# A room is a folder, a CMake target and a namespace (ARCHITECTURE.md, "Rooms").
#
#   pitcrew_room(kube DEPENDS base codec io EXTERNAL simdjson::simdjson)
#
# takes every *.cc beside the CMakeLists.txt (and in its folders named by FOLDERS) into the static
# library pitcrew_kube, and every
# tests/*_test.cc into the program kube_test (CTest label "unit"); tests/*_golden_test.cc and
# tests/*_integration_test.cc go into programs and labels of their own.
include(GoogleTest)

# What ships is built with link-time optimisation, which would link every test program for minutes.
option(PITCREW_TESTS "Build the rooms' test programs" ON)
# Under sanitizers a process takes longer to start than most cases take: there one process runs a program's cases.
option(PITCREW_TEST_EACH_CASE "One CTest test for each case of unit and golden tests, not for each program" ON)
set(PITCREW_TEST_ROOMS "" CACHE STRING "Only the test programs of these rooms (none named: of all)")
# All test programs that there are, for presets that build nothing else.
add_custom_target(room_tests)

# What tests read (tests/support/folders.h). No path of this checkout is in the command line, so that the compiler's cache
# serves every checkout.
function(pitcrew_define_folders target)
  cmake_path(RELATIVE_PATH CMAKE_CURRENT_SOURCE_DIR BASE_DIRECTORY ${CMAKE_SOURCE_DIR} OUTPUT_VARIABLE folder)
  target_compile_definitions(${target} PRIVATE PITCREW_TEST_DATA="${folder}/tests/data")
  target_link_libraries(${target} PRIVATE pitcrew_test_folders)
endfunction()

# One CTest test per program, so that its tests share one server; GTEST_FILTER picks one of them. A program that takes longer
# than all others is cut into INTEGRATION_PARTS, each with a server of its own, so that they run at the same time.
# The reports tell tools/run_tests.py of each case: <test's name without its kind>_integration_test.xml.
function(pitcrew_integration_test name program)
  set(reports ${CMAKE_BINARY_DIR}/Testing/cases)
  if(NOT ROOM_INTEGRATION_PARTS)
    add_test(NAME integration/${name} COMMAND ${program} --gtest_output=xml:${reports}/${name}_integration_test.xml)
    set_tests_properties(integration/${name} PROPERTIES LABELS integration TIMEOUT 1800)
    return()
  endif()
  foreach(part RANGE 1 ${ROOM_INTEGRATION_PARTS})
    math(EXPR index "${part} - 1")
    add_test(NAME integration/${name}/part_${part}
             COMMAND ${program} --gtest_output=xml:${reports}/${name}/part_${part}_integration_test.xml)
    set_tests_properties(integration/${name}/part_${part} PROPERTIES LABELS integration TIMEOUT 1800
                         ENVIRONMENT "GTEST_TOTAL_SHARDS=${ROOM_INTEGRATION_PARTS};GTEST_SHARD_INDEX=${index}")
  endforeach()
endfunction()

function(pitcrew_room_tests name target kind pattern)
  if(NOT PITCREW_TESTS OR (PITCREW_TEST_ROOMS AND NOT name IN_LIST PITCREW_TEST_ROOMS))
    return()
  endif()
  file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/tests/${pattern})
  if(kind STREQUAL "unit")
    list(FILTER sources EXCLUDE REGEX "_(golden|integration)_test\\.cc$")
  endif()
  if(NOT sources)
    return()
  endif()
  set(libraries ${target} GTest::gtest GTest::gmock ${ARGN})
  # What the tests of one room share is compiled once for all their programs.
  file(GLOB support CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/tests/support_*.cc)
  if(support AND NOT TARGET ${name}_support)
    add_library(${name}_support OBJECT ${support})
    target_link_libraries(${name}_support PRIVATE ${libraries})
    target_include_directories(${name}_support PRIVATE ${CMAKE_SOURCE_DIR})  # tests/support
    pitcrew_use_precompiled(${name}_support pitcrew_precompiled_tests)
    pitcrew_define_folders(${name}_support)
  endif()
  set(program ${name}_${kind}_test)
  add_executable(${program} ${sources})
  add_dependencies(room_tests ${program})
  target_link_libraries(${program} PRIVATE $<TARGET_NAME_IF_EXISTS:${name}_support> ${libraries} GTest::gtest_main)
  target_include_directories(${program} PRIVATE ${CMAKE_SOURCE_DIR})  # tests/support
  pitcrew_use_precompiled(${program} pitcrew_precompiled_tests)
  pitcrew_define_folders(${program})
  if(kind STREQUAL "integration")
    pitcrew_integration_test(${name} ${program})
    return()
  endif()
  if(NOT PITCREW_TEST_EACH_CASE)
    # The report tells tools/run_tests.py of each case.
    add_test(NAME ${kind}/${name}
             COMMAND ${program} --gtest_output=xml:${CMAKE_BINARY_DIR}/Testing/cases/${program}.xml)
    set_tests_properties(${kind}/${name} PROPERTIES LABELS ${kind} TIMEOUT 1200)
    return()
  endif()
  gtest_discover_tests(${program} TEST_PREFIX "${kind}/${name}/" DISCOVERY_TIMEOUT 60
                       PROPERTIES LABELS ${kind} TIMEOUT 60)
endfunction()

function(pitcrew_room name)
  cmake_parse_arguments(ROOM "" "INTEGRATION_PARTS" "FOLDERS;DEPENDS;EXTERNAL;TEST_DEPENDS" ${ARGN})
  set(target pitcrew_${name})
  set(patterns ${CMAKE_CURRENT_SOURCE_DIR}/*.cc)
  foreach(folder ${ROOM_FOLDERS})
    list(APPEND patterns ${CMAKE_CURRENT_SOURCE_DIR}/${folder}/*.cc)
  endforeach()
  file(GLOB sources CONFIGURE_DEPENDS ${patterns})
  if(sources)
    add_library(${target} STATIC ${sources})
    set(scope PUBLIC)
  else()
    add_library(${target} INTERFACE)
    set(scope INTERFACE)
  endif()
  target_include_directories(${target} ${scope} ${CMAKE_SOURCE_DIR}/src)
  list(TRANSFORM ROOM_DEPENDS PREPEND pitcrew_)
  target_link_libraries(${target} ${scope} ${ROOM_DEPENDS} ${ROOM_EXTERNAL})
  if(sources)
    pitcrew_use_precompiled(${target} pitcrew_precompiled)
  endif()
  pitcrew_room_tests(${name} ${target} unit "*_test.cc" ${ROOM_TEST_DEPENDS})
  pitcrew_room_tests(${name} ${target} golden "*_golden_test.cc" ${ROOM_TEST_DEPENDS})
  pitcrew_room_tests(${name} ${target} integration "*_integration_test.cc" ${ROOM_TEST_DEPENDS})
endfunction()
