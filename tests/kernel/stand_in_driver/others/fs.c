// Stands in for nvidia-fs.ko: it looks symbols of nvidia up when it is loaded. Each counts as a use
// there, and sysfs shows no holder.
#include <linux/module.h>

static int __init load(void) {
  if (!__symbol_get("stand_in_look_up")) return -ENOENT;
  if (!__symbol_get("stand_in_look_up")) return -ENOENT;
  return 0;
}
static void __exit unload(void) {
  __symbol_put("stand_in_look_up");
  __symbol_put("stand_in_look_up");
}

module_init(load);
module_exit(unload);
MODULE_LICENSE("GPL");
