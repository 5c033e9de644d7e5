/* Offers a symbol, and has the sections in which depmod and libkmod look. */
static const char information[] __attribute__((section(".modinfo"), used)) =
    "name=pitcrew_first\0license=GPL\0parm=depth:how deep\0alias=pitcrew:d1\0";
static const char symbols[] __attribute__((section("__ksymtab_strings"), used)) =
    "pitcrew_first_function";
int pitcrew_first_function(void) { return 1; }
