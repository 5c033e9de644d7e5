// The rules stand in the documentation of golang.org/x/net/http/httpproxy (type Config), and for
// addresses in that of net.ParseIP and net.ParseCIDR; proxy_go_integration_test.cc asks Go itself.
#include "io/proxy.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <string>
#include <vector>

namespace pitcrew::io {
namespace {

struct Case {
  const char* no_proxy;
  const char* host;
  const char* port;
  bool direct;
};

TEST(NoProxy, IsReadAsGoReadsIt) {
  const std::vector<Case> cases{
      // "A domain name matches that name and all subdomains."
      {"foo.com", "foo.com", "443", true},
      {"foo.com", "bar.foo.com", "443", true},
      {"foo.com", "a.b.foo.com", "443", true},
      {"foo.com", "barfoo.com", "443", false},
      {"foo.com", "foo.com.evil", "443", false},
      // "A domain name with a leading "." matches subdomains only."
      {".y.com", "x.y.com", "443", true},
      {".y.com", "y.com", "443", false},
      {"*.y.com", "x.y.com", "443", true},
      {"*.y.com", "y.com", "443", false},
      // "A single asterisk (*) indicates that no proxying should be done."
      {"*", "anything.example", "1", true},
      {"a.com,*", "anything.example", "1", true},
      {"*", "10.0.0.1", "1", true},
      {"**", "anything.example", "1", false},
      // "An IP address prefix and domain name can also include a literal port number."
      {"1.2.3.4:80", "1.2.3.4", "80", true},
      {"1.2.3.4:80", "1.2.3.4", "443", false},
      {"foo.com:80", "foo.com", "80", true},
      {"foo.com:80", "a.foo.com", "80", true},
      {"foo.com:80", "foo.com", "443", false},
      {".foo.com:80", "foo.com", "80", false},
      {"foo.com:", "foo.com", "443", true},
      {":80", "foo.com", "80", false},
      // "an IP address prefix (1.2.3.4), an IP address prefix in CIDR notation (1.2.3.4/8)"
      {"10.96.0.1", "10.96.0.1", "443", true},
      {"10.96.0.1", "10.96.0.10", "443", false},
      {"10.0.0.0/8", "10.96.0.1", "443", true},
      {"10.96.0.1/8", "10.200.0.1", "443", true},
      {"10.0.0.0/8", "11.0.0.1", "443", false},
      {"10.0.0.0/9", "10.128.0.0", "443", false},
      {"0.0.0.0/0", "8.8.8.8", "443", true},
      {"0.0.0.0/0", "fd00::1", "443", false},
      {"10.0.0.0/33", "10.0.0.1", "443", false},
      {"10.0.0.0/8", "ten.example", "443", false},
      {"fd00::/8", "fd12::1", "443", true},
      {"fd00::/8", "fe80::1", "443", false},
      {"fd00::1", "fd00::1", "443", true},
      {"fd00::1", "fd00:0:0::1", "443", true},
      {"[fd00::1]:6443", "fd00::1", "6443", true},
      {"[fd00::1]:6443", "fd00::1", "443", false},
      {"[fd00::1]", "fd00::1", "443", false},  // neither an address nor a name to Go
      {"::ffff:10.0.0.1", "10.0.0.1", "443", true},
      {"10.0.0.1", "::ffff:10.0.0.1", "443", true},
      {"::ffff:10.0.0.0/104", "10.9.9.9", "443", true},
      {"010.0.0.1", "10.0.0.1", "443", false},
      // A list, with any spaces and any case.
      {" a.com , B.com,,10.0.0.0/8 ", "b.COM", "443", true},
      {"a.com;b.com", "b.com", "443", false},
      // "As a special case, if req.URL.Host is "localhost" or a loopback address."
      {"", "localhost", "443", true},
      {"", "LOCALHOST", "443", false},  // to the letter
      {"", "127.8.9.1", "443", true},
      {"", "::1", "443", true},
      {"", "a.localhost", "443", false},
      {"", "::ffff:127.0.0.1", "443", true},
      {"", "kubernetes.default.svc", "443", false},
  };
  for (const auto& [no_proxy, host, port, direct] : cases) {
    EXPECT_EQ(ProxyExceptions(no_proxy).Contain(host, port), direct)
        << "NO_PROXY=\"" << no_proxy << "\" " << host << " port " << port;
  }
}

Url To(const char* text) { return *ParseUrl(text); }

TEST(Proxy, EachSchemeHasItsVariable) {
  const ProxySettings settings(
      {.http_proxy = "http://one:1", .https_proxy = "https://u:p@two", .no_proxy = "inside"});
  EXPECT_EQ((*settings.For(To("http://a")))->authority(), "one:1");
  const auto proxy = *settings.For(To("https://a"));
  EXPECT_EQ(proxy->authority(), "two");
  EXPECT_EQ(proxy->scheme, "https");
  EXPECT_EQ(proxy->user, "u");
  EXPECT_EQ(*settings.For(To("https://inside")), std::nullopt);
  const ProxySettings only_http({.http_proxy = "http://one:1"});
  EXPECT_EQ(*only_http.For(To("https://a")), std::nullopt);
  EXPECT_EQ(*ProxySettings({}).For(To("http://a")), std::nullopt);
}

TEST(Proxy, WithoutASchemeItIsHttp) {
  for (const char* text : {"proxy.example:3128", "10.0.0.1:3128", "[fd00::1]:3128"}) {
    const ProxySettings settings({.https_proxy = text});
    const auto proxy = settings.For(To("https://a"));
    ASSERT_TRUE(proxy) << proxy.error().message;
    EXPECT_EQ((*proxy)->scheme, "http");
    EXPECT_EQ((*proxy)->authority(), text);
  }
}

TEST(Proxy, OneThatCannotBeUsedIsAnErrorAndNoWayRoundIt) {
  for (const char* text : {"socks5://proxy:1080", "http://", "proxy:port", "http://a b"}) {
    const auto proxy = ProxySettings({.https_proxy = text}).For(To("https://a"));
    ASSERT_FALSE(proxy) << text;
    EXPECT_EQ(proxy.error().reason, "InvalidProxy");
    EXPECT_NE(proxy.error().message.find("HTTPS_PROXY"), std::string::npos);
    EXPECT_TRUE(ProxySettings({.https_proxy = text, .no_proxy = "a"}).For(To("https://a")));
  }
  // golang.org/s/cgihttpproxy
  const ProxySettings cgi({.http_proxy = "http://p", .https_proxy = "http://p", .cgi = true});
  EXPECT_FALSE(cgi.For(To("http://a")));
  EXPECT_TRUE(cgi.For(To("https://a")));
}

TEST(Proxy, UpperCaseVariablesCountFirst) {
  const auto set = [](const char* name, const char* value) { ::setenv(name, value, 1); };
  set("https_proxy", "http://lower");
  set("no_proxy", "lower");
  EXPECT_EQ(ProxyVariables::FromEnvironment().https_proxy, "http://lower");
  EXPECT_EQ(ProxyVariables::FromEnvironment().no_proxy, "lower");
  set("HTTPS_PROXY", "http://upper");
  set("NO_PROXY", "upper");
  EXPECT_EQ(ProxyVariables::FromEnvironment().https_proxy, "http://upper");
  EXPECT_EQ(ProxyVariables::FromEnvironment().no_proxy, "upper");
  set("HTTPS_PROXY", "");
  EXPECT_EQ(ProxyVariables::FromEnvironment().https_proxy, "http://lower");
  for (const char* name : {"https_proxy", "no_proxy", "HTTPS_PROXY", "NO_PROXY"}) ::unsetenv(name);
}

}  // namespace
}  // namespace pitcrew::io
