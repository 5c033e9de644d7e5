# Debian packages only: nothing is fetched at configure time. The reason for each stands in
# ARCHITECTURE.md, section "Dependencies".
find_package(PkgConfig REQUIRED)
find_package(Threads REQUIRED)
find_package(fmt REQUIRED)
find_package(nlohmann_json REQUIRED)
find_package(yaml-cpp REQUIRED)
find_package(CLI11 REQUIRED)
# Headers alone, of Boost.Beast: no library is linked.
find_path(PITCREW_BEAST boost/beast/http/basic_parser.hpp REQUIRED)
mark_as_advanced(PITCREW_BEAST)
find_package(OpenSSL REQUIRED)
find_package(Protobuf REQUIRED)
find_package(simdjson REQUIRED)
find_package(GTest REQUIRED)
find_package(tomlplusplus REQUIRED)
pkg_check_modules(GRPCPP REQUIRED IMPORTED_TARGET grpc++)
pkg_check_modules(HTTPLIB REQUIRED IMPORTED_TARGET cpp-httplib)
pkg_check_modules(NGHTTP2 REQUIRED IMPORTED_TARGET libnghttp2)
pkg_check_modules(LIBYAML REQUIRED IMPORTED_TARGET yaml-0.1)
pkg_check_modules(KMOD REQUIRED IMPORTED_TARGET libkmod)
pkg_check_modules(SYSTEMD REQUIRED IMPORTED_TARGET libsystemd)
pkg_check_modules(FUSE REQUIRED IMPORTED_TARGET fuse3)
# Its pkg-config file asks for a macro that would take the precompiled header away.
find_library(PITCREW_RE2 re2 REQUIRED)
mark_as_advanced(PITCREW_RE2)

# Abseil's time zones. Archives, for the reason that Grpc.cmake names.
add_library(pitcrew_time_zones INTERFACE)
foreach(name absl_time absl_civil_time absl_time_zone absl_strings absl_strings_internal absl_base
             absl_spinlock_wait absl_int128 absl_throw_delegate absl_raw_logging_internal absl_log_severity)
  find_library(PITCREW_ARCHIVE_${name} NAMES lib${name}.a REQUIRED)
  mark_as_advanced(PITCREW_ARCHIVE_${name})
  target_link_libraries(pitcrew_time_zones INTERFACE ${PITCREW_ARCHIVE_${name}})
endforeach()
