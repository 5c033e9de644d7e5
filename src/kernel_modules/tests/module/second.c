/* Needs the symbol of the first one. */
static const char information[] __attribute__((section(".modinfo"), used)) =
    "name=pitcrew_second\0license=GPL\0depends=pitcrew_first\0";
extern int pitcrew_first_function(void);
int pitcrew_second_function(void) { return pitcrew_first_function(); }
