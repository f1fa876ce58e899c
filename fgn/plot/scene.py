"""A drawing that changes in steps: boxes with a fill and a text, which change from step to step.

A Scene is drawn once, in Python. A notebook shows it with a slider, by a script of a few lines that only
changes fills and texts; `svg()` is one step as a static picture, for pages without scripts.
"""

from __future__ import annotations

import base64
import hashlib
import html
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

# Fills by name. The page has names instead of colours in each step, so that a step is short.
FILLS = {
    "": "none",
    "empty": "#FFFFFF",
    "untouched": "#F1F3F5",
    "held": "#C9DCEA",  # memory that has been written
    "read": "#31688E",
    "read by others": "#8DB3CF",
    "written": "#E69F00",
    "written by others": "#F4D58D",
    "waits": "#B8B8B8",
    "met": "#9B6FB5",
    "wrong": "#D5322D",
    "line": "#FFF1C9",
    "wrong line": "#F8C9C7",
}
_NAMES = list(FILLS)
_LIGHT_TEXT = {"read", "met", "wrong"}
TEXT = ("#1b1f23", "#ffffff")  # on a light fill, on a dark one
MARGIN = 8  # pixels around a scene
FRAME = ' stroke="#AAB2BA" stroke-width=".5"'

# Fonts by the kind of a text.
_FONTS = {
    "small": "font:9px sans-serif",
    "plain": "font:12px sans-serif",
    "bold": "font:bold 12px sans-serif",
    "code": "font:11px monospace;white-space:pre",
}


@dataclass(frozen=True)
class _Box:
    x: float
    y: float
    width: float
    height: float
    fill: str
    text: str
    font: str
    framed: bool
    centred: bool

    def text_place(self) -> tuple[float, float, str]:
        middle = self.x + self.width / 2 if self.centred else self.x
        return middle, self.y + self.height / 2 + 4, ' text-anchor="middle"' if self.centred else ""


def _outline(boxes: Sequence[_Box]) -> str:
    """The rectangles as one path. Boxes of one size side by side are drawn as one long box with lines in it,
    which takes a third of the text: a page has thousands of boxes."""
    pieces, place = [], 0
    while place < len(boxes):
        first, count = boxes[place], 1
        while place + count < len(boxes):
            box = boxes[place + count]
            same = (box.y, box.width, box.height) == (first.y, first.width, first.height)
            if not same or abs(box.x - first.x - count * first.width) > 0.01:
                break
            count += 1
        width, height = first.width, first.height
        pieces.append(f"M{first.x:g} {first.y:g}h{count * width:g}v{height:g}h-{count * width:g}z")
        pieces += [f"m{width:g} 0v{height:g}m0-{height:g}" for _ in range(count - 1)]
        place += count
    return "".join(pieces)


@dataclass
class Scene:
    """width, height: in pixels. `box()` adds a box and returns its number; `step()` adds a step."""

    width: int
    height: int
    _boxes: list[_Box] = field(default_factory=list)
    _changes: list[dict[int, tuple[str, str]]] = field(default_factory=list)
    _now: dict[int, tuple[str, str]] = field(default_factory=dict)

    def box(self, x, y, width, height, fill="", text="", font="small", framed=True, centred=True) -> int:
        """A rectangle with a text in it; `framed=False` for a text alone. Returns the box's number."""
        self._boxes.append(_Box(x, y, width, height, fill, text, font, framed, centred))
        return len(self._boxes) - 1

    def label(self, x, y, text="", font="plain") -> int:
        """A line of text that begins at (x, y), its upper left corner."""
        return self.box(x, y, 0, 16, "", text, font, framed=False, centred=False)

    def step(self, state: dict[int, tuple[str, str]]):
        """Adds a step: the fill and the text of every box that differs from its initial state."""
        first = {number: (self._boxes[number].fill, self._boxes[number].text) for number in self._now}
        wanted = first | state
        changed = {
            number: look
            for number, look in wanted.items()
            if self._now.get(number, (self._boxes[number].fill, self._boxes[number].text)) != look
        }
        self._now = wanted
        self._changes.append(changed)

    def __len__(self) -> int:
        return len(self._changes)

    def _looks(self, step: int) -> dict[int, tuple[str, str]]:
        looks: dict[int, tuple[str, str]] = {}
        for changed in self._changes[: step + 1]:
            looks |= changed
        return looks

    def _drawn(self, numbers: Iterable[int], looks: dict[int, tuple[str, str]]) -> str:
        """Some of the boxes, as they look."""
        outlines: dict[tuple[bool, str], list[_Box]] = {}
        texts: dict[str, list[str]] = {}  # by the attributes that they share
        for number in numbers:
            box = self._boxes[number]
            fill, text = looks.get(number, (box.fill, box.text))
            if box.framed or fill:
                outlines.setdefault((box.framed, fill), []).append(box)
            if text:
                x, y, anchor = box.text_place()
                light = box.framed and fill in _LIGHT_TEXT
                texts.setdefault(f'{anchor} class="{box.font}" fill="{TEXT[light]}"', []).append(
                    f'<text x="{x:g}" y="{y:g}">{html.escape(text)}</text>'
                )
        paths = "".join(
            f'<path fill="{FILLS[fill]}"{FRAME if framed else ""} d="{_outline(boxes)}"/>'
            for (framed, fill), boxes in outlines.items()
        )
        return paths + "".join(f"<g{shared}>{''.join(each)}</g>" for shared, each in texts.items())

    def _page(self, drawn: str) -> str:
        left, top, width, height = self._view()
        head = f'viewBox="{left} {top} {width} {height}" width="{width}" height="{height}"'
        page = f'<rect x="{left}" y="{top}" width="{width}" height="{height}" fill="#fff"/>'
        style = "".join(f".{name}{{{font}}}" for name, font in _FONTS.items())
        style = f"<style>{style}.code text{{white-space:pre}}</style>"  # which a text does not inherit
        return f'<svg xmlns="http://www.w3.org/2000/svg" {head}>{style}{page}{drawn}</svg>'

    def _view(self) -> tuple[int, int, int, int]:
        return -MARGIN, -MARGIN, self.width + 2 * MARGIN, self.height + 2 * MARGIN

    def svg(self, step: int) -> str:
        """One step as an SVG picture; `step` counts from 0, or from the end if it is negative."""
        return self._page(self._drawn(range(len(self._boxes)), self._looks(range(len(self))[step])))

    def animated(self, seconds: float) -> str:
        """All steps as one animated SVG picture without a script, `seconds` for each, the last one twice as
        long; then it begins again."""
        changing = {number for changed in self._changes for number in changed}
        looks = [self._looks(step) for step in range(len(self))]
        # Boxes that never change are drawn once.
        moving = {number for number in changing if len({look.get(number) for look in looks}) > 1}
        drawn = self._drawn((number for number in range(len(self._boxes)) if number not in moving), looks[0])
        count = len(self) + 1
        for step, look in enumerate(looks):
            begin, end = step / count, (count if step == len(self) - 1 else step + 1) / count
            values = {0.0: "hidden", begin: "visible"} | ({end: "hidden"} if end < 1 else {})
            drawn += (
                f'<g visibility="{"hidden" if step else "visible"}"><animate attributeName="visibility" '
                f'values="{";".join(values.values())}" keyTimes="{";".join(f"{at:.4g}" for at in values)}" '
                f'calcMode="discrete" dur="{seconds * count:g}s" repeatCount="indefinite"/>'
                f"{self._drawn(sorted(moving), look)}</g>"
            )
        return self._page(drawn)

    def picture(self, step: int, caption: str = "") -> str:
        """One step as an HTML image, which needs no script."""
        data = base64.b64encode(self.svg(step).encode()).decode()
        words = html.escape(caption or f"step {range(len(self))[step] + 1} of {len(self)}", quote=True)
        style = "max-width:100%;height:auto;border:1px solid #d0d7de;background:#fff"
        return f'<img alt="{words}" title="{words}" style="{style}" src="data:image/svg+xml;base64,{data}">'

    def player(self, first: int = 0) -> str:
        """The scene with a slider. `first`: the step that is shown at first, and the only one without
        scripts."""
        first = range(len(self))[first]
        data = {
            "fills": list(FILLS.values()),
            "light": [_NAMES.index(name) for name in sorted(_LIGHT_TEXT)],
            "view": self._view(),
            "fonts": list(_FONTS.values()),
            "boxes": [
                [
                    *(round(value, 1) for value in (box.x, box.y, box.width, box.height)),
                    list(_FONTS).index(box.font),
                    int(box.framed),
                    int(box.centred),
                ]
                for box in self._boxes
            ],
            "start": [_NAMES.index(box.fill) for box in self._boxes],
            "words": [box.text for box in self._boxes],
            "steps": [
                [[number, _NAMES.index(fill), text] for number, (fill, text) in changed.items()]
                for changed in self._changes
            ],
        }
        words = json.dumps(data, ensure_ascii=False, separators=(",", ":")).replace("</", "<\\/")
        name = "fgn-player-" + hashlib.sha256(words.encode()).hexdigest()[:12]
        script = _SCRIPT % {"name": name, "first": first, "data": words}
        return (
            f'<div class="fgn-player" id="{name}" style="max-width:{self._view()[2]}px;margin:4px 0">'
            f"{self.picture(first)}</div><script>{script}</script>"
        )


# The script replaces the picture by a drawing with a slider. Two players of the same scene share a name, so
# the script takes the first one without a slider.
_SCRIPT = """
(function () {
  const root = document.querySelector('[id="%(name)s"]:not([data-ready])');
  if (!root) return;
  const data = %(data)s, [,, width, height] = data.view;
  root.dataset.ready = 1;
  root.innerHTML = '<div style="display:flex;gap:8px;align-items:center;font:13px sans-serif">' +
    '<button type="button" class="fgn-back" aria-label="one step back">‹</button>' +
    '<button type="button" class="fgn-play" aria-label="play">▶</button>' +
    '<button type="button" class="fgn-on" aria-label="one step on">›</button>' +
    '<input type="range" class="fgn-step" aria-label="step" style="flex:1" min="1" value="1">' +
    '<output style="min-width:7em;text-align:right"></output></div>' +
    '<svg viewBox="' + data.view.join(' ') + '" width="' + width + '" height="' + height +
    '" style="max-width:100%%;height:auto;display:block;background:#fff;border:1px solid #d0d7de"></svg>';
  const svg = root.querySelector('svg'), slider = root.querySelector('input');
  const button = root.querySelector('.fgn-play'), words = root.querySelector('output');
  function add(kind, attributes) {
    const element = document.createElementNS('http://www.w3.org/2000/svg', kind);
    for (const name in attributes) element.setAttribute(name, attributes[name]);
    return svg.appendChild(element);
  }
  const boxes = data.boxes.map(([x, y, w, h, font, framed, centred]) => ({
    framed,
    rect: add('rect', {x, y, width: w, height: h, ...(framed && {stroke: '#AAB2BA', 'stroke-width': .5})}),
    text: add('text', {x: centred ? x + w / 2 : x, y: y + h / 2 + 4, style: data.fonts[font],
                       'text-anchor': centred ? 'middle' : 'start'}),
  }));
  slider.max = data.steps.length;
  let shown = null;
  function look(number, fill, word) {
    const {framed, rect, text} = boxes[number];
    rect.setAttribute('fill', data.fills[fill]);
    text.setAttribute('fill', framed && data.light.includes(fill) ? '#ffffff' : '#1b1f23');
    if (text.textContent !== word) text.textContent = word;
  }
  function show(step) {
    if (shown === null || step < shown) {
      data.start.forEach((fill, number) => look(number, fill, data.words[number]));
      shown = -1;
    }
    while (shown < step) data.steps[++shown].forEach(change => look(...change));
    slider.value = step + 1;
    words.textContent = 'step ' + (step + 1) + ' of ' + data.steps.length;
  }
  let timer = null;
  function stop() { clearInterval(timer); timer = null; button.textContent = '▶'; }
  slider.addEventListener('input', () => { stop(); show(slider.value - 1); });
  function turn(by) { stop(); show(Math.min(Math.max(shown + by, 0), data.steps.length - 1)); }
  root.querySelector('.fgn-back').addEventListener('click', () => turn(-1));
  root.querySelector('.fgn-on').addEventListener('click', () => turn(1));
  button.addEventListener('click', () => {
    if (timer) return stop();
    if (shown === data.steps.length - 1) show(0);
    button.textContent = '❚❚';
    timer = setInterval(() => shown < data.steps.length - 1 ? show(shown + 1) : stop(), 350);
  });
  show(%(first)d);
})();
"""
