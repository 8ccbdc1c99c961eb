"""The doctor's findings where no session runs."""

import pytest

from tfapp.engines.diagnosis import OK, PROBLEM, WARNING
from tfapp.engines.spark.doctor import examine_executor, examine_protection

SECURE = """\
# Of all drivers.
spark.master=spark://host:7077

spark.authenticate            true
  spark.network.crypto.enabled: true
"""


@pytest.mark.parametrize(
    ("text", "level", "said"),
    [
        (SECURE, OK, "Spark's authentication and encryption are on"),
        (
            SECURE.replace("spark.authenticate", "#spark.authenticate"),
            WARNING,
            "Spark's connections are not protected: spark.authenticate is off",
        ),
        (
            None,
            WARNING,
            "Spark's connections are not protected: spark.authenticate and "
            "spark.network.crypto.enabled are off",
        ),
    ],
)
@pytest.mark.parametrize("where", ["SPARK_CONF_DIR", "SPARK_HOME"])
def test_protection_of_what_travels(tmp_path, where, text, level, said):
    folder = tmp_path if where == "SPARK_CONF_DIR" else tmp_path / "conf"
    folder.mkdir(exist_ok=True)
    if text is not None:
        (folder / "spark-defaults.conf").write_text(text)
    found = examine_protection({where: str(tmp_path)})
    assert (found.subject, found.level, found.text) == ("protection", level, said)
    assert (level == OK) == (found.hint == "")


def test_without_a_spark_there_are_no_settings():
    assert examine_protection({}).level == WARNING


def test_an_executor_that_nobody_can_ask(tmp_path, monkeypatch):
    monkeypatch.setattr("tfapp.engines.spark.session.active_context", lambda: None)
    found = examine_executor({}, "python3")
    assert (found.subject, found.level) == ("executors", WARNING)
    assert "this process has no session, and spark-defaults.conf no master" in found.text
    (tmp_path / "spark-defaults.conf").write_text("spark.master spark://127.0.0.1:1\n")
    monkeypatch.setattr("tfapp.engines.spark.session.require_pyspark", lambda: None)
    found = examine_executor({"SPARK_CONF_DIR": str(tmp_path)}, "python3")
    assert (found.level, found.text) == (
        PROBLEM,
        "no Spark master answers: 127.0.0.1:1: Connection refused",
    )
