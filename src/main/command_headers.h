// The headers that declare the functions of commands.def.
#pragma once

#include "doctor/command.h"
#include "node/config_manager/command.h"
#include "node/device_plugin/command.h"
#include "node/driver_manager/command.h"
#include "node/feature_discovery/command.h"
#include "node/mig_manager/command.h"
#include "node/mig_parted/command.h"
#include "node/mps/command.h"
#include "node/nfd/command.h"
#include "node/sandbox_device_plugin/command.h"
#include "node/smi/command.h"
#include "node/toolkit/command.h"
#include "node/validator/command.h"
#include "operator/command.h"
#include "plan/command.h"
#include "vm/command.h"
