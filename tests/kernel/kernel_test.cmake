# kernel_test(NAME driver SCRIPT scenarios/driver.sh [PROGRAMS target...] [FILES /in/the/machine=path...]
#             [LINKS /in/the/machine=target...] [DRIVER_IMAGE /in/the/machine] [KERNEL_OPTIONS word...] [MEMORY mib]
#             [DEADLINE seconds] [NO_IOMMU])
#
# A CTest test kernel/<NAME> (label "kernel") that runs the script as root in a virtual machine with Debian's kernel;
# the script's exit status is the test's. Programs of the build lie in /usr/bin there, with their libraries; relative
# paths of FILES begin here. tests/kernel/README.md describes the machine.
function(kernel_test)
  cmake_parse_arguments(TEST "NO_IOMMU" "NAME;SCRIPT;DEADLINE;DRIVER_IMAGE;MEMORY" "PROGRAMS;FILES;LINKS;KERNEL_OPTIONS" ${ARGN})
  if(NOT TEST_DEADLINE)
    set(TEST_DEADLINE 900)
  endif()
  get_filename_component(script ${TEST_SCRIPT} ABSOLUTE)
  set(arguments --deadline ${TEST_DEADLINE} --file /scenario=${script})
  foreach(target ${TEST_PROGRAMS})
    list(APPEND arguments --program /usr/bin/$<TARGET_FILE_NAME:${target}>=$<TARGET_FILE:${target}>)
  endforeach()
  foreach(pair ${TEST_FILES})
    string(REGEX MATCH "^([^=]+)=(.+)$" matched ${pair})
    set(guest ${CMAKE_MATCH_1})
    get_filename_component(file ${CMAKE_MATCH_2} ABSOLUTE)
    list(APPEND arguments --file ${guest}=${file})
  endforeach()
  foreach(pair ${TEST_LINKS})
    list(APPEND arguments --link ${pair})
  endforeach()
  if(TEST_DRIVER_IMAGE)
    list(APPEND arguments --driver-image ${TEST_DRIVER_IMAGE}=$<TARGET_FILE:pitcrew_nvidia_driver_program>)
  endif()
  if(TEST_MEMORY)
    list(APPEND arguments --memory ${TEST_MEMORY})
  endif()
  foreach(word ${TEST_KERNEL_OPTIONS})
    list(APPEND arguments --kernel-option ${word})
  endforeach()
  if(TEST_NO_IOMMU)
    list(APPEND arguments --no-iommu)
  endif()
  math(EXPR timeout "${TEST_DEADLINE} + 60")
  add_test(NAME kernel/${TEST_NAME}
           COMMAND ${Python3_EXECUTABLE} ${CMAKE_SOURCE_DIR}/tests/kernel/run.py ${arguments} -- sh /scenario)
  set_tests_properties(kernel/${TEST_NAME} PROPERTIES LABELS kernel TIMEOUT ${timeout}
                                                      ENVIRONMENT "PYTHONDONTWRITEBYTECODE=1")
endfunction()
