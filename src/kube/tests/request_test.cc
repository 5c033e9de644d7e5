#include "kube/request.h"

#include <gtest/gtest.h>

namespace pitcrew::kube {
namespace {

using base::Code;
using codec::Json;

TEST(Request, PathsOfEveryScope) {
  EXPECT_EQ(ResourcePath(kPods, "a", "b"), "/api/v1/namespaces/a/pods/b");
  EXPECT_EQ(ResourcePath(kPods, ""), "/api/v1/pods");
  EXPECT_EQ(ResourcePath(kNodes, "ignored", "n", "status"), "/api/v1/nodes/n/status");
  EXPECT_EQ(ResourcePath(kDaemonSets, "a"), "/apis/apps/v1/namespaces/a/daemonsets");
  EXPECT_EQ(ResourcePath(kNodes, "", "a/b"), "/api/v1/nodes/a%2Fb");
}

TEST(Request, ListAsksPageByPage) {
  const auto first = ListRequest(kPods, "a", {.label_selector = "x=y,z", .page_size = 500});
  EXPECT_EQ(first.verb, "list");
  EXPECT_EQ(first.method, "GET");
  EXPECT_EQ(first.target(), "/api/v1/namespaces/a/pods?labelSelector=x%3Dy%2Cz&limit=500");
  const auto next = ListRequest(kPods, "a", {.field_selector = "spec.nodeName=n"}, "to+ken=");
  EXPECT_EQ(next.query, "fieldSelector=spec.nodeName%3Dn&limit=500&continue=to%2Bken%3D");
  EXPECT_EQ(ListRequest(kPods, "", {.page_size = 0}).target(), "/api/v1/pods");
}

TEST(Request, WatchAsksForBookmarks) {
  const auto watch = WatchRequest(kNodes, "", {.resource_version = "42", .timeout_seconds = 300});
  EXPECT_EQ(watch.verb, "watch");
  EXPECT_EQ(watch.target(),
            "/api/v1/nodes?watch=true&resourceVersion=42&allowWatchBookmarks=true"
            "&timeoutSeconds=300");
}

TEST(Request, CreateFillsInTheType) {
  const Json object{{"metadata", {{"namespace", "a"}, {"name", "b"}}}};
  const auto request = CreateRequest(kConfigMaps, object, {.field_manager = "me"});
  ASSERT_TRUE(request);
  EXPECT_EQ(request->method, "POST");
  EXPECT_EQ(request->target(), "/api/v1/namespaces/a/configmaps?fieldManager=me");
  EXPECT_EQ(request->content_type, "application/json");
  const auto body = codec::ParseJson(request->body);
  EXPECT_EQ((*body)["kind"], "ConfigMap");
  EXPECT_EQ((*body)["apiVersion"], "v1");
  EXPECT_FALSE(request->idempotent());
  EXPECT_EQ(CreateRequest(kConfigMaps, Json::object(), {}).error().reason, "MissingName");
  EXPECT_TRUE(CreateRequest(kConfigMaps, {{"metadata", {{"generateName", "x-"}}}}, {}));
}

TEST(Request, AnEvictionIsCreatedBelowItsPod) {
  const Json eviction{{"apiVersion", "policy/v1"},
                      {"kind", "Eviction"},
                      {"metadata", {{"namespace", "a"}, {"name", "b"}}}};
  const auto request = CreateRequest(kPods, eviction, {.subresource = "eviction"});
  ASSERT_TRUE(request);
  EXPECT_EQ(request->path, "/api/v1/namespaces/a/pods/b/eviction");
  EXPECT_EQ((*codec::ParseJson(request->body))["kind"], "Eviction");
}

TEST(Request, PatchesNameTheirForm) {
  const ObjectKey key{.namespace_name = "a", .name = "b"};
  const auto type = [&](PatchType form) {
    return PatchRequest(kPods, key, form, Json::object(), {}).content_type;
  };
  EXPECT_EQ(type(PatchType::kJson), "application/json-patch+json");
  EXPECT_EQ(type(PatchType::kMerge), "application/merge-patch+json");
  EXPECT_EQ(type(PatchType::kStrategicMerge), "application/strategic-merge-patch+json");
  const auto status = PatchRequest(kPods, key, PatchType::kMerge, Json::object(),
                                   {.subresource = "status", .dry_run = true});
  EXPECT_EQ(status.target(), "/api/v1/namespaces/a/pods/b/status?dryRun=All");
}

TEST(Request, ApplyNeedsAManager) {
  const Json object{{"metadata", {{"name", "n"}}}};
  const auto request = ApplyRequest(kNodes, object, {.field_manager = "m", .force = true});
  ASSERT_TRUE(request);
  EXPECT_EQ(request->verb, "apply");
  EXPECT_EQ(request->method, "PATCH");
  EXPECT_EQ(request->target(), "/api/v1/nodes/n?fieldManager=m&force=true");
  EXPECT_EQ(request->content_type, "application/apply-patch+yaml");
  EXPECT_EQ(ApplyRequest(kNodes, object, {}).error().reason, "MissingFieldManager");
}

TEST(Request, DeleteCarriesItsPreconditions) {
  const auto request = DeleteRequest(kPods, {.namespace_name = "a", .name = "b"},
                                     {.uid = "u",
                                      .resource_version = "7",
                                      .propagation = Propagation::kForeground,
                                      .grace_period_seconds = 0});
  EXPECT_EQ(request.method, "DELETE");
  const auto body = codec::ParseJson(request.body);
  EXPECT_EQ(*body, (Json{{"apiVersion", "v1"},
                         {"kind", "DeleteOptions"},
                         {"preconditions", {{"uid", "u"}, {"resourceVersion", "7"}}},
                         {"propagationPolicy", "Foreground"},
                         {"gracePeriodSeconds", 0}}));
}

TEST(Request, StatusBecomesAnError) {
  const auto error = ErrorFromStatus(
      422,
      R"({"kind":"Status","message":"DaemonSet \"x\" is invalid","reason":"Invalid","details":{
          "name":"x","causes":[{"field":"spec.selector","message":"Required value"}]}})",
      "create x");
  EXPECT_EQ(error.code, Code::kInvalid);
  EXPECT_EQ(error.reason, "Invalid");
  EXPECT_EQ(error.message, "create x: DaemonSet \"x\" is invalid; spec.selector: Required value");
}

// A field that the message names already is not told twice; those behind it are told all the same.
TEST(Request, CausesThatTheMessageLacksAreTold) {
  const auto error = ErrorFromStatus(
      422,
      R"({"kind":"Status","message":"x is invalid: spec.a: Required value","reason":"Invalid",
          "details":{"name":"x","causes":[{"field":"spec.a","message":"Required value"},
          {"field":"spec.b","message":"Too long"},{"message":"odd"}]}})",
      "create x");
  EXPECT_EQ(error.message, "create x: x is invalid: spec.a: Required value; spec.b: Too long; odd");
}

TEST(Request, CodesOfTheStatuses) {
  const auto code = [](int status, const std::string& reason) {
    return ErrorFromStatus(
               status, R"({"kind":"Status","reason":")" + reason + R"(","details":{"name":"x"}})",
               "x")
        .code;
  };
  EXPECT_EQ(code(401, "Unauthorized"), Code::kDenied);
  EXPECT_EQ(code(403, "Forbidden"), Code::kDenied);
  EXPECT_EQ(code(404, "NotFound"), Code::kNotFound);
  EXPECT_EQ(code(409, "AlreadyExists"), Code::kExists);
  EXPECT_EQ(code(409, "Conflict"), Code::kConflict);
  EXPECT_EQ(code(410, "Expired"), Code::kGone);
  EXPECT_EQ(code(429, "TooManyRequests"), Code::kTooMany);
  EXPECT_EQ(code(500, "InternalError"), Code::kUnavailable);
  EXPECT_EQ(code(503, "ServiceUnavailable"), Code::kUnavailable);
}

TEST(Request, OnlyANamedObjectIsEvidenceOfAbsence) {
  EXPECT_EQ(ErrorFromStatus(404, R"({"kind":"Status","reason":"NotFound","details":{}})", "x").code,
            Code::kUnsupported);
  const auto page = ErrorFromStatus(404, "404 page not found\n", "x");
  EXPECT_EQ(page.code, Code::kUnsupported);
  EXPECT_EQ(page.reason, "ResourceNotServed");
}

TEST(Request, ATooLargeVersionIsToldByItsCause) {
  const auto error = ErrorFromStatus(
      504,
      R"({"kind":"Status","message":"Timeout: Too large resource version","reason":"Timeout",
          "details":{"causes":[{"reason":"ResourceVersionTooLarge","message":"Too large"}]}})",
      "list");
  EXPECT_EQ(error.reason, "ResourceVersionTooLarge");
}

TEST(Resource, KindsTellTheirApiVersion) {
  EXPECT_EQ(kDaemonSets.api_version(), "apps/v1");
  EXPECT_EQ(kPods.api_version(), "v1");
}

TEST(Resource, KeysReadLikeKubectl) {
  EXPECT_EQ((ObjectKey{.namespace_name = "a", .name = "b"}.ToString()), "a/b");
  EXPECT_EQ((ObjectKey{.name = "b"}.ToString()), "b");
}

}  // namespace
}  // namespace pitcrew::kube
