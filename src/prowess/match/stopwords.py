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

STOP_WORDS = frozenset(f"{_GRAMMAR} {_ASKING} {_CUT}".split())
