// Entry point of `pitcrew qualify NODE`.
#pragma once

namespace pitcrew::qualify {

int Command(int argc, char** argv);

}  // namespace pitcrew::qualify
