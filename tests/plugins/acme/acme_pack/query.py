"""A kind of artifact: a SQL query over the tables that a run is given."""

import asyncio
import sqlite3
from typing import Any

from prowess.errors import RunFailed
from prowess.run.call import Call, Output
from prowess.skill.kinds import Artifact, KindInfo


class SqlQuery(Artifact):
    kind: str = "acme.sql-query"
    limit: int = 100


SQL_QUERY = KindInfo(
    name="acme.sql-query",
    model=SqlQuery,
    folder="queries",
    reads=(".sql",),
    writes=".sql",
    root_files=(),
    is_file=False,
    in_prompt=False,
    in_run="work",
    is_tool=True,
    reaches="nothing",
    runs_code=False,
    gives="data",
    describes_dry_run=False,
)


class QueryHandler:
    kind = "acme.sql-query"

    async def run(self, call: Call) -> Output:
        query = call.artifact
        assert isinstance(query, SqlQuery)
        try:
            rows = await asyncio.to_thread(select, query.content, call.inputs["rows"], query.limit)
        except sqlite3.Error as error:
            raise RunFailed(f"The query failed: {error}.", hint="Correct the query.") from error
        return Output(kind=self.kind, text=f"{len(rows)} rows", data=rows)


def select(query: str, rows: list[dict[str, Any]], limit: int) -> list[dict[str, Any]]:
    database = sqlite3.connect(":memory:")
    database.row_factory = sqlite3.Row
    columns = list(rows[0])
    database.execute(f"create table rows ({', '.join(columns)})")
    database.executemany(f"insert into rows values ({', '.join('?' * len(columns))})", [list(r.values()) for r in rows])
    return [dict(row) for row in database.execute(query).fetchmany(limit)]
