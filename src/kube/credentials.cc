#include "kube/credentials.h"

#include <utility>

#include "base/file.h"
#include "base/strings.h"

namespace pitcrew::kube {
namespace {

constexpr std::chrono::minutes kReadAgainAfter{1};
constexpr std::chrono::seconds kPluginTimeout{60};

bool SameFile(const struct stat& a, const struct stat& b) {
  return a.st_dev == b.st_dev && a.st_ino == b.st_ino && a.st_size == b.st_size &&
         a.st_mtim.tv_sec == b.st_mtim.tv_sec && a.st_mtim.tv_nsec == b.st_mtim.tv_nsec;
}

class FixedSource final : public CredentialSource {
 public:
  explicit FixedSource(Credentials credentials) : credentials_(std::move(credentials)) {}
  base::Result<Credentials> Current(const io::StopToken& /*stop*/) override { return credentials_; }

 private:
  const Credentials credentials_;
};

class UserSource final : public CredentialSource {
 public:
  explicit UserSource(UserSettings settings)
      : settings_(std::move(settings)),
        token_(settings_.token_file),
        certificate_(settings_.client_certificate_file),
        key_(settings_.client_key_file) {}

  base::Result<Credentials> Current(const io::StopToken& stop) override {
    Credentials result = settings_.fixed;
    if (!settings_.token_file.empty()) {
      TRY_ASSIGN(const auto token, token_.Content());
      result.bearer_token = base::Trim(token);
    }
    if (!settings_.client_certificate_file.empty()) {
      TRY_ASSIGN(result.client_certificate_pem, certificate_.Content());
    }
    if (!settings_.client_key_file.empty()) {
      TRY_ASSIGN(result.client_key_pem, key_.Content());
    }
    if (settings_.exec) TRY(AddFromPlugin(result, stop));
    return result;
  }

  void Reject() override {
    token_.Expire();
    certificate_.Expire();
    key_.Expire();
    const std::scoped_lock lock(mutex_);
    granted_.reset();
  }

 private:
  base::Status AddFromPlugin(Credentials& result, const io::StopToken& stop) {
    // Callers that come meanwhile wait for this one run of the program.
    const std::scoped_lock lock(mutex_);
    const bool expired =
        granted_ && granted_->expires && *granted_->expires <= base::WallClock::now();
    if (!granted_ || expired) {
      auto granted = RunExecPlugin(*settings_.exec, kPluginTimeout, stop);
      if (!granted) return base::Fail(CredentialProblem(std::move(granted).error()));
      granted_ = *std::move(granted);
    }
    const Credentials& granted = granted_->credentials;
    if (!granted.bearer_token.empty()) result.bearer_token = granted.bearer_token;
    if (!granted.client_certificate_pem.empty()) {
      result.client_certificate_pem = granted.client_certificate_pem;
      result.client_key_pem = granted.client_key_pem;
    }
    return {};
  }

  const UserSettings settings_;
  RotatingFile token_;
  RotatingFile certificate_;
  RotatingFile key_;
  std::mutex mutex_;
  std::optional<ExecCredential> granted_;
};

}  // namespace

base::Error CredentialProblem(base::Error problem) {
  if (problem.code == base::Code::kCancelled) return problem;
  problem.code = base::Code::kUnavailable;
  if (!problem.reason.starts_with("ExecPlugin")) problem.reason = "CredentialsUnreadable";
  return problem;
}

base::Result<std::string> RotatingFile::Content(base::SteadyClock::time_point now) {
  const std::scoped_lock lock(mutex_);
  struct stat status{};
  const bool there = ::stat(path_.c_str(), &status) == 0;
  const bool fresh = content_ && now - read_at_ < kReadAgainAfter;
  if (fresh && (!there || SameFile(status, seen_))) return *content_;
  auto content = base::ReadFile(path_);
  if (content) {
    content_ = *std::move(content);
    seen_ = status;
    read_at_ = now;
  } else if (!content_) {
    return base::Fail(CredentialProblem(std::move(content).error()));
  }
  return *content_;
}

void RotatingFile::Expire() {
  const std::scoped_lock lock(mutex_);
  seen_ = {};
}

std::shared_ptr<CredentialSource> StaticCredentials(Credentials credentials) {
  return std::make_shared<FixedSource>(std::move(credentials));
}

std::shared_ptr<CredentialSource> MakeCredentialSource(UserSettings settings) {
  const bool changes = !settings.token_file.empty() || !settings.client_certificate_file.empty() ||
                       !settings.client_key_file.empty() || settings.exec;
  if (!changes) return StaticCredentials(std::move(settings.fixed));
  return std::make_shared<UserSource>(std::move(settings));
}

}  // namespace pitcrew::kube
