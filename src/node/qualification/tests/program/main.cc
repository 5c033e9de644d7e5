// The command alone, for tests: what it starts for each GPU is itself, with the words of the
// multi-call program in front.
#include <string_view>

#include "node/qualification/command.h"

int main(int argc, char** argv) {
  const bool is_helper = argc > 2 && std::string_view(argv[1]) == "validator" &&
                         std::string_view(argv[2]) == "qualify";
  const int words = is_helper ? 2 : 0;
  return pitcrew::node::qualification::Command(argc - words, argv + words);
}
