// What the C++ runtime inside each library holds is given back when the library is unloaded: users
// of NVML load and unload it again and again (feature-discovery.md section 11, "Shutdown").
namespace __gnu_cxx {
void __freeres();  // frees the pool for exceptions without memory; part of libstdc++
}

namespace {

[[gnu::destructor]] void FreeRuntime() { __gnu_cxx::__freeres(); }

}  // namespace
