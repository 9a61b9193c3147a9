/* The header in two translation units of one program: it defines nothing twice. */
#include <weft.h>
#include <weft.h>

#include "check.h"

uint32_t version_of_the_other_unit(void);
const char *text_of_the_other_unit(weft_status status);

int main(void)
{
    CHECK_EQ(weft_version_number(), version_of_the_other_unit());
    CHECK(weft_status_string(WEFT_AGAIN) == text_of_the_other_unit(WEFT_AGAIN));
    return 0;
}
