"""Character data of Unicode 17.0.0 (emoji sequences: 18.0), written by scripts/unicode_tables.py.

Copyright Unicode, Inc., under the Unicode License v3. Each table is the inside of a regular expression's character class.
"""

UNICODE_VERSION = "17.0.0"

DEFAULT_IGNORABLE = (
    "\u00ad\u034f\u061c\u115f-\u1160\u17b4-\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f\u3164"
    "\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufff8\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff"
)
"""Default_Ignorable_Code_Point: invisible characters."""

JOINING = (
    "\u0620\u0622-\u064a\u066e-\u066f\u0671-\u0673\u0675-\u06d3\u06d5\u06ee-\u06ef\u06fa-\u06fc\u06ff\u0710"
    "\u0712-\u072f\u074d-\u077f\u07ca-\u07ea\u07fa\u0840-\u0858\u0860\u0862-\u0865\u0867-\u086a\u0870-\u0886"
    "\u0889-\u088e\u08a0-\u08ac\u08ae-\u08c8\u1807\u180a\u1820-\u1878\u1887-\u18a8\u18aa\ua840-\ua872\U00010ac0-\U00010ac5"
    "\U00010ac7\U00010ac9-\U00010aca\U00010acd-\U00010ae1\U00010ae4\U00010aeb-\U00010aef\U00010b80-\U00010b91"
    "\U00010ba9-\U00010bae\U00010d00-\U00010d23\U00010ec2-\U00010ec4\U00010f30-\U00010f44\U00010f51-\U00010f54"
    "\U00010f70-\U00010f81\U00010fb0\U00010fb2-\U00010fb6\U00010fb8-\U00010fbf\U00010fc1-\U00010fc4\U00010fc9-\U00010fcb"
    "\U0001e900-\U0001e943"
)
"""Letters of cursive scripts (Joining_Type C, D, L and R)."""

UNIFIED_IDEOGRAPH = (
    "\u3400-\u4dbf\u4e00-\u9fff\ufa0e-\ufa0f\ufa11\ufa13-\ufa14\ufa1f\ufa21\ufa23-\ufa24\ufa27-\ufa29\U00020000-\U0002a6df"
    "\U0002a700-\U0002b739\U0002b740-\U0002b81d\U0002b820-\U0002cea1\U0002ceb0-\U0002ebe0\U0002ebf0-\U0002ee5d"
    "\U00030000-\U0003134a\U00031350-\U000323af"
)
"""Characters that ideographic variation selectors may follow."""

EMOJI_VARIATION = (
    "\u0023\u002a\u0030-\u0039\u00a9\u00ae\u203c\u2049\u2122\u2139\u2194-\u2199\u21a9-\u21aa\u231a-\u231b\u2328"
    "\u23cf\u23e9-\u23f3\u23f8-\u23fa\u24c2\u25aa-\u25ab\u25b6\u25c0\u25fb-\u25fe\u2600-\u2604\u260e\u2611\u2614-\u2615"
    "\u2618\u261d\u2620\u2622-\u2623\u2626\u262a\u262e-\u262f\u2638-\u263a\u2640\u2642\u2648-\u2653\u265f-\u2660"
    "\u2663\u2665-\u2666\u2668\u267b\u267e-\u267f\u2692-\u2697\u2699\u269b-\u269c\u26a0-\u26a1\u26a7\u26aa-\u26ab"
    "\u26b0-\u26b1\u26bd-\u26be\u26c4-\u26c5\u26c8\u26ce-\u26cf\u26d1\u26d3-\u26d4\u26e9-\u26ea\u26f0-\u26f5"
    "\u26f7-\u26fa\u26fd\u2702\u2705\u2708-\u270d\u270f\u2712\u2714\u2716\u271d\u2721\u2728\u2733-\u2734\u2744"
    "\u2747\u274c\u274e\u2753-\u2755\u2757\u2763-\u2764\u2795-\u2797\u27a1\u27b0\u27bf\u2934-\u2935\u2b05-\u2b07"
    "\u2b1b-\u2b1c\u2b50\u2b55\u3030\u303d\u3297\u3299\U0001f004\U0001f170-\U0001f171\U0001f17e-\U0001f17f"
    "\U0001f202\U0001f21a\U0001f22f\U0001f237\U0001f30d-\U0001f30f\U0001f315\U0001f31c\U0001f321\U0001f324-\U0001f32c"
    "\U0001f336\U0001f378\U0001f37d\U0001f393\U0001f396-\U0001f397\U0001f399-\U0001f39b\U0001f39e-\U0001f39f"
    "\U0001f3a7\U0001f3ac-\U0001f3ae\U0001f3c2\U0001f3c4\U0001f3c6\U0001f3ca-\U0001f3ce\U0001f3d4-\U0001f3e0"
    "\U0001f3ed\U0001f3f3\U0001f3f5\U0001f3f7\U0001f408\U0001f415\U0001f41f\U0001f426\U0001f43f\U0001f441-\U0001f442"
    "\U0001f446-\U0001f449\U0001f44d-\U0001f44e\U0001f453\U0001f46a\U0001f47d\U0001f4a3\U0001f4b0\U0001f4b3"
    "\U0001f4bb\U0001f4bf\U0001f4cb\U0001f4da\U0001f4df\U0001f4e4-\U0001f4e6\U0001f4ea-\U0001f4ed\U0001f4f7"
    "\U0001f4f9-\U0001f4fb\U0001f4fd\U0001f508\U0001f50d\U0001f512-\U0001f513\U0001f549-\U0001f54a\U0001f550-\U0001f567"
    "\U0001f56f-\U0001f570\U0001f573-\U0001f579\U0001f587\U0001f58a-\U0001f58d\U0001f590\U0001f5a5\U0001f5a8"
    "\U0001f5b1-\U0001f5b2\U0001f5bc\U0001f5c2-\U0001f5c4\U0001f5d1-\U0001f5d3\U0001f5dc-\U0001f5de\U0001f5e1"
    "\U0001f5e3\U0001f5e8\U0001f5ef\U0001f5f3\U0001f5fa\U0001f610\U0001f687\U0001f68d\U0001f691\U0001f694"
    "\U0001f698\U0001f6ad\U0001f6b2\U0001f6b9-\U0001f6ba\U0001f6bc\U0001f6cb\U0001f6cd-\U0001f6cf\U0001f6e0-\U0001f6e5"
    "\U0001f6e9\U0001f6f0\U0001f6f3"
)
"""Characters that U+FE0E and U+FE0F may follow."""

STANDARD_VARIATION = (
    "\u0030\u1000\u1002\u1004\u1010-\u1011\u1015\u1019-\u101a\u101c-\u101d\u1022\u1031\u1075\u1078\u107a\u1080"
    "\u2018-\u2019\u201c-\u201d\u210b\u2110\u2112\u211b\u212c\u2130-\u2131\u2133\u2205\u2229-\u222a\u2268-\u2269"
    "\u2272-\u2273\u228a-\u228b\u2293-\u2295\u2297\u229c\u22da-\u22db\u2a3c-\u2a3d\u2a9d-\u2a9e\u2aac-\u2aad"
    "\u2acb-\u2acc\u3001-\u3002\ua856\ua85c\ua85e-\ua860\ua868\uaa60-\uaa66\uaa6b-\uaa6c\uaa6f\uaa7a\uff01\uff0c"
    "\uff0e\uff10\uff1a-\uff1b\uff1f\U00010ac5-\U00010ac6\U00010ad6-\U00010ad7\U00010ae1\U00013091\U00013093"
    "\U0001310f\U00013117\U0001311c\U00013121\U00013127\U00013132\U00013139\U00013183\U00013187\U000131a0"
    "\U000131b1\U000131b8-\U000131ba\U000131cb\U000131e0\U000131ee\U000131f8-\U000131fa\U00013216\U00013257"
    "\U0001327b\U0001327f\U00013285\U0001328c\U000132a4\U000132aa\U000132cb\U000132dc\U000132e7\U000132e9"
    "\U000132f8\U000132fd\U00013302-\U00013303\U00013307-\U00013308\U00013310-\U00013314\U0001331b-\U0001331c"
    "\U00013321-\U00013322\U00013331\U00013338\U0001333c\U0001334a\U00013361\U00013373\U00013377-\U00013378"
    "\U0001337d\U00013385\U00013399-\U0001339a\U000133af-\U000133b0\U000133bf\U000133d3\U000133db\U000133dd"
    "\U000133e5\U000133e7-\U000133e8\U000133f2\U000133f5-\U000133f6\U00013416\U00013419-\U0001341a\U00013423"
    "\U0001342c\U0001342e\U00013443-\U00013446\U0001d49c\U0001d49e-\U0001d49f\U0001d4a2\U0001d4a5-\U0001d4a6"
    "\U0001d4a9-\U0001d4ac\U0001d4ae-\U0001d4b5"
)
"""Characters, other than ideographs, that U+FE00 to U+FE0D may follow."""

EMOJI_JOINS = (
    ("🙂", "↔↕"),
    ("🏴", "☠"),
    ("⛹🏄🏊🏋🏌👮👯👰👱👳👷💁💂💆💇🕵🙅🙆🙇🙋🙍🙎🚣🚴🚵🤦🤵🤷🤸🤹🤼🤽🤾🦸🦹🧍🧏🧔🧖🧗🧘🧙🧚🧛🧜🧝🧞🧟", "♀♂"),
    ("🏃🚶🧎", "♀♂➡"),
    ("🧑", "⚕⚖✈❤🌾🍳🍼🎄🎓🎤🎨🏫🏭🐰💻💼🔧🔬🚀🚒🤝🦯🦰🦱🦲🦳🦼🦽🧑🧒🩰🫯"),
    ("👨", "⚕⚖✈❤🌾🍳🍼🎓🎤🎨🏫🏭🐰👦👧👨👩💻💼🔧🔬🚀🚒🤝🦯🦰🦱🦲🦳🦼🦽🫯"),
    ("👩", "⚕⚖✈❤🌾🍳🍼🎓🎤🎨🏫🏭🐰👦👧👩💻💼🔧🔬🚀🚒🤝🦯🦰🦱🦲🦳🦼🦽🫯"),
    ("🏳", "⚧🌈"),
    ("🐻", "❄"),
    ("♀♂🦯🦼🦽", "➡"),
    ("🐈", "⬛"),
    ("🐦", "⬛🔥"),
    ("😶", "🌫"),
    ("👦", "👦"),
    ("👧", "👦👧"),
    ("❤", "👨👩💋🔥🧑🩹"),
    ("🐰💋🤝🫯", "👨👩🧑"),
    ("⛓", "💥"),
    ("😮", "💨"),
    ("😵", "💫"),
    ("👁", "🗨"),
    ("🍋", "🟩"),
    ("🍄", "🟫"),
    ("🐕", "🦺"),
    ("🧒", "🧒"),
    ("🫱", "🫲"),
)
"""Emoji, and those that a joiner may join to each of them."""
