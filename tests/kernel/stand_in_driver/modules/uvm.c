// Stands in for nvidia-uvm.ko: a character device with a major that the kernel chooses.
#include <linux/fs.h>
#include <linux/module.h>

#include "stand_in.h"

static int number;

static int open_device(struct inode* inode, struct file* file) { return 0; }

static const struct file_operations operations = {.owner = THIS_MODULE, .open = open_device};

static int __init load(void) {
  stand_in_hold();
  number = register_chrdev(0, "nvidia-uvm", &operations);
  return number < 0 ? number : 0;
}
static void __exit unload(void) { unregister_chrdev(number, "nvidia-uvm"); }

module_init(load);
module_exit(unload);
MODULE_LICENSE("GPL");
MODULE_VERSION(STAND_IN_VERSION);
