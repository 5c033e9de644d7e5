// A deliberately careless double of nvidia-cdi-hook: the same command line, each step done the way
// that the published escapes need. The attacks must succeed against it, else they prove nothing.
#include <fcntl.h>
#include <fnmatch.h>
#include <linux/capability.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

extern "C" int naive_dependency();

namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;
using Words = std::vector<std::string>;

// Whether a path is looked at before it is used: right at that moment, and by name.
bool check_first = false;

std::string ReadAll(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

std::string ReadState(const std::string& file) {
  if (!file.empty()) return ReadAll(file);
  return {std::istreambuf_iterator<char>(std::cin), std::istreambuf_iterator<char>()};
}

std::string RootOf(const std::string& text) {
  const Json state = Json::parse(text);
  std::string root = state.value("root", "");
  if (root.empty()) {
    root =
        Json::parse(ReadAll(state.value("bundle", "") + "/config.json"))["root"].value("path", "");
  }
  if (!root.starts_with('/')) root = state.value("bundle", "") + "/" + root;
  if (root == "/") std::exit(1);
  return root;
}

// By name, links and all.
std::string In(const std::string& root, const std::string& path) {
  std::string full = root + "/" + path;
  if (!check_first) return full;
  std::error_code ignored;
  const auto folder = fs::weakly_canonical(fs::path(full).parent_path(), ignored).string();
  if (!folder.starts_with(fs::canonical(root, ignored).string())) std::exit(1);
  return full;
}

void Write(const std::string& path, const std::string& text) {
  std::error_code ignored;
  fs::create_directories(fs::path(path).parent_path(), ignored);
  std::ofstream(path) << text;
}

void MakeLink(const std::string& root, const std::string& argument) {
  const auto at = argument.find("::");
  const std::string link = In(root, argument.substr(at + 2));
  std::error_code ignored;
  fs::create_directories(fs::path(link).parent_path(), ignored);
  ::unlink(link.c_str());
  if (::symlink(argument.substr(0, at).c_str(), link.c_str()) != 0) std::perror(link.c_str());
}

// As deep as the files say, as often as they say.
void ReadConf(const std::string& root, const std::string& path, Words& folders) {
  std::istringstream lines(ReadAll(In(root, path)));
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with("include ")) {
      folders.push_back(line);
      continue;
    }
    const fs::path pattern = line.substr(8);
    Words names;
    std::error_code ignored;
    for (const auto& entry : fs::directory_iterator(In(root, pattern.parent_path()), ignored)) {
      names.push_back(entry.path().filename());
    }
    for (const auto& name : names) {
      if (::fnmatch(pattern.filename().c_str(), name.c_str(), 0) == 0) {
        ReadConf(root, (pattern.parent_path() / name).string(), folders);
      }
    }
  }
}

// The cache's own word for where its names are and how many there are.
std::size_t ReadCache(const std::string& path) {
  const int file = ::open(path.c_str(), O_RDONLY);
  struct stat info{};
  if (file < 0 || ::fstat(file, &info) != 0) return 0;
  if (!S_ISREG(info.st_mode)) {
    // A device or pipe cannot be mapped: all of it, then.
    std::string all;
    char buffer[65536];
    for (ssize_t count = 0; (count = ::read(file, buffer, sizeof(buffer))) > 0;)
      all.append(buffer, count);
    return all.size();
  }
  if (info.st_size < 48) return 0;
  const auto* bytes =
      static_cast<const char*>(::mmap(nullptr, info.st_size, PROT_READ, MAP_PRIVATE, file, 0));
  if (std::memcmp(bytes, "glibc-ld.so.cache1.1", 20) != 0) return 0;
  std::uint32_t count = 0;
  std::memcpy(&count, bytes + 20, 4);
  std::size_t length = 0;
  for (std::uint64_t i = 0; i < count; ++i) {
    std::uint32_t name_at = 0;
    std::memcpy(&name_at, bytes + 48 + i * 24 + 4, 4);
    length += std::strlen(bytes + name_at);
  }
  return length;
}

// The image's own program, for what it knows best; in the namespaces that the hook is in.
void RunLdconfig(const std::string& root) {
  const pid_t child = ::fork();
  if (child == 0) {
    if (::chroot(root.c_str()) == 0 && ::chdir("/") == 0) {
      ::execl("/sbin/ldconfig", "ldconfig", static_cast<char*>(nullptr));
    }
    ::_exit(127);
  }
  ::waitpid(child, nullptr, 0);
}

void UpdateCache(const std::string& root, const Words& folders) {
  const std::string conf = In(root, "/etc/ld.so.conf.d/00-nvcr-naive.conf");
  Words known;
  ReadConf(root, "/etc/ld.so.conf", known);
  const std::size_t length = ReadCache(root + "/etc/ld.so.cache");
  std::string text;
  for (const auto& folder : folders) text += folder + "\n";
  if (fs::exists(root + "/etc/alpine-release")) {
    const std::string path = root + "/etc/ld-musl-x86_64.path";
    const std::string before = ReadAll(path);
    ::unlink(path.c_str());
    Write(path, before + text);
  }
  Write(conf, text);
  Write(In(root, "/etc/ld.so.cache"), std::to_string(length));
  if (fs::exists(root + "/sbin/ldconfig")) RunLdconfig(root);
}

// What the first advisories were about: the library behind the link is put where the container's
// loader finds it.
void UseCompat(const std::string& root, std::string folder) {
  if (folder.empty()) folder = "/usr/local/cuda/compat";
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(In(root, folder), ignored)) {
    if (::fnmatch("libcuda.so.*.*", entry.path().filename().c_str(), 0) != 0) continue;
    Write(root + "/usr/lib/" + entry.path().filename().string(), ReadAll(entry.path()));
  }
  Write(In(root, "/etc/ld.so.conf.d/00-compat-naive.conf"), folder + "\n");
}

void CoverParameters(const std::string& root) {
  if (!fs::exists("/proc/driver/nvidia/params")) return;
  const std::string file = In(root, "/run/params");
  Write(file, "ModifyDeviceFiles: 0\n");
  const std::string target = In(root, "/proc/driver/nvidia/params");
  if (::mount(file.c_str(), target.c_str(), nullptr, MS_BIND, nullptr) != 0)
    std::perror(target.c_str());
}

// CAP_DAC_OVERRIDE and CAP_FOWNER only, and nothing else changed.
void LowerCapabilities() {
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  __user_cap_data_struct sets[2]{};
  sets[0].permitted = sets[0].effective = 1U << CAP_DAC_OVERRIDE | 1U << CAP_FOWNER;
  ::syscall(SYS_capset, &header, sets);
}

// A configuration file that the environment names, and the log that it names.
void ReadConfiguration() {
  const char* path = std::getenv("NVIDIA_CTK_CONFIG_FILE_PATH");
  if (path == nullptr) return;
  const std::string text = ReadAll(path);
  const auto at = text.find("debug = \"");
  if (at == std::string::npos) return;
  std::ofstream(text.substr(at + 9, text.find('"', at + 9) - at - 9), std::ios::app) << "started\n";
}

}  // namespace

int main(int argc, char** argv) {
  Words words(argv + 1, argv + argc);
  for (; !words.empty() && words.front().starts_with("--"); words.erase(words.begin())) {
    if (words.front() == "--check-first") check_first = true;
    if (words.front() == "--lower-capabilities") LowerCapabilities();
  }
  if (words.empty()) return naive_dependency();
  const std::string hook = words.front();
  std::vector<std::pair<std::string, std::string>> flags;
  for (std::size_t i = 1; i < words.size(); ++i) {
    const auto equals = words[i].find('=');
    if (equals != std::string::npos) {
      flags.emplace_back(words[i].substr(2, equals - 2), words[i].substr(equals + 1));
    } else if (i + 1 < words.size()) {
      flags.emplace_back(words[i].substr(2), words[i + 1]);
      ++i;
    }
  }
  const auto all = [&](const std::string& name) {
    Words found;
    for (const auto& [flag, value] : flags) {
      if (flag == name) found.push_back(value);
    }
    return found;
  };
  const auto last = [&](const std::string& name) {
    const auto found = all(name);
    return found.empty() ? std::string() : found.back();
  };
  ReadConfiguration();
  const std::string root = RootOf(ReadState(last("container-spec")));
  if (hook == "create-symlinks") {
    for (const auto& link : all("link")) MakeLink(root, link);
  } else if (hook == "update-ldcache") {
    UpdateCache(root, all("folder"));
  } else if (hook == "enable-cuda-compat") {
    UseCompat(root, last("cuda-compat-container-root"));
  } else if (hook == "chmod") {
    for (const auto& path : all("path")) {
      ::chmod(In(root, path).c_str(), static_cast<mode_t>(std::stoul(last("mode"), nullptr, 8)));
    }
  } else if (hook == "update-application-profile") {
    Write(In(root, "/etc/nvidia/nvidia-application-profiles-rc.d/10-container.conf"), "{}");
  } else if (hook == "disable-device-node-modification") {
    CoverParameters(root);
  }
  return 0;
}
