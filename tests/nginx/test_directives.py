"""Every directive: right and wrong values, each context, and the message that is seen.

A row of TABLE is (directive, contexts, [right values], [(wrong value, part of the message)]).
Contexts: M http, S server, L location, I if in location.
"""

import os
import unittest

from harness.case import Site
from harness.nginx import ROOT, has

MSL, MSLI = "MSL", "MSLI"
NUMBER = "invalid number of arguments"
SIZE = "invalid value"

FLAG = (["on", "off"], [("", NUMBER), ("yes", "it must be \"on\" or \"off\""), ("on on", NUMBER)])
TYPES = (["*", "text/css", "text/css application/json"], [("", NUMBER)])
LENGTH = (["0", "20", "1k", "5m"], [("x", SIZE), ("-1", SIZE), ("", NUMBER)])
TASKS = (["1", "4", "256"], [("0", "between 1 and 256"), ("257", "between 1 and 256"), ("x", "invalid number")])
SEGMENT = (["4k", "1m", "64m"], [("1k", "between 4k and 64m"), ("65m", "between 4k and 64m"), ("x", SIZE)])
POOL = (["off", "default"], [("", NUMBER), ("a b", NUMBER), ('""', "empty name")])
RETENTION = (
    ["retain_all", "release_all", "bounded 8m"],
    [
        ("bounded", "needs a size"),
        ("bounded x", "invalid size"),
        ("release_all 1m", "after \"bounded\" only"),
        ("keep", "must be \"retain_all\""),
    ],
)
STATIC = (["on", "off", "always"], [("", NUMBER), ("yes", "invalid value \"yes\"")])
IDLE = (["0", "4", "100"], [("x", "invalid number"), ("-1", "invalid number"), ("", NUMBER)])

TABLE = [
    (
        "weft",
        MSLI,
        ["off", "zstd", "br", "gzip", "zstd br gzip", "gzip zstd"],
        [
            ("", NUMBER),
            ("on", "must be \"off\" or a list"),
            ("deflate", "invalid value \"deflate\""),
            ("zstd zstd", "duplicate value \"zstd\""),
            ("zstd off", "invalid value \"off\""),
        ],
    ),
    (
        "weft_level",
        MSL,
        ["zstd=3", "zstd=-131072", "zstd=22 br=0 gzip=9", "br=11", "zstd=$arg_l", "gzip=${arg_l}"],
        [
            ("", NUMBER),
            ("3", "like \"zstd=3\""),
            ("zstd=", "like \"zstd=3\""),
            ("zstd=3x", "like \"zstd=3\""),
            ("lzma=3", "like \"zstd=3\""),
            ("zstd=23", "between -131072 and 22"),
            ("br=12", "between 0 and 11"),
            ("br=-1", "between 0 and 11"),
            ("gzip=10", "between 0 and 9"),
            ("zstd=3 zstd=4", "duplicate level for \"zstd\""),
            ("zstd=$nothing_here", "unknown \"nothing_here\" variable"),
        ],
    ),
    ("weft_types", MSL, *TYPES),
    ("weft_min_length", MSL, *LENGTH),
    (
        "weft_statuses",
        MSL,
        ["200", "*", "200 201 404 500", "599"],
        [
            ("", NUMBER),
            ("ok", "must be \"*\" or a list of statuses"),
            ("199", "between 200 and 599"),
            ("600", "between 200 and 599"),
            ("204", "has no body"),
            ("205", "has no body"),
            ("206", "a part of one"),
            ("304", "has no body"),
            ("200 *", "invalid value \"*\""),
        ],
    ),
    ("weft_when", MSL, ["1", "$arg_a", "$arg_a$arg_b"], [("", NUMBER), ("$nothing_here", "unknown")]),
    ("weft_vary", MSL, *FLAG),
    ("weft_no_transform", MSL, *FLAG),
    ("weft_thread_pool", MSL, *POOL),
    ("weft_parallel_tasks", MSL, *TASKS),
    ("weft_segment_size", MSL, *SEGMENT),
    ("weft_history_size", MSL, ["0", "32k", "8m"], [("9m", "at most 8m"), ("x", SIZE), ("", NUMBER)]),
    ("weft_max_memory", "M", ["0", "64m", "2g"], [("x", SIZE), ("", NUMBER)]),
    ("weft_retention", "M", *RETENTION),
    ("weft_idle_encoders", "M", *IDLE),
    (
        "weft_overload",
        "M",
        ["off", "2s", "500ms", "2s 10s", "2s 2s"],
        [
            ("", NUMBER),
            ("0", "it must be \"off\""),
            ("x", "it must be \"off\""),
            ("2s x", "invalid value \"x\""),
            ("2s 1s", "below the first"),
            ("off 1s", "invalid value \"off\""),
        ],
    ),
    ("weft_static", MSL, *STATIC),
    ("weft_status", "L", [""], [("on", NUMBER)]),
    ("brotli", MSLI, *FLAG),
    ("brotli_types", MSL, *TYPES),
    (
        "brotli_comp_level",
        MSL,
        ["0", "6", "11"],
        [("12", "value must be between 0 and 11"), ("-1", "value must be"), ("x", "invalid number"), ("", NUMBER)],
    ),
    (
        "brotli_window",
        MSL,
        ["1k", "2k", "4k", "8k", "16k", "32k", "64k", "128k", "256k", "512k", "1m", "2m", "4m", "8m", "16m"],
        [("3k", "must be 1k, 2k"), ("32m", "must be 1k, 2k"), ("512", "must be 1k, 2k"), ("x", SIZE), ("", NUMBER)],
    ),
    ("brotli_min_length", MSL, *LENGTH),
    ("brotli_buffers", MSL, ["32 4k", "16 8k"], [("32", NUMBER), ("x 4k", SIZE), ("4 x", SIZE)]),
    ("brotli_static", MSL, *STATIC),
    ("brotli_thread_pool", MSL, *POOL),
    ("brotli_parallel_segment_size", MSL, *SEGMENT),
    ("brotli_parallel_tasks", MSL, *TASKS),
    ("brotli_parallel_compressors", MSL, *IDLE),
    ("brotli_retention_policy", MSL, *RETENTION),
    ("zstd", MSLI, *FLAG),
    ("zstd_types", MSL, *TYPES),
    ("zstd_min_length", MSL, [*LENGTH[0], "20 words behind it"], LENGTH[1]),
    (
        "zstd_comp_level",
        MSL,
        ["-131072", "-1", "1", "22"],
        [
            ("0", "and not 0"),
            ("23", "value must be between -131072 and 22"),
            ("-131073", "value must be"),
            ("x", "invalid number"),
            ("--1", "invalid number"),
            ("", NUMBER),
        ],
    ),
    ("zstd_buffers", MSL, ["32 4k", "16 8k"], [("32", NUMBER), ("x 4k", SIZE), ("4 x", SIZE)]),
    ("zstd_dict_file", "M", ["dictionary"], [("", NUMBER)]),
    ("zstd_static", MSL, *STATIC),
    ("zstd_thread_pool", MSL, *POOL),
    ("zstd_parallel_segment_size", MSL, *SEGMENT),
    ("zstd_parallel_tasks", MSL, *TASKS),
    ("zstd_parallel_compressors", MSL, *IDLE),
    ("zstd_retention_policy", MSL, *RETENTION),
]

# These may stand twice in one place: there is one store for all, and the largest value counts.
REPEATED = ("_parallel_compressors", "_retention_policy", "_status", "zstd_dict_file")


def place(directive, context):
    """The pieces of configuration with the directive in that context."""
    if context in "MS":
        return {"http" if context == "M" else "server": directive}
    inner = directive if context == "L" else f"if ($arg_a) {{ {directive} }}"
    return {"server": f"location /x/ {{ {inner} }}"}


def check(pieces):
    """(exit status, the lines of [emerg], the lines of [warn], the number of the marked line)."""
    site = Site(**pieces)
    try:
        site.nginx.ports = [8080]
        site.nginx.write_config()
        with open(site.nginx.config) as file:
            marked = [number for number, line in enumerate(file, 1) if "# here" in line]
        status, said = site.nginx.test_config()
        levels = [[line for line in said.splitlines() if f"[{level}]" in line] for level in ("emerg", "warn")]
        return status, *levels, marked[0] if marked else 0
    finally:
        site.discard()


class Table(unittest.TestCase):
    def all_right(self, pieces):
        """One nginx for many directives: a message of it names the line of the one that is wrong."""
        status, emerg, warn, _ = check(pieces)
        self.assertEqual((status, emerg), (0, []))
        if has("threads"):
            self.assertEqual(warn, [])

    def test_right_values(self):
        locations = []
        for name, contexts, right, _ in TABLE:
            for value in right:
                if contexts != "M":
                    locations.append(f"location /{len(locations)}/ {{ {name} {value}; }}")
                elif name != "zstd_dict_file":
                    with self.subTest(directive=name, value=value):
                        self.all_right({"http": f"{name} {value};"})
        self.all_right({"server": "\n".join(locations)})

    def test_wrong_values_name_what_file_and_line(self):
        for name, contexts, _, wrong in TABLE:
            for value, part in wrong:
                with self.subTest(directive=name, value=value):
                    status, emerg, _, line = check(place(f"{name} {value}; # here\n", contexts[0]))
                    self.assertEqual((status, len(emerg)), (1, 1), emerg)
                    self.assertIn(part, emerg[0])
                    # nginx looks for variables that were never set at the end of the file.
                    if "unknown" not in part:
                        # nor does it name the directive of a word that it does not know.
                        if not name.endswith("_static") or part == NUMBER:
                            self.assertIn(name, emerg[0])
                        self.assertRegex(emerg[0], rf"nginx\.conf:{line}$")

    def test_each_context(self):
        rows = [(f"{name} {right[0]};", contexts) for name, contexts, right, _ in TABLE if name != "zstd_dict_file"]
        of = {context: [text for text, contexts in rows if context in contexts] for context in "MSLI"}
        self.all_right({"http": "\n".join(of["M"])})
        self.all_right({"server": "\n".join(of["S"])})
        self.all_right({"server": "\n".join(f"location /{n}/ {{ {text} }}" for n, text in enumerate(of["L"]))})
        inner = (f"location /{n}/ {{ if ($arg_a) {{ {text} }} }}" for n, text in enumerate(of["I"]))
        self.all_right({"server": "\n".join(inner)})

    def test_no_other_context(self):
        for name, contexts, right, _ in TABLE:
            for context in set("MSLI") - set(contexts):
                with self.subTest(directive=name, context=context):
                    status, emerg, _, line = check(place(f"{name} {right[0]}; # here\n", context))
                    self.assertEqual((status, len(emerg)), (1, 1))
                    self.assertIn(f'"{name}" directive is not allowed here', emerg[0])
                    self.assertRegex(emerg[0], rf"nginx\.conf:{line}$")

    def test_twice_in_one_place(self):
        for name, contexts, right, _ in TABLE:
            if name.endswith(REPEATED):
                continue
            with self.subTest(directive=name):
                status, emerg, warn, line = check(
                    place(f"{name} {right[0]}; {name} {right[0]}; # here\n", contexts[0])
                )
                if name.endswith("_types"):
                    # nginx's own: the second line adds to the first.
                    self.assertEqual(status, 0)
                    continue
                self.assertEqual((status, len(emerg)), (1, 1), emerg)
                self.assertRegex(emerg[0], rf"duplicate.*nginx\.conf:{line}$")

    def test_each_is_documented(self):
        with open(os.path.join(ROOT, "docs/nginx.md")) as file:
            text = file.read()
        for name, *_ in TABLE:
            family, _, rest = name.partition("_")
            named = {name, rest} if rest.startswith(("parallel", "retention", "thread")) else {name}
            self.assertTrue(any(f"`{word}" in text or f"### {word}\n" in text for word in named), name)

    def test_dictionary_is_ignored_with_a_warning(self):
        status, _, warn, line = check(place("zstd_dict_file /some/where; # here\n", "M"))
        self.assertEqual((status, len(warn)), (0, 1))
        self.assertRegex(warn[0], rf'"zstd_dict_file" is ignored.*nginx\.conf:{line}$')

    @unittest.skipUnless(has("threads"), "no threads")
    def test_unknown_pool(self):
        """nginx's own message, at the end of the file."""
        for family in ("weft", "brotli", "zstd"):
            switch = "weft zstd;" if family == "weft" else f"{family} on;"
            status, emerg, _, _ = check(place(f"{switch} {family}_thread_pool nowhere;", "M"))
            self.assertEqual((status, len(emerg)), (1, 1))
            self.assertIn('unknown thread pool "nowhere"', emerg[0])
