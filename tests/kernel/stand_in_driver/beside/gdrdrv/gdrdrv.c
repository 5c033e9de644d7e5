// Stands in for gdrdrv.ko of GDRCopy: it holds nvidia, and its device keeps it as nvidia's does.
#include <linux/fs.h>
#include <linux/module.h>

#include "stand_in.h"

static int number;

static int open_device(struct inode* inode, struct file* file) { return 0; }

static const struct file_operations operations = {.owner = THIS_MODULE, .open = open_device};

static int __init load(void) {
  stand_in_hold();
  number = register_chrdev(0, "gdrdrv", &operations);
  return number < 0 ? number : 0;
}
static void __exit unload(void) { unregister_chrdev(number, "gdrdrv"); }

module_init(load);
module_exit(unload);
MODULE_LICENSE("GPL");
MODULE_VERSION("2.5");
