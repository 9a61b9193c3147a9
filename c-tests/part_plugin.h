/* What the module of plugin.c offers. */
#ifndef PART_PLUGIN_H
#define PART_PLUGIN_H

#include "check.h"

uint32_t plugin_begin(uint32_t threads);
void plugin_use(const unsigned char *data, size_t len, bytes *coded);
void plugin_end(int wait);

#endif
