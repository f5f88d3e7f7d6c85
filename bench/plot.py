# SPDX-License-Identifier: Apache-2.0
"""Bar charts as SVG, standard library only."""

from xml.sax.saxutils import escape

WIDTH, ROW, LEFT, RIGHT, TOP = 860, 30, 310, 90, 64
GOOD, BAD, PLAIN = "#2f7d4f", "#b4532a", "#3b6ea5"


def bars(path, title, rows, unit="", limit_words=""):
    """@rows: (name, value, limit or None, True when less is better)."""
    rows = [row for row in rows if row[1] is not None]
    if not rows:
        return False
    top = max([row[1] for row in rows] + [row[2] or 0 for row in rows]) or 1.0
    scale = (WIDTH - LEFT - RIGHT) / top
    height = TOP + ROW * len(rows) + 24
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" '
           'font-family="sans-serif" font-size="13">',
           f'<rect width="{WIDTH}" height="{height}" fill="white"/>',
           f'<text x="16" y="26" font-size="16">{escape(title)}</text>',
           f'<text x="16" y="46" fill="#666">{escape(limit_words)}</text>']
    for number, (name, value, limit, less) in enumerate(rows):
        y = TOP + ROW * number
        colour = PLAIN if limit is None else GOOD if (value <= limit) == less else BAD
        out.append(f'<text x="{LEFT - 8}" y="{y + 16}" text-anchor="end">{escape(name)}</text>')
        out.append(f'<rect x="{LEFT}" y="{y + 3}" width="{max(1.0, value * scale):.1f}" '
                   f'height="{ROW - 10}" fill="{colour}"/>')
        out.append(f'<text x="{LEFT + value * scale + 6:.1f}" y="{y + 17}">'
                   f'{value:.4g}{escape(unit)}</text>')
        if limit is not None:
            x = LEFT + limit * scale
            out.append(f'<line x1="{x:.1f}" y1="{y}" x2="{x:.1f}" y2="{y + ROW - 4}" '
                       'stroke="black" stroke-dasharray="3 2"/>')
    out.append("</svg>")
    path.write_text("\n".join(out) + "\n")
    return True
