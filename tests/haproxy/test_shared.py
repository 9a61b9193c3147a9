"""The cases that nginx, Apache and HAProxy share: which responses are coded, and with which headers."""

import test_choice
import test_codings
import test_headers
from proxy.case import SharedCase, not_here, version


class Client(SharedCase, test_choice.Client):
    server = test_choice.Client.server
    files = test_choice.Client.files

    test_http_1_0_is_coded_and_ended_by_close = not_here("HAProxy tells the end of a coded body by chunks")
    test_http_1_0_keep_alive_is_not_kept = not_here("HAProxy tells the end of a coded body by chunks")


class Length(SharedCase, test_choice.Length):
    server = test_choice.Length.server

    test_min_length = not_here("one filter line has one min-length: see Thousand")
    test_min_length_zero = not_here("one filter line has one min-length: see Zero")


class Thousand(SharedCase, test_choice.Length):
    filter = "codings zstd min-length 1000"
    server = test_choice.Length.server

    test_shorter_than_twenty = test_min_length_zero = not_here("see Length and Zero")
    test_unknown_length_is_coded = test_upstream_length = not_here("see Length")


class Zero(SharedCase, test_choice.Length):
    filter = "codings zstd min-length 0"
    server = test_choice.Length.server

    test_shorter_than_twenty = test_min_length = not_here("see Length and Thousand")
    test_unknown_length_is_coded = test_upstream_length = not_here("see Length")


class Status(SharedCase, test_choice.Status):
    filter = "codings zstd types *"
    server = test_choice.Status.server


class Already(SharedCase, test_choice.Already):
    server = test_choice.Already.server


class Headers(SharedCase, test_headers.Static):
    server = test_headers.Static.server

    test_range_on_coded_is_ignored = not_here("the server behind answers ranges, and its 206 passes")
    test_trailer = not_here("a trailer of nginx's, which sends none with a length")


class Proxied(SharedCase, test_headers.Proxied):
    server = test_headers.Proxied.server


class Rules(SharedCase, test_codings.Rules):
    """The rules over HTTP/1 and HTTP/2, one coding after the other."""

    filter = "codings zstd types text/css,text/event-stream"
    server = test_codings.Rules.server
    fetch = test_codings.Rules.fetch
    # HTTP/2 of 2.6 ends such a stream with END_STREAM.
    hides_cuts = ("h2",) if version() < (3, 0) else ()
    # Their bodies end with the connection: HAProxy tells the end of a coded body by chunks.
    codes_http_1_0 = False

    test_a_reload_lets_what_has_begun_end = not_here("a signal of nginx's: see test_threads for HAProxy's")
    codings, pools, protocols, first = ("zstd",), ("pool",), ("h1", "h2"), {}

    test_range_on_a_coded_200_is_ignored_and_on_identity_served = not_here(
        "the server behind answers ranges, and its 206 passes: see test_rules"
    )


class RulesBrotli(Rules):
    filter = "codings br types text/css,text/event-stream"
    codings, first = ("br",), {}


class RulesGzip(Rules):
    filter = "codings gzip types text/css,text/event-stream"
    codings, first = ("gzip",), {}
