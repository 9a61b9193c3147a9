/* The other half of two_units.c: nothing stands before the header here, not even the system's. */
#include <weft.h>

#include "part_two_units.h"

weft_engine *engine_in_other_unit(void)
{
    weft_engine *engine = NULL;
    return weft_engine_new(NULL, &engine) == WEFT_OK ? engine : NULL;
}

uint32_t version_in_other_unit(void)
{
    return weft_version_number();
}
