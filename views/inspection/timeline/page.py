"""A drawing as a page of its own that zooms, without anything loaded from elsewhere."""

from __future__ import annotations

from html import escape

_PAGE = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<style>
body {{ margin: 2rem auto; padding: 0 12px; max-width: {width}px; background: #ffffff; color: #5b6470;
  font: 13px/1.5 {font}; }}
svg {{ display: block; max-width: 100%; height: auto; border-radius: 6px; }}
svg.zoomed {{ cursor: grab; touch-action: none; }}
svg g:hover > rect[stroke], svg rect[stroke]:hover {{ stroke-width: 2.5; stroke-opacity: 1; }}
nav {{ display: flex; flex-wrap: wrap; gap: 6px 8px; align-items: center; margin: 0 0 10px; }}
button {{ font: inherit; min-width: 2.4em; padding: 2px 8px; border: 1px solid #9aa3af; border-radius: 5px;
  background: transparent; color: inherit; cursor: pointer; }}
@media (max-width: 640px) {{ body {{ margin: 10px auto; }} }}
@media (prefers-color-scheme: dark) {{ body {{ background: #16191d; color: #b6bec9; }} }}
@media print {{ nav {{ display: none; }} }}
</style>
</head>
<body>
<nav hidden>
<button type="button" data-zoom="0.5" aria-label="zoom in">+</button>
<button type="button" data-zoom="2" aria-label="zoom out">&minus;</button>
<button type="button" data-zoom="0" aria-label="show all">all</button>
<span>Ctrl and the wheel, a double click, or the keys + &minus; 0 zoom; drag to move.</span>
</nav>
{svg}
<script>
{script}
</script>
</body>
</html>
"""

_SCRIPT = """(() => {
  const svg = document.querySelector("body > svg"), nav = document.querySelector("nav");
  const whole = svg.getAttribute("viewBox").split(" ").map(Number), most = 64;
  let [x, y, width, height] = whole, held = null;
  const within = (value, low, high) => Math.min(Math.max(value, low), high);
  const show = () => {
    x = within(x, whole[0], whole[0] + whole[2] - width);
    y = within(y, whole[1], whole[1] + whole[3] - height);
    svg.setAttribute("viewBox", [x, y, width, height].join(" "));
    svg.classList.toggle("zoomed", width < whole[2]);
  };
  const share = (event) => {
    const box = svg.getBoundingClientRect();
    return [(event.clientX - box.left) / box.width, (event.clientY - box.top) / box.height];
  };
  const zoom = (factor, [across, down] = [0.5, 0.5]) => {
    const to = within(width * factor, whole[2] / most, whole[2]), scale = to / width;
    x += across * width * (1 - scale);
    y += down * height * (1 - scale);
    width *= scale;
    height *= scale;
    show();
  };
  const all = () => { [x, y, width, height] = whole; show(); };
  const by = (factor) => (factor ? zoom(factor) : all());
  nav.hidden = false;
  nav.addEventListener("click", (event) => {
    const factor = event.target.dataset.zoom;
    if (factor !== undefined) by(Number(factor));
  });
  svg.addEventListener("wheel", (event) => {
    if (!event.ctrlKey && !event.metaKey) return;
    event.preventDefault();
    zoom(Math.exp(within(event.deltaY, -100, 100) / 250), share(event));
  }, { passive: false });
  // A double click zooms, and selects no text.
  svg.addEventListener("mousedown", (event) => { if (event.detail > 1) event.preventDefault(); });
  svg.addEventListener("dblclick", (event) => { event.preventDefault(); zoom(0.5, share(event)); });
  svg.addEventListener("pointerdown", (event) => {
    if (event.button === 0 && width < whole[2]) {
      held = [event.clientX, event.clientY];
      svg.setPointerCapture(event.pointerId);
    }
  });
  svg.addEventListener("pointermove", (event) => {
    if (held === null) return;
    const box = svg.getBoundingClientRect();
    x -= (event.clientX - held[0]) / box.width * width;
    y -= (event.clientY - held[1]) / box.height * height;
    held = [event.clientX, event.clientY];
    show();
  });
  for (const end of ["pointerup", "pointercancel"]) svg.addEventListener(end, () => { held = null; });
  document.addEventListener("keydown", (event) => {
    const factor = { "+": 0.5, "=": 0.5, "-": 2, "0": 0 }[event.key];
    if (factor !== undefined && !event.ctrlKey && !event.metaKey && !event.altKey) by(factor);
  });
})();"""


def page(svg: str, title: str, width: int, font: str) -> str:
    """Return a drawing as a self-contained page of this width; without scripts it shows the drawing as it is."""
    return _PAGE.format(title=escape(title), width=width, font=font, svg=svg, script=_SCRIPT)
