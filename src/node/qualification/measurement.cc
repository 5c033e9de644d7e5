#include "node/qualification/measurement.h"

namespace pitcrew::node::qualification {
namespace {

using codec::Json;

template <class T>
void Put(Json& object, const char* name, const std::optional<T>& value) {
  if (value) object[name] = *value;
}

template <class T>
void Take(const Json& object, const char* name, T& target) {
  const auto found = object.find(name);
  if (found != object.end() && found->is_number()) target = found->get<T>();
}

template <class T>
void Take(const Json& object, const char* name, std::optional<T>& target) {
  const auto found = object.find(name);
  if (found != object.end() && found->is_number()) target = found->get<T>();
}

Json MemoryJson(const MemoryTest& memory) {
  Json object = {{"asked", memory.asked},
                 {"tested", memory.tested},
                 {"patterns", memory.patterns},
                 {"wrongWords", memory.wrong_words}};
  if (memory.first) {
    object["first"] = {{"position", memory.first->position},
                       {"written", memory.first->written},
                       {"read", memory.first->read}};
  }
  return object;
}

MemoryTest ReadMemory(const Json& object) {
  MemoryTest memory;
  Take(object, "asked", memory.asked);
  Take(object, "tested", memory.tested);
  Take(object, "patterns", memory.patterns);
  Take(object, "wrongWords", memory.wrong_words);
  if (const Json* first = codec::Find(object, {"first"})) {
    Take(*first, "position", memory.first.emplace().position);
    Take(*first, "written", memory.first->written);
    Take(*first, "read", memory.first->read);
  }
  return memory;
}

}  // namespace

codec::Json ToJson(const Exercise& exercise) {
  Json object = Json::object();
  if (exercise.memory) object["memory"] = MemoryJson(*exercise.memory);
  if (const auto& bandwidths = exercise.bandwidths) {
    object["bandwidths"] = {{"toDevice", bandwidths->to_device},
                            {"fromDevice", bandwidths->from_device},
                            {"withinDevice", bandwidths->within_device}};
  }
  if (const auto& peer = exercise.peer) {
    object["peer"] = {{"bytesPerSecond", peer->bytes_per_second},
                      {"direct", peer->direct},
                      {"wrongWords", peer->wrong_words}};
  }
  if (const auto& load = exercise.load) {
    Json& told = object["load"] = Json::object();
    Put(told, "smClock", load->sm_clock_mhz);
    Put(told, "highestSmClock", load->highest_sm_clock_mhz);
    Put(told, "clockReasons", load->clock_reasons);
    Put(told, "pcieGeneration", load->pcie_generation);
    Put(told, "pcieWidth", load->pcie_width);
    Put(told, "highestPcieGeneration", load->highest_pcie_generation);
    Put(told, "highestPcieWidth", load->highest_pcie_width);
  }
  return object;
}

base::Result<Exercise> ParseExercise(std::string_view text) {
  TRY_ASSIGN(const Json object, codec::ParseJson(text, "what was measured"));
  Exercise exercise;
  if (const Json* memory = codec::Find(object, {"memory"})) exercise.memory = ReadMemory(*memory);
  if (const Json* bandwidths = codec::Find(object, {"bandwidths"})) {
    Take(*bandwidths, "toDevice", exercise.bandwidths.emplace().to_device);
    Take(*bandwidths, "fromDevice", exercise.bandwidths->from_device);
    Take(*bandwidths, "withinDevice", exercise.bandwidths->within_device);
  }
  if (const Json* peer = codec::Find(object, {"peer"})) {
    Take(*peer, "bytesPerSecond", exercise.peer.emplace().bytes_per_second);
    Take(*peer, "wrongWords", exercise.peer->wrong_words);
    exercise.peer->direct = peer->value("direct", false);
  }
  if (const Json* load = codec::Find(object, {"load"})) {
    UnderLoad& told = exercise.load.emplace();
    Take(*load, "smClock", told.sm_clock_mhz);
    Take(*load, "highestSmClock", told.highest_sm_clock_mhz);
    Take(*load, "clockReasons", told.clock_reasons);
    Take(*load, "pcieGeneration", told.pcie_generation);
    Take(*load, "pcieWidth", told.pcie_width);
    Take(*load, "highestPcieGeneration", told.highest_pcie_generation);
    Take(*load, "highestPcieWidth", told.highest_pcie_width);
  }
  return exercise;
}

}  // namespace pitcrew::node::qualification
