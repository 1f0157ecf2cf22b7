"""Words that say nothing about which skill is meant."""

from __future__ import annotations

_GRAMMAR = """
a about after again all also am an and any are as at be because been before being below between both but by can could
did do does doing done down during each either else etc ever every few for from further had has have having he her here
hers him his how however i if in into is it its itself just let me might more most must my no nor not now of off on
once only or other our ours out over own per rather same shall she should since so some such than that the their theirs
them themselves then there these they this those though through thus to too toward towards under unless until up upon us
very was we were what whatever when whenever where whether which while who whom whose why will with within without would
yet you your yours yourself
"""

_ASKING = """
able assist available dont get give given gives got help helps hello hey hi kindly like
make makes need needed needs ok okay please sure thank thanks use used uses using via want wanted wants
"""

_CUT = "ll ve re isn aren wasn weren doesn didn don hasn haven hadn won wouldn couldn shouldn mustn cannot"
"""What the apostrophe leaves of a shortened verb."""

_PAIRS = """
我们 你们 他们 帮助 我的 你的 什么 怎么 么样 怎样 如何 一个 一些 一下 可以 能够 这个 那个 这些 那些 帮我 请帮 给我 我想 想要 需要 是否 请问 谢谢
です ます した して する ください こと もの から まで どう です ですか ため この その あの
니다 습니 어요 아요 해주 해줘 주세 세요 하는 에서 으로 그리 리고
"""
"""Pairs of characters that are grammar in Chinese, Japanese and Korean."""

STOP_WORDS = frozenset(f"{_GRAMMAR} {_ASKING} {_CUT} {_PAIRS}".split())
