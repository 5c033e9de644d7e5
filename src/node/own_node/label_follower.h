// The life of a component that carries out what one label of its node names (mig-manager.md 9.2,
// vgpu-device-manager.md 6.3): each value once, a failure again when it may pass or when something
// has changed that it may have been about.
#pragma once

#include <array>
#include <chrono>
#include <filesystem>
#include <functional>
#include <string>

#include "base/result.h"
#include "io/file_watcher.h"
#include "io/stop.h"
#include "node/own_node/label_watch.h"

namespace pitcrew::node::own_node {

enum class Followed {
  kDone,       // what was asked for holds
  kFailed,     // it is a person's to decide
  kMayPass,    // it failed, and may succeed later without anybody's doing
  kAbandoned,  // given up for another value, or told to stop
};

// Of a change that holds nobody up for long: whoever has a device lets go of it some day, a server
// comes back.
Followed AfterFailure(const base::Error& error);

// What a change that failed with `error` ends with where an earlier one is still half done, since
// going back failed with `recovery`: kUnavailable "RollbackFailed", which may pass, also where
// `error` is a person's to mend. A stop stays one. Logs `recovery`.
base::Error WithFailedRecovery(const base::Error& error, const base::Error& recovery);

struct FollowSettings {
  std::string label;
  // What a missing or empty label means; empty: nothing is asked for.
  std::string fallback;
  // Until a failure that may pass is tried again; doubled each time.
  std::chrono::seconds first_retry{60};
  std::chrono::seconds longest_retry{1800};

  std::function<Followed(const std::string& wanted)> apply;
  // Nothing is asked for: at the start, and when the label went away. An error is one that may
  // pass, whatever it is: tried again as a change is.
  std::function<base::Status()> nothing_wanted;

  // Readable when something has happened that a failure may have been about, for example a
  // configuration file; -1: none. Borrowed.
  std::array<int, 2> fds = {-1, -1};
  // Takes what has happened there; true: a failure is to be looked at again.
  std::function<base::Result<bool>()> take;
};

// Whether a change in the folder of a configuration file is about it: the file itself, or what the
// kubelet replaces when a ConfigMap has changed; not, for example, a log that somebody keeps in the
// same folder. An empty name counts: changes were lost.
bool IsChangeOf(const std::filesystem::path& config, const io::FileChange& change);

// Until the stop. The watch has to follow the label. Fails when `take` or waiting does.
base::Status FollowLabel(LabelWatch& watch, const FollowSettings& settings,
                         const io::StopToken& stop);

}  // namespace pitcrew::node::own_node
