# Cross-compiling for arm64 (GH200 and GB200 nodes) with Debian's crossbuild compiler. Headers and libraries are
# Debian's arm64 packages in a folder of their own (tools/sysroot.py): nothing of this machine's is found by mistake.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_C_COMPILER aarch64-linux-gnu-gcc-12)
set(CMAKE_CXX_COMPILER aarch64-linux-gnu-g++-12)
set(CMAKE_LIBRARY_ARCHITECTURE aarch64-linux-gnu)
# For deploy/image/build.py, which makes the image of what is built here.
set(PITCREW_ARCHITECTURE arm64 CACHE STRING "Architecture of the images" FORCE)

if(NOT DEFINED PITCREW_SYSROOT)
  if(DEFINED ENV{PITCREW_CACHE})
    set(cache $ENV{PITCREW_CACHE})
  elseif(DEFINED ENV{XDG_CACHE_HOME})
    set(cache $ENV{XDG_CACHE_HOME}/pitcrew)
  else()
    set(cache $ENV{HOME}/.cache/pitcrew)
  endif()
  set(PITCREW_SYSROOT ${cache}/sysroot/arm64)
endif()
set(PITCREW_SYSROOT ${PITCREW_SYSROOT} CACHE PATH "Debian's arm64 packages, unpacked")
list(APPEND CMAKE_TRY_COMPILE_PLATFORM_VARIABLES PITCREW_SYSROOT)
if(NOT IS_DIRECTORY ${PITCREW_SYSROOT}/usr/include)
  message(FATAL_ERROR "${PITCREW_SYSROOT} is not there; `tools/setup.sh release` makes it")
endif()
set(CMAKE_SYSROOT ${PITCREW_SYSROOT})

# Programs (protoc, the compiler's cache) are this machine's.
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE ONLY)
set(ENV{PKG_CONFIG_DIR} "")
set(ENV{PKG_CONFIG_SYSROOT_DIR} ${PITCREW_SYSROOT})
set(ENV{PKG_CONFIG_LIBDIR}
    ${PITCREW_SYSROOT}/usr/lib/aarch64-linux-gnu/pkgconfig:${PITCREW_SYSROOT}/usr/share/pkgconfig)
