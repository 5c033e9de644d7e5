# gRPC for the kubelet's unix sockets: the archives without TLS, linked statically where Debian has
# them. The multi-call binary then loads none of gRPC's and Abseil's forty shared libraries when it
# starts, for any of its commands, and gc-sections drops what no command uses.
find_program(PITCREW_PROTOC protoc REQUIRED)
find_program(PITCREW_GRPC_PLUGIN grpc_cpp_plugin REQUIRED)

# Everything else that pkg-config names is part of libc.
set(PITCREW_GRPC_SHARED "^(dl|rt|m|pthread|atomic)$")

set(archives "")
set(shared "")
# grpc++_unsecure.pc does not name what it needs, grpc++.pc does: the same without OpenSSL.
set(names ${GRPCPP_STATIC_LIBRARIES})
list(TRANSFORM names REPLACE "^(grpc|grpc\\+\\+)$" "\\1_unsecure")
list(REMOVE_ITEM names ssl crypto)
list(REMOVE_DUPLICATES names)
foreach(name ${names})
  if(name MATCHES ${PITCREW_GRPC_SHARED})
    list(APPEND shared ${name})
    continue()
  endif()
  find_library(PITCREW_ARCHIVE_${name} NAMES lib${name}.a)
  mark_as_advanced(PITCREW_ARCHIVE_${name})
  if(PITCREW_ARCHIVE_${name})
    list(APPEND archives ${PITCREW_ARCHIVE_${name}})
  else()
    list(APPEND shared ${name})
  endif()
endforeach()
find_library(PITCREW_ARCHIVE_protobuf_lite NAMES libprotobuf-lite.a protobuf-lite REQUIRED)

add_library(pitcrew_grpc INTERFACE)
target_link_libraries(pitcrew_grpc INTERFACE -Wl,--start-group ${archives}
                      ${PITCREW_ARCHIVE_protobuf_lite} -Wl,--end-group ${shared} Threads::Threads)
target_compile_definitions(pitcrew_grpc INTERFACE GRPC_USE_PROTO_LITE)

# pitcrew_grpc_sources(target file.proto): compiles the messages and the service of a .proto into
# `target`; its sources include them as "file.pb.h" and "file.grpc.pb.h".
function(pitcrew_grpc_sources target proto)
  get_filename_component(name ${proto} NAME_WE)
  set(folder ${CMAKE_CURRENT_BINARY_DIR}/generated)
  set(source ${CMAKE_CURRENT_SOURCE_DIR}/${proto})
  set(sources ${folder}/${name}.pb.cc ${folder}/${name}.grpc.pb.cc)
  file(MAKE_DIRECTORY ${folder})
  add_custom_command(
    OUTPUT ${sources} ${folder}/${name}.pb.h ${folder}/${name}.grpc.pb.h
    COMMAND ${PITCREW_PROTOC} --proto_path=${CMAKE_CURRENT_SOURCE_DIR} --cpp_out=${folder}
            --grpc_out=${folder} --plugin=protoc-gen-grpc=${PITCREW_GRPC_PLUGIN} ${proto}
    DEPENDS ${source} WORKING_DIRECTORY ${CMAKE_CURRENT_SOURCE_DIR} VERBATIM)
  target_sources(${target} PRIVATE ${sources})
  # What `make lint` needs of a build.
  if(NOT TARGET generated_headers)
    add_custom_target(generated_headers)
  endif()
  add_custom_target(${target}_${name}_headers DEPENDS ${folder}/${name}.pb.h ${folder}/${name}.grpc.pb.h)
  add_dependencies(generated_headers ${target}_${name}_headers)
  # Generated code keeps its own rules about warnings.
  set_source_files_properties(${sources} PROPERTIES COMPILE_OPTIONS -w)
  target_include_directories(${target} SYSTEM PRIVATE ${folder})
endfunction()
