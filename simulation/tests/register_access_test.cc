// Instructions that read and write registers: the bytes are an assembler's (GNU as), the meaning is
// what was assembled.
#include "simulation/sysfs/register_access.h"

#include <gtest/gtest.h>

#include <vector>

namespace pitcrew::simulation::sysfs {
namespace {

struct Move {
  const char* text;
  std::vector<std::uint8_t> code;
  bool is_write;
  unsigned general_register;  // rax 0, rcx 1, rdx 2, rbx 3, rsp 4, rbp 5, rsi 6, rdi 7, r8 8 ...
  std::optional<std::uint32_t> value;
};

TEST(RegisterAccess, MovesOf32Bits) {
  const std::vector<Move> moves = {
      {"mov eax, [rdx]", {0x8b, 0x02}, false, 0, {}},
      {"mov r9d, [rbx+rcx*4+0x10]", {0x44, 0x8b, 0x4c, 0x8b, 0x10}, false, 9, {}},
      {"mov edi, [rsp+0x8]", {0x8b, 0x7c, 0x24, 0x08}, false, 7, {}},
      {"mov ecx, [rip+0x1234]", {0x8b, 0x0d, 0x34, 0x12, 0x00, 0x00}, false, 1, {}},
      {"mov [rsi+0x8f2c10], r12d", {0x44, 0x89, 0xa6, 0x10, 0x2c, 0x8f, 0x00}, true, 12, {}},
      {"mov [rbp*8+0x1000], ebx", {0x89, 0x1c, 0xed, 0x00, 0x10, 0x00, 0x00}, true, 3, {}},
      {"mov dword ptr [rax], 0x01000001",
       {0xc7, 0x00, 0x01, 0x00, 0x00, 0x01},
       true,
       0,
       0x01000001},
      {"mov dword ptr [r13+0x4], 0x26",
       {0x41, 0xc7, 0x45, 0x04, 0x26, 0x00, 0x00, 0x00},
       true,
       0,
       0x26}};
  for (const auto& move : moves) {
    auto code = move.code;
    // What is next in memory is not part of it.
    code.insert(code.end(), {0x8b, 0x02, 0xff, 0xff});
    const auto access = DecodeAccess(code);
    ASSERT_TRUE(access) << move.text;
    EXPECT_EQ(access->length, move.code.size()) << move.text;
    EXPECT_EQ(access->is_write, move.is_write) << move.text;
    EXPECT_EQ(access->value, move.value) << move.text;
    if (move.value) continue;
    EXPECT_EQ(access->general_register, move.general_register) << move.text;
  }
}

TEST(RegisterAccess, OthersAreNotGuessedAt) {
  const std::vector<std::pair<const char*, std::vector<std::uint8_t>>> others = {
      {"mov rax, [rdx]: 64 bits", {0x48, 0x8b, 0x02}},
      {"mov eax, edx: no memory", {0x89, 0xd0}},
      {"cmp dword ptr [rax], 5", {0x83, 0x38, 0x05}},
      {"the end of what can be read", {0xc7, 0x00, 0x01, 0x00}},
      {"one byte", {0x8b}},
      {"nothing", {}}};
  for (const auto& [text, code] : others) EXPECT_FALSE(DecodeAccess(code)) << text;
}

}  // namespace
}  // namespace pitcrew::simulation::sysfs
