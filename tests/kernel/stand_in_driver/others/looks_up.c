// Somebody's module that uses nvidia without being seen: the driver can go as far as nvidia only.
#include <linux/module.h>

static int __init load(void) { return __symbol_get("stand_in_look_up") ? 0 : -ENOENT; }
static void __exit unload(void) { __symbol_put("stand_in_look_up"); }

module_init(load);
module_exit(unload);
MODULE_LICENSE("GPL");
