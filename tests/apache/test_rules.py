"""Which responses are coded and with which headers: HOSTS's rules, most of them nginx's own cases."""

import test_choice
import test_codings
import test_headers
from httpd.case import ApacheCase, body, not_here, of_each_coding

PAGE = body("text", 3000)
BY_TYPE = "AddOutputFilterByType WEFT text/html\n"
ALL = "SetOutputFilter WEFT\n"
UP = "ProxyPass /up/ http://%UP%/\nProxyPassReverse /up/ http://%UP%/\n"


class Client(ApacheCase, test_choice.Client):
    server = "Weft zstd\n" + BY_TYPE

    test_http_1_0_keep_alive_is_not_kept = not_here("Apache counts a small body and keeps the connection")


class Length(ApacheCase, test_choice.Length):
    server = (
        "Weft zstd\n" + BY_TYPE + UP + "Alias /thousand/ %DIR%/www/\nAlias /zero/ %DIR%/www/\n"
        "<Location /thousand/>\nWeftMinLength 1000\n</Location>\n<Location /zero/>\nWeftMinLength 0\n</Location>"
    )


class Status(ApacheCase, test_choice.Status):
    server = (
        "Weft zstd\n" + ALL + UP + "ErrorDocument 404 /gone.html\nErrorDocument 403 /gone.html\n"
        "<Location /forbidden/>\nRequire all denied\n</Location>"
    )

    test_return = not_here("nginx's directive return")
    test_built_in_error_page = not_here("Apache takes the content's filters off for its own error pages")


class Already(ApacheCase, test_choice.Already):
    server = "Weft zstd\n" + BY_TYPE + UP


class GrpcAndType(ApacheCase):
    upstream = True
    server = "Weft zstd\n" + UP + "AddOutputFilterByType WEFT text/html application/grpc application/json\n"

    def test_types(self):
        for kind in ("text/html", "text/html; charset=utf-8", "application/json"):
            with self.subTest(kind=kind):
                self.assert_coded(self.get(test_choice.path(type=kind)), PAGE)
        for kind in ("application/grpc", "text/plain", "image/png"):
            with self.subTest(kind=kind):
                response = self.get(test_choice.path(type=kind))
                self.assert_plain(response, PAGE)
                self.assertNotIn("Vary", response)


@of_each_coding
class Headers(ApacheCase, test_headers.Static):
    server = (
        "Weft %CODING%\n" + BY_TYPE + "Header set X-Own kept\n"
        + "".join(f"Alias /{n}/ %DIR%/www/\n" for n in ("vary", "vary-twice", "vary-has", "vary-star", "gzip-vary",
                                                        "no-etag"))
        + "<Location /vary/>\nHeader set Vary Cookie\n</Location>\n"
        "<Location /vary-twice/>\nHeader add Vary Cookie\nHeader add Vary Accept-Language\n</Location>\n"
        '<Location /vary-has/>\nHeader set Vary "cookie, accept-encoding"\n</Location>\n'
        "<Location /vary-star/>\nHeader set Vary *\n</Location>\n"
        "<Location /gzip-vary/>\nSetOutputFilter WEFT;DEFLATE\n</Location>\n"
        "<Directory %DIR%/www>\nFileETag MTime Size\n</Directory>\n<Location /no-etag/>\nFileETag None\n</Location>\n"
    )

    test_trailer = not_here("nginx's directive add_trailer")

    def test_head_has_no_body_and_keeps_the_connection(self):
        if self.coding == "zstd":
            super().test_head_has_no_body_and_keeps_the_connection()

    def heads(self, uri, ae):
        """GET's headers may have the length of the coded body, HEAD does not know it."""
        found = super().heads(uri, ae)
        return [[p for p in pairs if not (ae and p[0].lower() == "content-length")] for pairs in found]


def places():
    """Those of test_codings, as Apache has them. What is longer comes first."""
    for name in test_codings.CODINGS:
        start = f"/{name}/pool"
        for way, more in (("up", ""), ("direct", " flushpackets=on")):
            yield f"ProxyPass {start}/{way}/ http://%UP%/{more}"
        for place in ("vary/", "star/", "charset/", ""):
            yield f"Alias {start}/{place} %DIR%/www/"
        types = "text/html text/css text/event-stream application/grpc"
        yield f"<Location {start}/>\nWeft {name}\nAddOutputFilterByType WEFT {types}\n</Location>"
        yield f"<Location {start}/vary/>\nHeader set Vary Cookie\n</Location>"
        yield f"<Location {start}/star/>\nHeader set Vary *\n</Location>"
        yield f"<Location {start}/charset/>\nAddCharset utf-8 .css\n</Location>"
        yield f"<Location {start}/ssi/>\nSetOutputFilter INCLUDES\n</Location>"


class Rules(ApacheCase, test_codings.Rules):
    server = "\n".join(places())
    pools, protocols, first = ("pool",), ("h1", "h2"), {}
    # GET's headers may have the length of the coded body, HEAD does not know it.
    only_of_get = (*test_codings.Rules.only_of_get, "content-length")

    test_default_statuses_and_no_others = not_here("AddOutputFilterByType leaves errors alone: see Status")
    test_listed_types_and_html_and_no_others = not_here("AddOutputFilterByType minds case: see GrpcAndType")
    test_a_reload_lets_what_has_begun_end = not_here("a signal of nginx's: see test_bodies for a graceful restart")

    @test_codings.each
    def test_empty_bodies(self, prefix):
        """One that Apache has whole at once, so that it knows its length, goes as it is."""
        for behaviour in ("length", "chunked"):
            response = self.fetch(prefix + test_choice.path(behaviour, 0, type="text/html"))
            (self.assert_coded if response.coding else self.assert_plain)(response, b"")
