// One function object of several lambdas, for std::visit.
#pragma once

namespace pitcrew::base {

// Overload{[](const A&) {...}, [](const B&) {...}} takes A and B.
template <class... Functions>
struct Overload : Functions... {
  using Functions::operator()...;
};

}  // namespace pitcrew::base
