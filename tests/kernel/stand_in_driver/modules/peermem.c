// Stands in for nvidia-peermem.ko.
#include <linux/module.h>

#include "stand_in.h"

static int __init load(void) {
  stand_in_hold();
  return 0;
}
static void __exit unload(void) {}

module_init(load);
module_exit(unload);
MODULE_LICENSE("GPL");
MODULE_VERSION(STAND_IN_VERSION);
