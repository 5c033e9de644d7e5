// What the stand-in's modules hold each other by.
#pragma once

void stand_in_hold(void);
void stand_in_hold_modeset(void);
void stand_in_look_up(void);
