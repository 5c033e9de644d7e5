// watch_attribute FOLDER NAME: says "watching", and ends with 0 when somebody has changed the file
// of this name in the folder, with 1 when it cannot know.
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>

#include "io/file_watcher.h"
#include "io/stop.h"

namespace {

using namespace pitcrew;

base::Status Watch(const char* folder, const char* name) {
  TRY_ASSIGN(auto watcher, io::FileWatcher::Create());
  TRY(watcher.Watch(folder));
  std::puts("watching");
  std::fflush(stdout);
  while (true) {
    TRY(io::WaitReadable({watcher.fd()}, {}, {}));
    TRY_ASSIGN(const auto changes, watcher.Take());
    if (std::ranges::find(changes, name, &io::FileChange::name) != changes.end()) return {};
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  const auto seen = Watch(argv[1], argv[2]);
  if (!seen) fmt::print(stderr, "{}\n", seen.error().ToString());
  return seen ? 0 : 1;
}
