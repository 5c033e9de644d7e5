#include "host/dxcore.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <memory>

#include "base/log.h"
#include "host/driver_root.h"
#include "host/dxcore_abi.h"

namespace pitcrew::host {
namespace {

using Adapters = std::vector<dxcore::AdapterInfo>;

constexpr std::uint32_t kOldestDriver = 2700;
constexpr std::uint32_t kMostAdapters = 1024;

base::Error Failed(std::string_view what) {
  return base::Unavailable("DxCoreFailed", fmt::format("{} does not {}", kDxCoreLibrary, what));
}

class Library {
 public:
  static base::Result<Library> Open(const std::filesystem::path& path) {
    Library library;
    library.handle_.reset(::dlopen(path.c_str(), RTLD_LAZY | RTLD_LOCAL));
    if (!library.handle_) {
      return base::Fail(base::NotFound(
          "WslNotFound", fmt::format("{} cannot be loaded: {}", path.string(), ::dlerror())));
    }
    if (!library.Function<dxcore::QueryAdapterInfoFunction>("D3DKMTQueryAdapterInfo") ||
        (!library.Function<dxcore::EnumAdapters3Function>("D3DKMTEnumAdapters3") &&
         !library.Function<dxcore::EnumAdapters2Function>("D3DKMTEnumAdapters2"))) {
      return base::Fail(base::Error{
          base::Code::kUnsupported, "DxCoreFunctionMissing",
          fmt::format("{} has no D3DKMTQueryAdapterInfo or no D3DKMTEnumAdapters2 and 3",
                      path.string())});
    }
    return library;
  }

  [[nodiscard]] base::Result<Adapters> ListAdapters() const {
    if (const auto list = Function<dxcore::EnumAdapters3Function>("D3DKMTEnumAdapters3")) {
      dxcore::EnumAdapters3 question{dxcore::kComputeToo, 0, nullptr};
      if (auto adapters = AskTwice(list, question)) return adapters;
    }
    const auto list = Function<dxcore::EnumAdapters2Function>("D3DKMTEnumAdapters2");
    dxcore::EnumAdapters2 question{0, nullptr};
    if (list == nullptr) return base::Fail(Failed("list the adapters"));
    return AskTwice(list, question);
  }

  [[nodiscard]] base::Result<std::string> ReadDriverStore(std::uint32_t adapter) const {
    std::uint32_t version = 0;
    TRY(Query(adapter, dxcore::kDriverVersion, &version, sizeof(version)));
    if (version < kOldestDriver) {
      return base::Fail({base::Code::kUnsupported, "OldDriver",
                         fmt::format("its driver is of WDDM {}.{}, older than 2.7", version / 1000,
                                     version % 1000 / 100)});
    }
    dxcore::RegistryInfo size{};
    size.type = dxcore::kDriverStorePath;
    TRY(Query(adapter, dxcore::kQueryRegistry, &size, sizeof(size)));
    if (size.output_bytes > dxcore::kLongestPath * sizeof(wchar_t)) {
      return base::Fail(Failed("tell a path of a sensible length"));
    }
    return ReadPath(adapter, size.output_bytes);
  }

 private:
  struct Close {
    void operator()(void* handle) const { ::dlclose(handle); }
  };

  template <class F>
  [[nodiscard]] F* Function(const char* name) const {
    return reinterpret_cast<F*>(::dlsym(handle_.get(), name));
  }

  // Once for their number, once for them.
  template <class F, class Question>
  static base::Result<Adapters> AskTwice(F* list, Question question) {
    if (list(&question) != 0 || question.count > kMostAdapters) {
      return base::Fail(Failed("count the adapters"));
    }
    Adapters adapters(question.count);
    question.adapters = adapters.data();
    if (list(&question) != 0) return base::Fail(Failed("list the adapters"));
    adapters.resize(std::min<std::size_t>(adapters.size(), question.count));
    return adapters;
  }

  [[nodiscard]] base::Status Query(std::uint32_t adapter, std::uint32_t type, void* data,
                                   std::size_t size) const {
    const auto query = Function<dxcore::QueryAdapterInfoFunction>("D3DKMTQueryAdapterInfo");
    dxcore::QueryAdapterInfo question{adapter, type, data, static_cast<std::uint32_t>(size)};
    if (query(&question) != 0) return base::Fail(Failed("tell of the adapter"));
    return {};
  }

  [[nodiscard]] base::Result<std::string> ReadPath(std::uint32_t adapter,
                                                   std::uint32_t bytes) const {
    const std::size_t all = sizeof(dxcore::RegistryInfo) + bytes;
    // Words of its alignment.
    std::vector<std::uint64_t> buffer(all / sizeof(std::uint64_t) + 1);
    auto* info = new (buffer.data()) dxcore::RegistryInfo{};
    info->type = dxcore::kDriverStorePath;
    info->output_bytes = bytes;
    TRY(Query(adapter, dxcore::kQueryRegistry, info, all));
    const char* text =
        reinterpret_cast<const char*>(buffer.data()) + offsetof(dxcore::RegistryInfo, output);
    std::string path;
    for (std::size_t i = 0; i < bytes / sizeof(wchar_t); ++i) {
      wchar_t letter = 0;
      std::memcpy(&letter, text + i * sizeof(wchar_t), sizeof(wchar_t));
      if (letter == 0) break;
      if (letter < 0x20 || letter > 0x7e) return base::Fail(Failed("tell a path in ASCII"));
      path += static_cast<char>(letter);
    }
    if (!path.starts_with('/')) return base::Fail(Failed("tell an absolute path"));
    return path;
  }

  std::unique_ptr<void, Close> handle_;
};

}  // namespace

base::Result<std::filesystem::path> FindDxCore(const Root& root) {
  if (auto found = root.Resolve(fmt::format("{}/{}", kWslLibraryFolder, kDxCoreLibrary)))
    return found;
  if (auto found = FindLibrary(root, kDxCoreLibrary)) return found;
  return base::Fail(base::NotFound(
      "WslNotFound", fmt::format("this is no Windows subsystem for Linux: there is no {} below {}",
                                 kDxCoreLibrary, root.path().string())));
}

base::Result<std::vector<std::string>> ReadDriverStores(const std::filesystem::path& library) {
  TRY_ASSIGN(const auto dxcore_library, Library::Open(library));
  TRY_ASSIGN(const auto adapters, dxcore_library.ListAdapters());
  std::vector<std::string> stores;
  for (const auto& adapter : adapters) {
    auto store = dxcore_library.ReadDriverStore(adapter.handle);
    if (!store) {
      base::LogWarning("A display adapter is passed over", store.error());
    } else if (std::ranges::find(stores, *store) == stores.end()) {
      stores.push_back(*std::move(store));
    }
  }
  return stores;
}

}  // namespace pitcrew::host
