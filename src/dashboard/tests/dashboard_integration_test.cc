// The page's server over a real kube-apiserver: what changes there reaches the stream, nobody holds
// memory, and what may not be read is said.
#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <thread>

#include "apiserver/api_server.h"
#include "base/file.h"
#include "base/file_descriptor.h"
#include "codec/yaml.h"
#include "dashboard/fleet_source.h"
#include "dashboard/site.h"
#include "doctor/source.h"
#include "io/http_client.h"
#include "tests/support/folders.h"
#include "tests/support/patience.h"

namespace pitcrew::dashboard {
namespace {

using codec::Json;
using pitcrew::testing::ApiServer;
using ::testing::HasSubstr;

constexpr kube::WriteOptions kWriter{.field_manager = "test", .subresource = {}};
constexpr kube::WriteOptions kStatusWriter{.field_manager = "test", .subresource = "status"};
constexpr const char* kToken = "secret";

Json GpuNode(const std::string& name) {
  return {{"apiVersion", "v1"},
          {"kind", "Node"},
          {"metadata",
           {{"name", name},
            {"labels",
             {{"feature.node.kubernetes.io/pci-10de.present", "true"},
              {"nvidia.com/gpu.present", "true"}}}}}};
}

// The whole of `pitcrew dashboard` but its command line.
class Dashboard {
 public:
  explicit Dashboard(std::shared_ptr<kube::Client> client, SiteSettings settings = {})
      : fleet_(client, feed_, {}),
        site_(std::move(settings), LoopbackAccess(kToken), feed_,
              [this](const std::string& node) { return fleet_.Detail(node, stop_.token()); }) {
    auto first = doctor::ReadLive(*client, "gpu-operator", {}, doctor::Extent::kFirst);
    EXPECT_TRUE(first) << first.error().ToString();
    auto server = io::HttpServer::StartWith(
        "127.0.0.1:0",
        [this](const io::HttpServerRequest& request) { return site_.Answer(request); },
        site_.ServerOptions());
    EXPECT_TRUE(server) << server.error().ToString();
    server_ = *std::move(server);
    thread_ = std::thread([this, first = *std::move(first)] {
      const auto followed = fleet_.Follow(first, stop_.token());
      EXPECT_TRUE(followed || followed.error().code == base::Code::kCancelled);
    });
  }
  ~Dashboard() {
    stop_.Stop();
    feed_.Close();
    thread_.join();
  }
  Dashboard(const Dashboard&) = delete;
  Dashboard& operator=(const Dashboard&) = delete;

  [[nodiscard]] io::HttpRequest Request(const std::string& path) const {
    io::HttpRequest request;
    request.url = "http://127.0.0.1:" + std::to_string(server_->port()) + path;
    request.headers = {{.name = "Authorization", .value = std::string("Bearer ") + kToken}};
    request.deadline = base::Deadline::After(test_support::kPatience);
    return request;
  }
  [[nodiscard]] int port() const { return server_->port(); }
  [[nodiscard]] const Site& site() const { return site_; }

 private:
  io::StopSource stop_;
  Feed feed_;
  FleetSource fleet_;
  Site site_;
  std::unique_ptr<io::HttpServer> server_;
  std::thread thread_;
};

// Reads a stream of events until the fleet that they tell of is as wanted.
class Reader {
 public:
  Reader(io::HttpClient& client, io::HttpRequest request) {
    auto opened = client.Open(std::move(request), {});
    EXPECT_TRUE(opened) << opened.error().ToString();
    stream_ = *std::move(opened);
    EXPECT_EQ(stream_->head().status, 200);
  }

  using Parts = std::map<std::string, Json>;
  bool Await(const std::function<bool(const Parts&)>& condition) {
    while (!condition(parts_)) {
      if (auto event = NextEvent()) {
        Take(*event);
        continue;
      }
      const auto bytes = stream_->Next();
      if (!bytes || !*bytes) return false;
      text_ += **bytes;
    }
    return true;
  }
  // What the stream has been sent so far.
  [[nodiscard]] const std::vector<std::string>& kinds() const { return kinds_; }
  [[nodiscard]] const std::string& last_id() const { return last_id_; }

 private:
  std::optional<std::string> NextEvent() {
    const auto end = text_.find("\n\n");
    if (end == std::string::npos) return std::nullopt;
    std::string event = text_.substr(0, end + 1);
    text_.erase(0, end + 2);
    return event;
  }
  static std::string Field(const std::string& event, const std::string& name) {
    const auto begin = event.find(name + ": ");
    if (begin == std::string::npos) return "";
    const auto value = begin + name.size() + 2;
    return event.substr(value, event.find('\n', value) - value);
  }
  void Take(const std::string& event) {
    kinds_.push_back(Field(event, "event"));
    if (const auto id = Field(event, "id"); !id.empty()) last_id_ = id;
    const auto data = codec::ParseJson(Field(event, "data"));
    ASSERT_TRUE(data) << event;
    if (kinds_.back() == "fleet") parts_.clear();
    if (data->contains("set")) {
      for (const auto& [name, part] : (*data)["set"].items()) parts_[name] = part;
    }
    if (data->contains("gone")) {
      for (const auto& name : (*data)["gone"]) parts_.erase(name.get<std::string>());
    }
  }

  std::unique_ptr<io::HttpStream> stream_;
  std::string text_;
  Parts parts_;
  std::vector<std::string> kinds_;
  std::string last_id_;
};

std::function<bool(const Reader::Parts&)> HasNode(const std::string& name, bool has = true) {
  return [=](const Reader::Parts& parts) {
    // Before the whole nothing is known.
    return parts.contains("totals") && parts.contains("node/" + name) == has;
  };
}

class DashboardTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    const auto client = ApiServer::Shared().MakeClient();
    const auto text =
        base::ReadFile(test_support::SourceFolder() /
                       "deploy/chart/gpu-operator/crds/nvidia.com_clusterpolicies.yaml");
    ASSERT_TRUE(text);
    ASSERT_TRUE(
        client->Apply(kube::kCustomResourceDefinitions, *codec::ParseYaml(*text, "CRD"), kWriter));
    ASSERT_TRUE(
        client->Create(kube::kNamespaces, {{"metadata", {{"name", "gpu-operator"}}}}, kWriter));
    ASSERT_TRUE(client->Create(kube::kNodes, GpuNode("gpu-a"), kWriter));
  }

  const std::unique_ptr<io::HttpClient> http_ = *io::HttpClient::Create();
  const std::shared_ptr<kube::Client> client_ = ApiServer::Shared().MakeClient();
};

TEST_F(DashboardTest, WhatChangesReachesTheStream) {
  const Dashboard dashboard(client_);
  Reader reader(*http_, dashboard.Request("/api/events"));
  ASSERT_TRUE(reader.Await(HasNode("gpu-a")));
  ASSERT_TRUE(client_->Create(kube::kNodes, GpuNode("gpu-b"), kWriter));
  ASSERT_TRUE(reader.Await(HasNode("gpu-b")));
  const std::string seen = reader.last_id();
  ASSERT_TRUE(client_->Delete(kube::kNodes, {.namespace_name = "", .name = "gpu-b"}));
  ASSERT_TRUE(reader.Await(HasNode("gpu-b", false)));
  // Only the first was the whole.
  EXPECT_EQ(std::ranges::count(reader.kinds(), "fleet"), 1);
  // A reader that comes back is told only what it has missed.
  auto request = dashboard.Request("/api/events");
  request.headers.push_back({.name = "Last-Event-ID", .value = seen});
  Reader again(*http_, std::move(request));
  ASSERT_TRUE(again.Await([&](const auto&) { return again.last_id() == reader.last_id(); }));
  EXPECT_EQ(std::ranges::count(again.kinds(), "fleet"), 0);
}

TEST_F(DashboardTest, TellsOneNodeInFull) {
  const Dashboard dashboard(client_);
  Reader reader(*http_, dashboard.Request("/api/events"));
  ASSERT_TRUE(reader.Await(HasNode("gpu-a")));
  const auto answer = http_->Send(dashboard.Request("/api/nodes/gpu-a"), {});
  ASSERT_TRUE(answer);
  ASSERT_EQ(answer->status, 200) << answer->body;
  const auto detail = codec::ParseJson(answer->body);
  ASSERT_TRUE(detail);
  EXPECT_EQ((*detail)["node"]["finding"]["id"], "policy-missing");
  EXPECT_EQ((*detail)["pods"], Json::array());
  // No exporter runs there: that is said, and no reading is made up.
  EXPECT_FALSE(detail->contains("gpus"));
  EXPECT_EQ((*detail)["unknown"][0]["what"], "Readings of the GPUs");
  EXPECT_EQ(http_->Send(dashboard.Request("/api/nodes/gpu-z"), {})->status, 404);
}

// "Unknown is not absent" also here.
TEST_F(DashboardTest, SaysWhatItsUserMayNotRead) {
  ApiServer& server = ApiServer::Shared();
  kube::Config config = server.config();
  config.credentials = kube::StaticCredentials({.bearer_token = server.stranger_token()});
  const auto stranger = kube::Client::Create(std::move(config));
  ASSERT_TRUE(stranger);
  const Dashboard dashboard(*stranger);
  Reader reader(*http_, dashboard.Request("/api/events"));
  Json totals;
  ASSERT_TRUE(reader.Await([&](const auto& parts) {
    if (!parts.contains("unknown/Nodes")) return false;
    totals = parts.at("totals");
    EXPECT_THAT(parts.at("unknown/Nodes").dump(), HasSubstr("forbidden"));
    return true;
  }));
  EXPECT_EQ(totals["judged"], false);
}

// That what is shown is old is news too.
TEST_F(DashboardTest, SaysThatTheServerIsGone) {
  auto own = ApiServer::Start();
  ASSERT_TRUE(own) << own.error().ToString();
  ASSERT_TRUE((*own)->MakeClient()->Create(kube::kNodes, GpuNode("gpu-a"), kWriter));
  const Dashboard dashboard((*own)->MakeClient());
  Reader reader(*http_, dashboard.Request("/api/events"));
  ASSERT_TRUE(reader.Await(HasNode("gpu-a")));
  (*own)->StopServer();
  const auto nodes_unknown = [](bool unknown) {
    return [=](const Reader::Parts& parts) {
      return parts.contains("node/gpu-a") && parts.contains("unknown/Nodes") == unknown;
    };
  };
  EXPECT_TRUE(reader.Await(nodes_unknown(true)));
  ASSERT_TRUE((*own)->StartServer());
  EXPECT_TRUE(reader.Await(nodes_unknown(false)));
}

// A client that never reads: what it is not sent is kept nowhere, and its place is free again.
TEST_F(DashboardTest, ADeadClientHoldsNothing) {
  Feed feed;
  Picture large;
  // More than the buffers of both sockets hold.
  for (int i = 0; i < 64; ++i) {
    large["node/" + std::to_string(i)] = "\"" + std::string(std::size_t{1} << 18U, 'x') + "\"";
  }
  feed.Publish(std::move(large));
  Site site({.source = {}, .most_streams = 1}, LoopbackAccess(kToken), feed, nullptr);
  auto options = site.ServerOptions();
  options.timeout = std::chrono::seconds(1);
  const auto server = io::HttpServer::StartWith(
      "127.0.0.1:0", [&](const io::HttpServerRequest& request) { return site.Answer(request); },
      options);
  ASSERT_TRUE(server);
  const base::FileDescriptor dead(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<std::uint16_t>((*server)->port()));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  ASSERT_EQ(::connect(dead.get(), reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  const std::string request =
      "GET /api/events HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer secret\r\n\r\n";
  ASSERT_EQ(::write(dead.get(), request.data(), request.size()),
            static_cast<ssize_t>(request.size()));
  const auto eventually = [](const std::function<bool()>& condition) {
    const auto end = base::SteadyClock::now() + std::chrono::seconds(60);
    while (!condition() && base::SteadyClock::now() < end) std::this_thread::yield();
    return condition();
  };
  EXPECT_TRUE(eventually([&] { return site.streams() == 1; }));
  EXPECT_TRUE(eventually([&] { return site.streams() == 0; }));
  feed.Close();
}

}  // namespace
}  // namespace pitcrew::dashboard
