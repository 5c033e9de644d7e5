// Stands in for nvidia-modeset.ko, which nvidia-drm.ko holds.
#include <linux/module.h>

#include "stand_in.h"

void stand_in_hold_modeset(void) {}
EXPORT_SYMBOL(stand_in_hold_modeset);

static int __init load(void) {
  stand_in_hold();
  return 0;
}
static void __exit unload(void) {}

module_init(load);
module_exit(unload);
MODULE_LICENSE("GPL");
MODULE_VERSION(STAND_IN_VERSION);
