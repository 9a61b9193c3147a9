"""What a measure has to show, and how it is written: as a page, and as text for the docs."""

import html

from stats import number

STYLE = """
:root { color-scheme: light dark; --paper: #fff; --ink: #1c2128; --pale: #6a737d; --line: #d8dee4;
  --weft: #0b7285; --inline: #7aaab5; --peer: #c2571a; --plain: #6a737d; --good: #1a7f37;
  --bad: #c9252d; }
@media (prefers-color-scheme: dark) { :root { --paper: #14181d; --ink: #e4e8ec; --pale: #98a2ad;
  --line: #333b44; --weft: #3fb6c9; --inline: #457983; --peer: #f0883e; --plain: #98a2ad;
  --good: #4ac26b; --bad: #ff7b72; } }
body { background: var(--paper); color: var(--ink); font: 15px/1.5 system-ui, sans-serif;
  max-width: 64rem; margin: 2rem auto; padding: 0 1rem; }
h1, h2, h3 { line-height: 1.2; } h2 { margin-top: 3rem; } h3 { margin-top: 2rem; }
.wide { overflow-x: auto; } table { border-collapse: collapse; font-size: 13px; }
th, td { padding: .2rem .6rem; border-bottom: 1px solid var(--line); text-align: left;
  vertical-align: top; font-variant-numeric: tabular-nums; }
td.n { text-align: right; white-space: nowrap; } td.met { color: var(--good); }
td.missed { color: var(--bad); } code { font-size: 13px; } .pale { color: var(--pale); }
svg { width: 100%; height: auto; margin: 1rem 0; } svg text { font: 12px system-ui, sans-serif;
  fill: var(--ink); } svg .title { font-size: 14px; font-weight: 600; }
svg .tick { fill: var(--pale); font-size: 11px; } svg .grid { stroke: var(--line); }
svg .whisker { stroke: var(--pale); stroke-width: 1.5; } svg .weft { fill: var(--weft); }
svg .inline { fill: var(--inline); } svg .peer { fill: var(--peer); }
svg .plain { fill: var(--plain); }
"""


class Table:
    def __init__(self, title, head, rows):
        self.title, self.head, self.rows = title, head, rows


class Section:
    """Tables, and plots as SVG text, under a title, with the command behind them."""

    def __init__(self, title, text, command=""):
        self.title, self.text, self.command = title, text, command
        self.parts = []

    def add(self, part):
        self.parts.append(part)


def _cell(value):
    if isinstance(value, float):
        return number(value)
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}"
    return str(value)


def _html_table(table):
    out = ['<div class="wide"><table><tr>']
    out += [f"<th>{html.escape(str(name))}</th>" for name in table.head]
    out.append("</tr>")
    for row in table.rows:
        cells = []
        for value in row:
            text = html.escape(_cell(value))
            kind = {"met": "met", "missed": "missed"}.get(text)
            kind = kind or ("n" if text[:1].isdigit() and len(text) < 30 else "")
            cells.append(f'<td class="{kind}">{text}</td>' if kind else f"<td>{text}</td>")
        out.append("<tr>" + "".join(cells) + "</tr>")
    return "\n".join([*out, "</table></div>"])


def page(title, sections):
    out = [
        '<!doctype html><html lang="en"><meta charset="utf-8">',
        '<meta name="viewport" content="width=device-width">',
        f"<title>{html.escape(title)}</title><style>{STYLE}</style><h1>{html.escape(title)}</h1>",
    ]
    for section in sections:
        out.append(f"<h2>{html.escape(section.title)}</h2><p>{html.escape(section.text)}</p>")
        if section.command:
            out.append(f'<p class="pale"><code>{html.escape(section.command)}</code></p>')
        for part in section.parts:
            if isinstance(part, Table):
                if part.title:
                    out.append(f"<h3>{html.escape(part.title)}</h3>")
                out.append(_html_table(part))
            else:
                out.append(part)
    return "\n".join(out) + "\n"


def _wrapped(text, width=104):
    lines, line = [], ""
    for word in text.split():
        if line and len(line) + 1 + len(word) > width:
            lines.append(line)
            line = word
        else:
            line = f"{line} {word}".strip()
    return "\n".join([*lines, line])


def text(title, sections):
    """Markdown: the tables, without the plots."""
    out = [f"# {title}", "", "`make bench` writes this file's text; `make bench-docs` puts it here."]
    for section in sections:
        out += ["", f"## {section.title}", "", _wrapped(section.text)]
        if section.command:
            out += ["", "    " + section.command]
        for part in section.parts:
            if isinstance(part, Table):
                out += ["", f"### {part.title}"] if part.title else []
                out += ["", "| " + " | ".join(map(str, part.head)) + " |"]
                out.append("|" + "---|" * len(part.head))
                for row in part.rows:
                    out.append("| " + " | ".join(_cell(value) for value in row) + " |")
    return "\n".join(out) + "\n"
