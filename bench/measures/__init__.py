"""One module for each measure: NAME, run(ctx) for the raw figures, section(raw) to show them."""

from . import events, instructions, large, latency, memory, size, throughput, urgent

MEASURES = {
    one.NAME: one
    for one in (latency, throughput, large, memory, size, events, instructions, urgent)
}
