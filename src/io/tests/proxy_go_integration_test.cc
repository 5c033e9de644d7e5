// Go itself (net/http, whose ProxyFromEnvironment is golang.org/x/net/http/httpproxy) is asked
// which proxy it would take: the program in go-httpproxy/ is built once and run here.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "base/strings.h"
#include "io/proxy.h"
#include "support/go_program.h"

namespace pitcrew::io {
namespace {

constexpr std::string_view kProxy = "http://proxy.example:3128";

const std::vector<std::string> kUrls{"https://foo.com/",
                                     "https://foo.com:8443/x",
                                     "http://foo.com/",
                                     "https://bar.foo.com/",
                                     "https://a.b.foo.com:80/",
                                     "https://barfoo.com/",
                                     "https://FOO.com/",
                                     "https://foo.com.evil/",
                                     "https://kubernetes.default.svc/",
                                     "https://10.0.0.1/",
                                     "https://10.96.0.1:6443/",
                                     "https://11.0.0.1/",
                                     "http://10.0.0.1:80/",
                                     "https://192.168.1.255/",
                                     "https://8.8.8.8/",
                                     "https://[fd00::1]/",
                                     "https://[fd00::1]:6443/",
                                     "https://[fd12:0:0::7]/",
                                     "https://[fe80::1]/",
                                     "https://[::ffff:10.0.0.1]/",
                                     "https://[2001:db8::]/",
                                     "https://localhost/",
                                     "https://localhost:6443/",
                                     "https://LOCALHOST/",
                                     "https://127.0.0.1/",
                                     "https://127.200.0.9:1/",
                                     "https://[::1]/",
                                     "https://[::ffff:127.0.0.1]/",
                                     "https://a.localhost/",
                                     "https://xn--bcher-kva.example/"};

const std::vector<std::string> kExceptions{"",
                                           " ",
                                           ",",
                                           "*",
                                           "**",
                                           "*,foo.com",
                                           "foo.com,*",
                                           "*.",
                                           ".",
                                           "..",
                                           "*.com",
                                           ".com",
                                           "com",
                                           "foo.com",
                                           "FOO.COM",
                                           " foo.com ",
                                           "foo.com,",
                                           ",foo.com",
                                           "foo.com,10.0.0.1",
                                           "foo.com;bar",
                                           ".foo.com",
                                           "*.foo.com",
                                           "..foo.com",
                                           "foo.com.",
                                           "oo.com",
                                           "*foo.com",
                                           "bar.foo.com",
                                           "foo.com:443",
                                           "foo.com:8443",
                                           "foo.com:80",
                                           "foo.com:",
                                           ":443",
                                           "foo.com:https",
                                           "foo.com:0443",
                                           ".foo.com:80",
                                           "*.foo.com:80",
                                           "foo.com:443:443",
                                           "https://foo.com",
                                           "foo.com/",
                                           "foo.com/x",
                                           "localhost",
                                           "127.0.0.1",
                                           "::1",
                                           "a.localhost",
                                           "10.0.0.1",
                                           "10.0.0.1:443",
                                           "10.0.0.1:80",
                                           "10.0.0",
                                           "10.",
                                           "10.*",
                                           "010.0.0.1",
                                           "10.0.0.01",
                                           "10.0.0.1,",
                                           "1.2.3.4.5",
                                           "10.0.0.256",
                                           "0x0a.0.0.1",
                                           "10.0.0.0/8",
                                           "10.96.0.1/8",
                                           "10.0.0.0/0",
                                           "0.0.0.0/0",
                                           "10.0.0.0/32",
                                           "10.0.0.1/32",
                                           "10.0.0.0/33",
                                           "10.0.0.0/",
                                           "10.0.0.0/8x",
                                           "10.0.0.0/-1",
                                           "10.0.0.0/+8",
                                           "10.0.0.0/08",
                                           "10.0.0.0/008",
                                           "10.0.0.0/8:443",
                                           "10/8",
                                           "192.168.0.0/16",
                                           "192.168.1.0/25",
                                           "fd00::1",
                                           "FD00::1",
                                           "[fd00::1]",
                                           "[fd00::1]:443",
                                           "[fd00::1]:6443",
                                           "fd00::1:6443",
                                           "fd00:0:0:0:0:0:0:1",
                                           "fd00::/8",
                                           "FD00::/8",
                                           "fd00::/7",
                                           "::/0",
                                           "fd00::/129",
                                           "[fd00::]/8",
                                           "::ffff:10.0.0.1",
                                           "::ffff:10.0.0.0/104",
                                           "::ffff:0:0/96",
                                           "::ffff:10.0.0.0/95",
                                           "::ffff:a00:1",
                                           "2001:db8::",
                                           "2001:db8::/32",
                                           "fe80::1%eth0",
                                           "[fd00::1",
                                           "fd00::1]"};

std::string Ours(const ProxyVariables& variables, const std::string& url) {
  const auto parsed = ParseUrl(url);
  if (!parsed) return "error";
  const auto proxy = ProxySettings(variables).For(*parsed);
  if (!proxy) return "error";
  if (!*proxy) return "direct";
  return fmt::format("{}://{}", (*proxy)->scheme, (*proxy)->authority());
}

TEST(NoProxy, EveryExceptionMeansWhatItMeansToGo) {
  const auto program = testing::BuildGoProgram("src/io/tests/go-httpproxy", "go-httpproxy");
  ASSERT_TRUE(program) << program.error().message;
  std::string questions;
  for (const auto& exceptions : kExceptions) {
    questions += fmt::format("{0}\t{0}\t{1}\t{2}\n", kProxy, exceptions, fmt::join(kUrls, " "));
  }
  const auto told = testing::RunWithInput(*program, questions);
  ASSERT_TRUE(told) << told.error().message;
  const auto answers = base::Split(base::Trim(*told), '\n');
  ASSERT_EQ(answers.size(), kExceptions.size() * kUrls.size());
  std::size_t next = 0;
  for (const auto& exceptions : kExceptions) {
    for (const auto& url : kUrls) {
      const ProxyVariables variables{.http_proxy = std::string(kProxy),
                                     .https_proxy = std::string(kProxy),
                                     .no_proxy = exceptions};
      EXPECT_EQ(Ours(variables, url), answers[next]) << "NO_PROXY=\"" << exceptions << "\" " << url;
      ++next;
    }
  }
}

}  // namespace
}  // namespace pitcrew::io
