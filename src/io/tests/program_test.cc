#include "io/program.h"

#include <gtest/gtest.h>

#include <csignal>
#include <string>

namespace pitcrew::io {
namespace {

using Read = base::Result<std::optional<std::string>>;

const ProgramFrame kFrame{.failure = "It ends", .usage_status = 7};

TEST(Program, EndsWithTheStatusOfWhatHappened) {
  const auto fails = [](const std::string&, const StopToken&) -> base::Status {
    return base::Fail(base::Unavailable("Away", "nobody is there"));
  };
  EXPECT_EQ(RunProgram(kFrame, Read(base::Fail(base::Invalid("Odd", "an odd option"))), fails), 7);
  EXPECT_EQ(RunProgram(kFrame, Read(std::nullopt), fails), 0) << "--help was answered";
  EXPECT_EQ(RunProgram(kFrame, Read("options"), fails), 1);
  std::string seen;
  EXPECT_EQ(RunProgram(kFrame, Read("options"),
                       [&](const std::string& options, const StopToken&) -> base::Status {
                         seen = options;
                         return {};
                       }),
            0);
  EXPECT_EQ(seen, "options");
}

TEST(Program, IsToldToStopByEachOfTheSignals) {
  for (const int number : {SIGTERM, SIGINT, SIGQUIT}) {
    EXPECT_EQ(RunProgram(kFrame, Read("options"),
                         [&](const std::string&, const StopToken& stop) -> base::Status {
                           std::raise(number);
                           stop.Wait();
                           return {};
                         }),
              0);
  }
}

}  // namespace
}  // namespace pitcrew::io
