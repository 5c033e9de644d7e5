// toml++ as this house includes it: in its sources only, never in a public header.
//
// Version 3.3 asserts what its parser checks a few lines later: with assertions the header "[.a]" ends the process,
// and with NDEBUG the compiler may take the assertion for granted and drop the check. Without either, the parser's own
// error comes.
#pragma once

#define TOML_EXCEPTIONS 0
#define TOML_ENABLE_FORMATTERS 0
#define TOML_HEADER_ONLY 1
#define TOML_ASSERT(expr) static_cast<void>(0)
#pragma push_macro("NDEBUG")
#undef NDEBUG
#include <toml++/toml.h>
#pragma pop_macro("NDEBUG")
