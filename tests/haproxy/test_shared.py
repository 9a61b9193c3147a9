"""The cases that nginx, Apache and HAProxy share: which responses are coded, and with which headers."""

import test_choice
import test_headers
from proxy.case import SharedCase, not_here


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
