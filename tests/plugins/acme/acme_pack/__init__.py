"""One of everything that a plugin can bring."""

from pathlib import Path

from acme_pack.letters import LetterEmbedder
from acme_pack.notebook import NOTEBOOK
from acme_pack.query import SQL_QUERY, QueryHandler
from acme_pack.tone import TONE
from acme_pack.weekday import acme_weekday
from prowess.plugins import Plugin, PluginTool

plugin = Plugin(
    name="acme",
    packs=(Path(__file__).parent / "skills",),
    kinds=(SQL_QUERY,),
    handlers=(QueryHandler(),),
    forms=(NOTEBOOK,),
    assertions=(TONE,),
    embedders={"acme.letters": LetterEmbedder},
    tools=(PluginTool(function=acme_weekday, effect="reads"),),
)
