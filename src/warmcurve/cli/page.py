"""The page of a demonstration: one self-contained file of HTML with inline SVG, no script and no network."""

import math
from collections.abc import Sequence
from html import escape
from itertools import accumulate
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from warmcurve.embedded.trial import Booted, Shown

_WIDTH, _HEIGHT, _LEFT, _RIGHT, _TOP, _BOTTOM = 520, 280, 56, 16, 14, 44
_NAMES: Final = {
    "plain": "no speculation",
    "fixed": "all 7 drafts",
    "adaptive-fresh": "adaptive, fresh curves",
    "adaptive-stored": "adaptive, stored curves",
}
_STYLE: Final = """
:root { --page: #ffffff; --ink: #1c2430; --dim: #667085; --line: #e4e7ec;
  --plain: #98a2b3; --fixed: #5b8def; --adaptive-fresh: #8fd3a8; --adaptive-stored: #0f9d63; --eager: #e5843d; }
@media (prefers-color-scheme: dark) { :root { --page: #12161c; --ink: #e8ecf2; --dim: #97a3b4; --line: #2a313c; } }
* { box-sizing: border-box } body { margin: 0; background: var(--page); color: var(--ink);
  font: 16px/1.55 system-ui, -apple-system, "Segoe UI", Roboto, "DejaVu Sans", sans-serif; }
main { max-width: 1120px; margin: 0 auto; padding: 44px 24px 64px } h1 { font-size: 30px; margin: 0 0 6px }
h2 { font-size: 19px; margin: 44px 0 4px } p { margin: 4px 0 14px; max-width: 78ch; color: var(--dim) }
.facts { display: flex; flex-wrap: wrap; gap: 14px; margin: 26px 0 0 }
.fact { flex: 1 1 200px; border: 1px solid var(--line); border-radius: 12px; padding: 14px 18px }
.fact b { display: block; font-size: 25px; letter-spacing: -.01em } .fact span { color: var(--dim); font-size: 14px }
.pair { display: grid; grid-template-columns: repeat(auto-fit, minmax(420px, 1fr)); gap: 18px }
figure { margin: 8px 0 0; border: 1px solid var(--line); border-radius: 12px; padding: 14px 14px 8px }
figcaption { font-weight: 600; font-size: 15px; margin: 0 0 6px 4px } svg { width: 100%; height: auto; display: block }
text { fill: var(--dim); font-size: 12px } text.value { fill: var(--ink); font-size: 13px; font-weight: 600 }
.grid { stroke: var(--line) } .step { fill: none; stroke: var(--adaptive-stored); stroke-width: 2.4 }
.eager { fill: none; stroke: var(--eager); stroke-width: 2.4; stroke-dasharray: 6 4 }
.limit { stroke: var(--dim); stroke-dasharray: 2 4 } .dot { fill: var(--adaptive-stored) }
table { border-collapse: collapse; width: 100%; font-size: 14px; font-variant-numeric: tabular-nums; margin-top: 8px }
th, td { text-align: left; padding: 7px 10px; border-bottom: 1px solid var(--line) } th { color: var(--dim) }
td.n, th.n { text-align: right } code { font: 13px ui-monospace, "DejaVu Sans Mono", monospace }
"""


def page(shown: "Shown", limits: str) -> str:
    cold, warm = shown.boots["cold"], shown.boots["warm"]
    share = warm.report.calibration_ms / cold.report.calibration_ms
    facts = (
        (f"{cold.report.calibration_ms:.0f} → {warm.report.calibration_ms:.0f} ms", "calibration phase, cold → warm"),
        (f"{share:.1%}", "of the cold calibration is what the warm boot spent"),
        (f"{cold.report.calibration_runs} → {warm.report.sentinel_runs}", "timed runs, cold → warm"),
        ("yes" if shown.identical_output() else "NO", "all modes emit the same bytes"),
    )
    tiles = "".join(f'<div class="fact"><b>{escape(b)}</b><span>{escape(s)}</span></div>' for b, s in facts)
    batches = list(dict.fromkeys(each.batch for each in shown.serving))
    charts = "".join(
        _figure(
            f"{batch} requests at once",
            _bars(
                [
                    (_NAMES[each.mode], each.tokens_per_s, f"{each.tokens_per_s:,.0f} bytes/s", f"var(--{each.mode})")
                    for each in shown.serving
                    if each.batch == batch
                ]
            ),
        )
        for batch in batches
    )
    phases = [
        part
        for name, booted in shown.boots.items()
        for part in (
            (f"{name}: calibration", booted.report.calibration_ms, _runs(booted), "var(--adaptive-stored)"),
            (f"{name}: whole boot", booted.boot_ms, f"{booted.boot_ms:,.0f} ms", "var(--plain)"),
        )
    ]
    profile = warm.profile
    return f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>warmcurve: the embedded engine, cold and warm</title><style>{_STYLE}</style></head><body><main>
<h1>A cost curve, measured once</h1>
<p>{escape(cold.report.engine)} measured what its steps cost, stored the two curves, and booted again from them after
replaying {warm.report.sentinel_runs} sizes. Then it served the same prompts in four modes.</p>
<div class="facts">{tiles}</div>
<h2>Boots</h2><p>The whole boot loads the weights and touches the buffers as well. {escape(limits)}</p>
{_figure("Time to curves in place, and of the whole boot", _bars(phases, width=2 * _WIDTH, height=40))}
<h2>The two curves</h2>
<p>A step is padded to the next captured size up to {profile.capture_limit} tokens, so its cost is a staircase;
above, it runs as it is. The budget of a step is the number of drafts with the most expected bytes per ms.</p>
<div class="pair">
{_figure("Verification: ms by target tokens", _curve(profile.verify.points(), profile.capture_limit))}
{_figure("Drafting: ms by requests", _curve(profile.draft.points(), profile.draft.sizes[-1]))}
</div>
<h2>Serving</h2><p>The fastest of several interleaved rounds; on a busy machine some percent are noise.</p>
<div class="pair">{charts}</div>
{_table(shown)}
</main></body></html>
"""


def _runs(booted: "Booted") -> str:
    report = booted.report
    runs = f"{report.calibration_runs} runs" if report.calibration_runs else f"{report.sentinel_runs} replays"
    return f"{report.calibration_ms:,.0f} ms, {runs}"


def _figure(caption: str, drawing: str) -> str:
    return f"<figure><figcaption>{escape(caption)}</figcaption>{drawing}</figure>"


def _bars(bars: Sequence[tuple[str, float, str, str]], width: int = _WIDTH, height: int = 46) -> str:
    """Horizontal bars: (name, value, what to write at its end, colour)."""
    largest = max(value for _, value, _, _ in bars)
    room = width - 310
    parts = []
    for index, (name, value, label, colour) in enumerate(bars):
        top, length = index * height + 6, max(2.0, value / largest * room)
        middle = top + (height - 12) / 2 + 4
        parts.append(
            f'<text x="168" y="{middle:.1f}" text-anchor="end">{escape(name)}</text>'
            f'<rect x="178" y="{top}" width="{length:.1f}" height="{height - 12}" rx="4" fill="{colour}"/>'
            f'<text class="value" x="{186 + length:.1f}" y="{middle:.1f}">{escape(label)}</text>'
        )
    return f'<svg viewBox="0 0 {width} {len(bars) * height + 6}" role="img">{"".join(parts)}</svg>'


def _curve(points: Sequence[tuple[int, float]], limit: int) -> str:
    """Both axes logarithmic; a staircase up to the limit, lines between the points above it."""
    # A curve of one point has no width of its own.
    low, high = points[0][0], max(points[-1][0], points[0][0] + 1)
    bottom = 10 ** math.floor(math.log10(min(ms for _, ms in points)))
    top = max(ms for _, ms in points) * 1.25

    def x(size: float) -> float:
        return _LEFT + (_WIDTH - _LEFT - _RIGHT) * math.log(size / low) / math.log(high / low)

    def y(ms: float) -> float:
        return _HEIGHT - _BOTTOM - (_HEIGHT - _TOP - _BOTTOM) * math.log(ms / bottom) / math.log(top / bottom)

    parts = []
    for mark in (base * 10**power for power in range(-3, 5) for base in (1, 2, 5)):
        if bottom <= mark <= top:
            parts.append(
                f'<line class="grid" x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" y1="{y(mark):.1f}" y2="{y(mark):.1f}"/>'
            )
            parts.append(f'<text x="{_LEFT - 8}" y="{y(mark) + 4:.1f}" text-anchor="end">{mark:g}</text>')
    parts += [
        f'<text x="{x(size):.1f}" y="{_HEIGHT - _BOTTOM + 20}" text-anchor="middle">{size}</text>'
        for size in (2**power for power in range(12))
        if low <= size <= high
    ]
    # As the planner reads it: no size is cheaper than a smaller one.
    costs = list(accumulate((ms for _, ms in points), max))
    peaks = [(size, ms) for (size, _), ms in zip(points, costs, strict=True)]
    captured = [point for point in peaks if point[0] <= limit]
    stairs = [f"M{x(captured[0][0]):.1f} {y(captured[0][1]):.1f}"]
    stairs += [f"V{y(ms):.1f}H{x(size):.1f}" for size, ms in captured[1:]]
    parts.append(f'<path class="step" d="{"".join(stairs)}"/>')
    eager = peaks[len(captured) :]
    if eager:
        line = "L".join(f"{x(size):.1f} {y(ms):.1f}" for size, ms in eager)
        parts.append(f'<path class="eager" d="M{line}"/>')
        parts.append(
            f'<line class="limit" x1="{x(limit):.1f}" x2="{x(limit):.1f}" y1="{_TOP}" y2="{_HEIGHT - _BOTTOM}"/>'
        )
        parts.append(f'<text x="{x(limit) - 6:.1f}" y="{_TOP + 12}" text-anchor="end">captured up to {limit}</text>')
    parts += [
        f'<circle class="dot" cx="{x(size):.1f}" cy="{y(ms):.1f}" r="3.2"><title>{size}: {ms:.3g} ms</title></circle>'
        for size, ms in points
    ]
    return f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img">{"".join(parts)}</svg>'


def _table(shown: "Shown") -> str:
    rows = "".join(
        f'<tr><td class="n">{each.batch}</td><td>{_NAMES[each.mode]}</td><td class="n">{each.tokens_per_s:,.0f}</td>'
        f'<td class="n">{each.accepted_per_step:.2f}</td><td><code>{each.output_sha256[:16]}</code></td></tr>'
        for each in shown.serving
    )
    return (
        '<table><tr><th class="n">batch</th><th>mode</th><th class="n">bytes/s</th><th class="n">accepted a step</th>'
        f"<th>sha256 of the output</th></tr>{rows}</table>"
    )
