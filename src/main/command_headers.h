// The headers that declare the functions of commands.def.
#pragma once
