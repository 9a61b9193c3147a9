/* The other unit of two_units.c. */
#include <weft.h>

uint32_t version_of_the_other_unit(void);
const char *text_of_the_other_unit(weft_status status);

uint32_t version_of_the_other_unit(void)
{
    return weft_version_number();
}

const char *text_of_the_other_unit(weft_status status)
{
    return weft_status_string(status);
}
