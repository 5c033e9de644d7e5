#include "kube/exec_plugin.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdlib>

#include "base/child_process.h"
#include "base/file_descriptor.h"
#include "base/strings.h"
#include "codec/json.h"

extern char** environ;

namespace pitcrew::kube {
namespace {

using base::FileDescriptor;
using codec::Json;

constexpr std::size_t kLongestOutput = 1U << 20U;

std::string ExecInfo(const ExecPlugin& plugin) {
  Json info{{"apiVersion", plugin.api_version},
            {"kind", "ExecCredential"},
            {"spec", {{"interactive", false}}}};
  if (!plugin.cluster_info.empty()) {
    if (auto cluster = codec::ParseJson(plugin.cluster_info)) {
      info["spec"]["cluster"] = *std::move(cluster);
    }
  }
  return codec::ToJsonText(info);
}

std::vector<std::string> Environment(const ExecPlugin& plugin) {
  std::vector<std::string> result;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    if (!std::string_view(*entry).starts_with("KUBERNETES_EXEC_INFO=")) result.emplace_back(*entry);
  }
  for (const auto& [name, value] : plugin.environment) {
    std::erase_if(result, [&](const std::string& entry) { return entry.starts_with(name + "="); });
    result.push_back(name + "=" + value);
  }
  result.push_back("KUBERNETES_EXEC_INFO=" + ExecInfo(plugin));
  return result;
}

std::vector<char*> Pointers(std::vector<std::string>& texts) {
  std::vector<char*> result;
  for (std::string& text : texts) result.push_back(text.data());
  result.push_back(nullptr);
  return result;
}

struct Pipe {
  FileDescriptor read;
  FileDescriptor write;
};

base::Result<Pipe> MakePipe() {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0)
    return base::Fail(base::FromErrno(errno, "make a pipe"));
  return Pipe{FileDescriptor(ends[0]), FileDescriptor(ends[1])};
}

base::Result<pid_t> Spawn(const ExecPlugin& plugin, int out, int err) {
  std::vector<std::string> arguments{plugin.command};
  arguments.insert(arguments.end(), plugin.arguments.begin(), plugin.arguments.end());
  std::vector<std::string> environment = Environment(plugin);
  posix_spawn_file_actions_t files;
  posix_spawn_file_actions_init(&files);
  posix_spawn_file_actions_addopen(&files, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&files, out, STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&files, err, STDERR_FILENO);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  sigset_t none;
  sigemptyset(&none);
  sigset_t all;
  sigfillset(&all);
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setsigdefault(&attributes, &all);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
  pid_t pid = 0;
  const int problem = ::posix_spawnp(&pid, plugin.command.c_str(), &files, &attributes,
                                     Pointers(arguments).data(), Pointers(environment).data());
  posix_spawn_file_actions_destroy(&files);
  posix_spawnattr_destroy(&attributes);
  if (problem == ENOENT) {
    return base::Fail(base::Unavailable(
        "ExecPluginMissing",
        fmt::format("credential plugin \"{}\" is not installed{}{}", plugin.command,
                    plugin.install_hint.empty() ? "" : ": ", plugin.install_hint)));
  }
  if (problem != 0) {
    return base::Fail(base::FromErrno(problem, fmt::format("start \"{}\"", plugin.command)));
  }
  return pid;
}

// False at the end of the pipe.
bool ReadSome(FileDescriptor& pipe, std::string& text) {
  std::array<char, 4096> buffer{};
  const ssize_t count = ::read(pipe.get(), buffer.data(), buffer.size());
  if (count < 0 && errno == EINTR) return true;
  if (count <= 0) return false;
  if (text.size() < kLongestOutput) text.append(buffer.data(), static_cast<std::size_t>(count));
  return true;
}

base::Error Failed(const ExecPlugin& plugin, std::string_view how, const std::string& errors) {
  const std::string tail(
      base::Trim(errors.size() > 500 ? errors.substr(errors.size() - 500) : errors));
  return base::Unavailable("ExecPluginFailed",
                           fmt::format("credential plugin \"{}\" {}{}{}", plugin.command, how,
                                       tail.empty() ? "" : ": ", tail));
}

base::Status Decode(const Json& status, const ExecPlugin& plugin, ExecCredential& result) {
  Credentials& credentials = result.credentials;
  credentials.bearer_token = codec::FindString(status, {"token"});
  credentials.client_certificate_pem = codec::FindString(status, {"clientCertificateData"});
  credentials.client_key_pem = codec::FindString(status, {"clientKeyData"});
  const auto wrong = [&](std::string_view what) {
    return base::Fail(base::Invalid(
        "ExecPluginOutput", fmt::format("credential plugin \"{}\": {}", plugin.command, what)));
  };
  if (credentials.client_certificate_pem.empty() != credentials.client_key_pem.empty()) {
    return wrong("clientCertificateData and clientKeyData must come together");
  }
  if (credentials.bearer_token.empty() && credentials.client_certificate_pem.empty()) {
    return wrong("status has neither a token nor a client certificate");
  }
  if (const auto text = codec::FindString(status, {"expirationTimestamp"}); !text.empty()) {
    const auto time = base::ParseRfc3339(text);
    if (!time) return wrong(fmt::format("expirationTimestamp: {}", time.error().message));
    result.expires = *time;
  }
  return {};
}

}  // namespace

base::Result<ExecCredential> ParseExecCredential(std::string_view output,
                                                 const ExecPlugin& plugin) {
  const auto wrong = [&](std::string_view what) {
    return base::Fail(base::Invalid(
        "ExecPluginOutput", fmt::format("credential plugin \"{}\": {}", plugin.command, what)));
  };
  const auto value = codec::ParseJson(output, "its output");
  if (!value) return wrong(value.error().message);
  if (codec::FindString(*value, {"kind"}) != "ExecCredential") {
    return wrong("its output is not an ExecCredential object");
  }
  if (const auto version = codec::FindString(*value, {"apiVersion"});
      version != plugin.api_version) {
    return wrong(fmt::format("it answered with apiVersion {}, the kubeconfig asks for {}", version,
                             plugin.api_version));
  }
  const Json* status = codec::Find(*value, {"status"});
  if (status == nullptr || !status->is_object()) return wrong("its output has no status");
  ExecCredential result;
  TRY(Decode(*status, plugin, result));
  return result;
}

base::Result<ExecCredential> RunExecPlugin(const ExecPlugin& plugin,
                                           std::chrono::milliseconds timeout,
                                           const io::StopToken& stop) {
  TRY_ASSIGN(Pipe out, MakePipe());
  TRY_ASSIGN(Pipe err, MakePipe());
  TRY_ASSIGN(const pid_t pid, Spawn(plugin, out.write.get(), err.write.get()));
  TRY_ASSIGN(base::ChildProcess child, base::ChildProcess::Watch(pid));
  out.write.Close();
  err.write.Close();
  const auto deadline = std::chrono::steady_clock::now() + timeout;
  std::string output;
  std::string errors;
  // Both pipes end at the latest when the program does, unless it leaves others behind that hold
  // them: its own end counts.
  bool ended = false;
  while (!ended || out.read.valid()) {
    const auto ready = io::WaitReadable({out.read.get(), err.read.get(), ended ? -1 : child.fd()},
                                        stop, ended ? std::chrono::steady_clock::now() : deadline);
    if (!ready) {
      if (ended) break;
      if (ready.error().code != base::Code::kTimeout) return base::Fail(ready.error());
      return base::Fail(
          Failed(plugin, fmt::format("gave no answer within {} ms", timeout.count()), errors));
    }
    if (*ready == 0 && !ReadSome(out.read, output)) out.read.Close();
    if (*ready == 1 && !ReadSome(err.read, errors)) err.read.Close();
    if (*ready == 2) ended = true;
  }
  const int status = child.Reap();
  if (WIFSIGNALED(status)) {
    return base::Fail(
        Failed(plugin, fmt::format("was ended by signal {}", WTERMSIG(status)), errors));
  }
  if (WEXITSTATUS(status) != 0) {
    return base::Fail(
        Failed(plugin, fmt::format("ended with status {}", WEXITSTATUS(status)), errors));
  }
  return ParseExecCredential(output, plugin);
}

}  // namespace pitcrew::kube
