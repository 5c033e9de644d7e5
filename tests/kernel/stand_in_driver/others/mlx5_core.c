// Stands in for mlx5_core.ko, of which only the name is looked at.
#include <linux/module.h>

static int __init load(void) { return 0; }
static void __exit unload(void) {}

module_init(load);
module_exit(unload);
MODULE_LICENSE("GPL");
