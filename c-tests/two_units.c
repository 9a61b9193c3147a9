/*
 * The header stands in two translation units of one program, and is enough by itself in each.
 */
#include <weft.h>
#include <weft.h> /* twice does no harm */

#include "body.h"
#include "part_two_units.h"

int main(void)
{
    unsigned char *data = make(100000, TEXT, 1);
    weft_engine *engine = engine_in_other_unit();
    weft_stream_options options = options_at(WEFT_LEVEL_DEFAULT);
    plan how = { 0 };
    CHECK_EQ(version_in_other_unit(), weft_version_number());
    send_body(engine, &options, &how, data, 100000, NULL);
    engine_end(engine);
    free(data);
    return 0;
}
