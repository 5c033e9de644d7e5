// A library that the careless double is linked with, for attacks that put another one in its place.
extern "C" int naive_dependency() { return 0; }
