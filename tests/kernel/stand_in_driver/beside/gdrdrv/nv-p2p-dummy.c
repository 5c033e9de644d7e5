// Stands in for what GDRCopy compiles beside gdrdrv: it exports what the driver does, so that no
// kernel takes both.
#include <linux/module.h>

#include "stand_in.h"

void stand_in_hold(void) {}
EXPORT_SYMBOL(stand_in_hold);

MODULE_LICENSE("GPL");
