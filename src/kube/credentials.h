// Sources of credentials: files that rotate, programs that are asked.
#pragma once

#include <sys/stat.h>

#include <chrono>
#include <filesystem>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "base/clock.h"
#include "base/result.h"
#include "kube/config.h"
#include "kube/exec_plugin.h"

namespace pitcrew::kube {

// `problem` as the error of a call that could not even be sent: kUnavailable with the reason kept
// where it names a plugin, else "CredentialsUnreadable". That a token file, a certificate or a
// plugin is missing says nothing about any object of the cluster, so it must never reach a caller
// as kNotFound, nor as another code that an API server answers with. kCancelled stays.
base::Error CredentialProblem(base::Error problem);

// A small file whose content is kept, and read again when the file changes and at least every
// minute of use. While it cannot be read the last content stands. Thread-safe. Errors as those of
// CredentialProblem.
class RotatingFile {
 public:
  explicit RotatingFile(std::filesystem::path path) : path_(std::move(path)) {}

  base::Result<std::string> Content(base::SteadyClock::time_point now = base::SteadyClock::now());
  // Read again at the next use, whatever the file looks like.
  void Expire();

 private:
  std::filesystem::path path_;
  std::mutex mutex_;
  std::optional<std::string> content_;
  struct stat seen_{};
  base::SteadyClock::time_point read_at_;
};

// The parts of a kubeconfig user; those with a file are read through RotatingFile.
struct UserSettings {
  Credentials fixed{};
  std::filesystem::path token_file{};  // wins over fixed.bearer_token
  std::filesystem::path client_certificate_file{};
  std::filesystem::path client_key_file{};
  std::optional<ExecPlugin> exec{};
};

std::shared_ptr<CredentialSource> MakeCredentialSource(UserSettings settings);

}  // namespace pitcrew::kube
