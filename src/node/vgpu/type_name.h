// Names of vGPU types (vgpu-device-manager.md section 3.1): "A100-5C" shares a GPU by time,
// "A100-1-5CME" lies in a GPU instance of MIG.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"

namespace pitcrew::node::vgpu {

struct TypeName {
  std::string gpu;            // "A100", "RTX6000-Ada"
  std::optional<int> slices;  // of the GPU instance; nullopt: shared by time
  int gigabytes = 0;          // of frame buffer; 0: 512 MB
  char series = 'C';          // A, B, C or Q
  std::string attribute;      // ME, NOME, MEALL or GFX; only with slices

  // kInvalid "InvalidVgpuType": "malformed vGPU type string '<text>'".
  static base::Result<TypeName> Parse(std::string_view text);

  [[nodiscard]] bool is_mig_backed() const { return slices.has_value(); }
  // "1g.5gb+me": the GPU instance profile that upstream derives (section 3.2). Only if
  // is_mig_backed().
  [[nodiscard]] std::string MigProfile() const;
  bool operator==(const TypeName&) const = default;
};

// Without one attribute at its end, for drivers that offer the type under its plain name:
// "A100-1-5CME" is "A100-1-5C" (section 5). Names without one stay.
std::string WithoutAttribute(std::string_view type);

// The name in what the driver writes: its last word. "NVIDIA RTX Pro 6000 Blackwell DC-48C" is
// DC-48C.
std::string NameOfTitle(std::string_view title);

}  // namespace pitcrew::node::vgpu
