// Stands in for nvidia-fs.ko of GPUDirect Storage: it holds nvidia, and its devices, of a class of
// their own, keep it as nvidia's do.
#include <linux/device.h>
#include <linux/fs.h>
#include <linux/module.h>

#include "stand_in.h"

static int number;
static struct class* devices;

static int open_device(struct inode* inode, struct file* file) { return 0; }

static const struct file_operations operations = {.owner = THIS_MODULE, .open = open_device};

static int __init load(void) {
  stand_in_hold();
  number = register_chrdev(0, "nvidia-fs", &operations);
  if (number < 0) return number;
  devices = class_create(THIS_MODULE, "nvidia-fs-class");
  if (IS_ERR(devices)) {
    unregister_chrdev(number, "nvidia-fs");
    return PTR_ERR(devices);
  }
  device_create(devices, NULL, MKDEV(number, 0), NULL, "nvidia-fs0");
  return 0;
}
static void __exit unload(void) {
  device_destroy(devices, MKDEV(number, 0));
  class_destroy(devices);
  unregister_chrdev(number, "nvidia-fs");
}

module_init(load);
module_exit(unload);
MODULE_LICENSE("GPL");
MODULE_VERSION("2.28.4");
