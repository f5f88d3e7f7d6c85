# SPDX-License-Identifier: Apache-2.0
"""Bar charts as SVG, standard library only; each for a light and for a dark page."""

from xml.sax.saxutils import escape

WIDTH, ROW, LEFT, RIGHT, TOP = 860, 30, 310, 90, 64


class Theme:
    def __init__(self, suffix, page, ink, faint, good, bad, plain):
        self.suffix, self.page, self.ink, self.faint = suffix, page, ink, faint
        self.good, self.bad, self.plain = good, bad, plain


THEMES = (
    Theme("", "#ffffff", "#1f2328", "#656d76", "#2f7d4f", "#b4532a", "#3b6ea5"),
    Theme("-dark", "#0d1117", "#e6edf3", "#8d96a0", "#4fb477", "#e08a5b", "#6ea8e0"),
)


def bars(path, title, rows, unit="", limit_words=""):
    """Write @path, and a second file with "-dark" in its name; False without a value.

    @rows: (name, value, limit or None, True when less is better).
    """
    rows = [row for row in rows if row[1] is not None]
    if not rows:
        return False
    for theme in THEMES:
        name = f"{path.stem}{theme.suffix}{path.suffix}"
        path.with_name(name).write_text(picture(theme, title, rows, unit, limit_words))
    return True


def picture(theme, title, rows, unit, limit_words):
    top = max([row[1] for row in rows] + [row[2] or 0 for row in rows]) or 1.0
    scale = (WIDTH - LEFT - RIGHT) / top
    height = TOP + ROW * len(rows) + 24
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" '
           f'font-family="sans-serif" font-size="13" fill="{theme.ink}">',
           f'<rect width="{WIDTH}" height="{height}" fill="{theme.page}"/>',
           f'<text x="16" y="26" font-size="16">{escape(title)}</text>',
           f'<text x="16" y="46" fill="{theme.faint}">{escape(limit_words)}</text>']
    for number, row in enumerate(rows):
        out += bar(theme, TOP + ROW * number, scale, row, unit)
    out.append("</svg>")
    return "\n".join(out) + "\n"


def bar(theme, y, scale, row, unit):
    name, value, limit, less = row
    colour = (theme.plain if limit is None else
              theme.good if (value <= limit) == less else theme.bad)
    yield f'<text x="{LEFT - 8}" y="{y + 16}" text-anchor="end">{escape(name)}</text>'
    yield (f'<rect x="{LEFT}" y="{y + 3}" width="{max(1.0, value * scale):.1f}" '
           f'height="{ROW - 10}" fill="{colour}"/>')
    yield (f'<text x="{LEFT + value * scale + 6:.1f}" y="{y + 17}">'
           f'{value:.4g}{escape(unit)}</text>')
    if limit is not None:
        x = LEFT + limit * scale
        yield (f'<line x1="{x:.1f}" y1="{y}" x2="{x:.1f}" y2="{y + ROW - 4}" '
               f'stroke="{theme.ink}" stroke-dasharray="3 2"/>')
