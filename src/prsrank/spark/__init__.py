"""Where a step runs: in this process, or on Apache Spark. What it computes is the same."""

from typing import TYPE_CHECKING, Any

from prsrank.errors import InputError

if TYPE_CHECKING:
    from prsrank.spark.engine_protocol import Engine

ENGINES = ("local", "spark")


def find_engine(name: str, *, master: str | None = None, session: Any = None) -> "Engine":
    """Return the engine of a name. Use it in a `with` block, which ends what it started.

    Args:
        name: "local" or "spark".
        master: Spark's master URL, such as "local[4]" or "spark://host:7077"; default: what
            Spark's own configuration says (`spark-submit --master`), else all local cores.
        session: a SparkSession to use; it is left open.

    Raises:
        InputError: if there is no such engine, or it cannot run here.

    >>> with find_engine("local") as engine:
    ...     engine.name
    'local'
    """
    if name not in ENGINES:
        raise InputError(f"no engine {name!r}: there are {' and '.join(ENGINES)}")
    if name == "local":
        if master is not None or session is not None:
            raise InputError("a master URL or a session is for engine spark, not local")
        from prsrank.spark.local import LocalEngine

        return LocalEngine()
    from prsrank.spark.engine import SparkEngine

    return SparkEngine(session, master=master)
