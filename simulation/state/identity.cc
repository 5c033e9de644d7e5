#include "simulation/state/identity.h"

#include <cstdio>

namespace pitcrew::simulation {
namespace {

// FNV-1a followed by the finaliser of SplitMix64, which spreads short texts over all bits.
std::uint64_t Mix(std::string_view text, std::uint64_t seed) {
  std::uint64_t hash = 14695981039346656037ull ^ seed;
  for (const unsigned char byte : text) hash = (hash ^ byte) * 1099511628211ull;
  hash ^= hash >> 30;
  hash *= 0xbf58476d1ce4e5b9ull;
  hash ^= hash >> 27;
  hash *= 0x94d049bb133111ebull;
  return hash ^ (hash >> 31);
}

}  // namespace

std::string NamedUuid(std::string_view text) {
  std::uint64_t high = Mix(text, 0);
  std::uint64_t low = Mix(text, 0x9e3779b97f4a7c15ull);
  high = (high & ~0xf000ull) | 0x5000ull;
  low = (low & ~(3ull << 62)) | (2ull << 62);
  char uuid[37];
  std::snprintf(uuid, sizeof(uuid), "%08llx-%04llx-%04llx-%04llx-%012llx",
                static_cast<unsigned long long>(high >> 32),
                static_cast<unsigned long long>(high >> 16 & 0xffff),
                static_cast<unsigned long long>(high & 0xffff),
                static_cast<unsigned long long>(low >> 48),
                static_cast<unsigned long long>(low & 0xffffffffffffull));
  return uuid;
}

std::uint32_t NamedNumber(std::string_view text) {
  return static_cast<std::uint32_t>(Mix(text, 11));
}

std::string NamedSerial(std::string_view text) {
  char serial[24];
  std::snprintf(serial, sizeof(serial), "16%011llu",
                static_cast<unsigned long long>(Mix(text, 7) % 100'000'000'000ull));
  return serial;
}

}  // namespace pitcrew::simulation
