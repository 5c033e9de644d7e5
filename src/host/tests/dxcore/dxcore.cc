// A libdxcore.so for the tests. Its adapters are in the variable FAKE_DXCORE: "<WDDM
// version>=<driver store>" with ";" between them; the store "-" is an adapter that does not answer.
#include <cstdlib>
#include <cstring>
#include <sstream>
#include <string>
#include <vector>

#include "host/dxcore_abi.h"

using namespace pitcrew::host::dxcore;  // NOLINT(google-build-using-namespace)

namespace {

struct Adapter {
  std::uint32_t version = 0;
  std::string store;
};

std::vector<Adapter> Adapters() {
  const char* text = std::getenv("FAKE_DXCORE");
  std::istringstream rest(text == nullptr ? "" : text);
  std::vector<Adapter> adapters;
  Adapter one;
  char equals = 0;
  while (rest >> one.version >> equals && std::getline(rest, one.store, ';')) {
    adapters.push_back(one);
  }
  return adapters;
}

template <class Question>
int List(Question* question) {
  const auto adapters = Adapters();
  for (std::size_t i = 0; question->adapters != nullptr && i < adapters.size(); ++i) {
    question->adapters[i] = {};
    question->adapters[i].handle = static_cast<std::uint32_t>(100 + i);
  }
  question->count = static_cast<std::uint32_t>(adapters.size());
  return 0;
}

// As long as the path, then the path: as the real one does.
int TellStore(const std::string& store, QueryAdapterInfo* question) {
  auto* info = static_cast<RegistryInfo*>(question->data);
  if (store == "-" || info->type != kDriverStorePath) return -1;
  const auto bytes = static_cast<std::uint32_t>(store.size() * sizeof(wchar_t));
  if (question->size < sizeof(RegistryInfo) + bytes) {
    info->output_bytes = bytes;
    return 0;
  }
  const std::wstring text(store.begin(), store.end());
  std::memcpy(&info->output, text.data(), bytes);
  return 0;
}

}  // namespace

extern "C" {

int D3DKMTEnumAdapters3(EnumAdapters3* question) {
  return std::getenv("FAKE_DXCORE_OLD") != nullptr || question->filter != kComputeToo
             ? -1
             : List(question);
}

int D3DKMTEnumAdapters2(EnumAdapters2* question) { return List(question); }

int D3DKMTQueryAdapterInfo(QueryAdapterInfo* question) {
  const auto adapters = Adapters();
  const std::size_t index = question->handle - 100;
  if (index >= adapters.size()) return -1;
  if (question->type == kQueryRegistry) return TellStore(adapters[index].store, question);
  if (question->type != kDriverVersion) return -1;
  *static_cast<std::uint32_t*>(question->data) = adapters[index].version;
  return 0;
}

}  // extern "C"
