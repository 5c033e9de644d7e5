// Stands in for nouveau.ko: while somebody has its device open, as the console has the real one's,
// it cannot be unloaded.
#include <linux/fs.h>
#include <linux/module.h>

static int number;

static int open_device(struct inode* inode, struct file* file) { return 0; }

static const struct file_operations operations = {.owner = THIS_MODULE, .open = open_device};

static int __init load(void) {
  number = register_chrdev(0, "nouveau", &operations);
  return number < 0 ? number : 0;
}
static void __exit unload(void) { unregister_chrdev(number, "nouveau"); }

module_init(load);
module_exit(unload);
MODULE_LICENSE("GPL");
