/* The other half of two_units.c. */
#ifndef PART_TWO_UNITS_H
#define PART_TWO_UNITS_H

#include <weft.h>

weft_engine *engine_in_other_unit(void);
uint32_t version_in_other_unit(void);

#endif
