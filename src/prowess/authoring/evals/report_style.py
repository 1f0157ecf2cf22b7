"""The style sheet of the HTML report, in light and dark."""

STYLE = """
:root{--bg:#fbfbfa;--panel:#fff;--line:#e4e4e0;--text:#1d1d1b;--soft:#6b6b66;--accent:#2f5fd0;--good:#1a7f4b;--bad:#c0362c;
--warn:#9a6700;--goodbg:#e3f4ea;--badbg:#fbe6e4;--plainbg:#ececea}
@media (prefers-color-scheme:dark){:root{--bg:#161615;--panel:#1f1f1d;--line:#363633;--text:#ececea;--soft:#a3a39c;
--accent:#7da2f5;--good:#5cc98d;--bad:#f08a80;--warn:#e0b04a;--goodbg:#173425;--badbg:#45201c;--plainbg:#2c2c2a}}
*{box-sizing:border-box}
body{margin:0;background:var(--bg);color:var(--text);font:15px/1.5 system-ui,-apple-system,"Segoe UI",sans-serif}
main{max-width:960px;margin:0 auto;padding:32px 20px 64px}
h1{font-size:26px;margin:0 0 12px;display:flex;gap:12px;align-items:center;flex-wrap:wrap;letter-spacing:-.01em}
h2{font-size:18px;margin:0 0 8px}
h3{font-size:13px;font-weight:600;color:var(--soft);margin:0}
section{background:var(--panel);border:1px solid var(--line);border-radius:10px;padding:20px;margin-top:20px}
dl{display:flex;flex-wrap:wrap;gap:8px 32px;margin:0}
dt{font-size:12px;color:var(--soft)}
dd{margin:0;overflow-wrap:anywhere}
code,pre{font-family:ui-monospace,SFMono-Regular,Menlo,monospace;font-size:13px}
.tiles{display:grid;grid-template-columns:repeat(auto-fit,minmax(170px,1fr));gap:12px;margin-top:8px}
.tile{border:1px solid var(--line);border-radius:8px;padding:12px 14px}
.figure{font-size:26px;font-weight:600;margin:2px 0;font-variant-numeric:tabular-nums}
.small{font-size:13px;color:var(--soft);margin:0}
.badge{font-size:12px;font-weight:600;border-radius:20px;padding:2px 10px;white-space:nowrap;background:var(--plainbg);
letter-spacing:0}
.badge.good{background:var(--goodbg);color:var(--good)}
.badge.bad{background:var(--badbg);color:var(--bad)}
.scroll{overflow-x:auto}
table{border-collapse:collapse;width:100%;margin-top:12px;font-size:14px;font-variant-numeric:tabular-nums}
th{text-align:left;font-size:12px;font-weight:600;color:var(--soft);padding:6px 12px 6px 0;border-bottom:1px solid var(--line)}
td{padding:7px 12px 7px 0;border-bottom:1px solid var(--line);vertical-align:top}
tbody tr:last-child td{border-bottom:0}
.sign{display:inline-block;width:20px;height:20px;line-height:20px;border-radius:5px;text-align:center;font-weight:700;
font-size:12px;margin-right:3px}
.sign.pass{background:var(--goodbg);color:var(--good)}
.sign.fail{background:var(--badbg);color:var(--bad)}
.sign.error{background:var(--plainbg);color:var(--warn)}
details{border-top:1px solid var(--line);padding:10px 0}
details:first-of-type{border-top:0}
summary{cursor:pointer}
summary:focus-visible{outline:2px solid var(--accent);outline-offset:3px;border-radius:4px}
ul{list-style:none;padding:0;margin:10px 0}
li{margin:6px 0}
pre{background:var(--bg);border:1px solid var(--line);border-radius:8px;padding:12px;margin:8px 0 0;white-space:pre-wrap;
overflow-wrap:anywhere;max-height:420px;overflow:auto}
.error{color:var(--bad);margin:8px 0}
svg{width:100%;height:auto;display:block;margin-top:8px}
svg text{fill:var(--text);font-size:13px}
svg .label{text-anchor:end}
svg .tick{fill:var(--soft);text-anchor:middle;font-size:12px}
svg .note{font-weight:600;font-variant-numeric:tabular-nums}
svg .grid{stroke:var(--line)}
svg .zero{stroke:var(--soft);stroke-width:1.5}
svg .interval{stroke-width:3;stroke:var(--accent)}
svg .cap{stroke-width:2;stroke:var(--accent)}
svg .dot{fill:var(--accent);stroke:var(--panel);stroke-width:2}
svg .muted{stroke:var(--soft)}
svg .dot.muted{fill:var(--soft);stroke:var(--panel)}
svg .good{stroke:var(--good)}
svg .dot.good{fill:var(--good);stroke:var(--panel)}
svg .bad{stroke:var(--bad)}
svg .dot.bad{fill:var(--bad);stroke:var(--panel)}
@media print{section{break-inside:avoid}pre{max-height:none}}
"""
