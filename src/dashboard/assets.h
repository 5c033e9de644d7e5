// The files of the page, which are part of the program: nothing is fetched from anywhere else.
#pragma once

#include <span>
#include <string_view>

namespace pitcrew::dashboard {

struct Asset {
  std::string_view path;  // "/main.js"
  std::string_view content_type;
  std::string_view text;
};

// Those of the folder page/, sorted by path; made by embed_page.cmake.
std::span<const Asset> Assets();

}  // namespace pitcrew::dashboard
