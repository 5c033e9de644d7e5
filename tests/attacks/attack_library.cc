// What an attacker's image holds: a library that leaves its mark outside the container as soon as
// anything loads it, however it came to be loaded.
#include <fcntl.h>
#include <unistd.h>

#include <cstdlib>

namespace {

[[gnu::constructor]] void LeaveMark() {
  const char* path = std::getenv("ATTACK_MARK");
  if (path == nullptr) return;
  const int file = ::open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
  if (file >= 0) ::close(file);
}

}  // namespace

extern "C" {
int naive_dependency() { return 0; }
// With LD_AUDIT the loader asks for it.
unsigned la_version(unsigned version) {
  LeaveMark();
  return version;
}
}
