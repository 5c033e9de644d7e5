// Stands in for nvidia.ko: the character major 195, parameters, a version, and what the other
// modules hold it by. While a program has /dev/nvidiactl or /dev/nvidia<n> open it cannot be
// unloaded.
#include <linux/fs.h>
#include <linux/module.h>

#include "stand_in.h"

#define NVIDIA_MAJOR 195

static char* coherent_memory = "";
module_param_named(NVreg_CoherentGPUMemoryMode, coherent_memory, charp, 0444);
static int tuning;
module_param_named(NVreg_Tuning, tuning, int, 0444);
static char* kind = STAND_IN_KIND;
module_param_named(kind, kind, charp, 0444);

void stand_in_hold(void) {}
EXPORT_SYMBOL(stand_in_hold);
// What modules look up that do not say that they need this one (../others).
void stand_in_look_up(void) {}
EXPORT_SYMBOL_GPL(stand_in_look_up);

static int open_device(struct inode* inode, struct file* file) { return 0; }

static const struct file_operations operations = {.owner = THIS_MODULE, .open = open_device};

static int __init load(void) { return register_chrdev(NVIDIA_MAJOR, "nvidia", &operations); }
static void __exit unload(void) { unregister_chrdev(NVIDIA_MAJOR, "nvidia"); }

module_init(load);
module_exit(unload);
MODULE_LICENSE("GPL");
MODULE_VERSION(STAND_IN_VERSION);
