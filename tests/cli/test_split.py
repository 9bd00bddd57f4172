"""The command `prsrank split`."""

from prsrank.cli import run
from prsrank.logs.reading import read_click_log


def test_split_writes_parts_without_a_common_query(tmp_path):
    rows = ["query_id,session_id,doc_id,position,click,timestamp,weight"]
    for session in range(40):
        for place in (1, 2, 3):
            clicked = place == 1 + session % 2
            weight = 2.5 if session == 7 else 1
            rows.append(
                f"{session % 20},{session},{place},{place},{int(clicked)},{session},{weight}"
            )
    (tmp_path / "log.csv").write_text("\n".join(rows) + "\n")
    out = tmp_path / "parts"
    assert (
        run(["split", str(tmp_path / "log.csv"), "--out", str(out), "--holdout", "query:0.25"]) == 0
    )
    training, held_out = (read_click_log(out / f"{n}.parquet") for n in ("training", "held_out"))
    assert not set(training.query_ids) & set(held_out.query_ids)
    assert (len(training.query_ids), len(held_out.query_ids)) == (15, 5)
    assert training.sessions + held_out.sessions == 40
    weights = [log.click_weights for log in (training, held_out) if log.click_weights is not None]
    assert sum(w.sum() for w in weights) == len(weights[0]) - 1 + 2.5
    # by time: every query comes back, so nothing would be left before the cut
    assert (
        run(["split", str(tmp_path / "log.csv"), "--out", str(out), "--holdout", "time:0.5"]) == 2
    )
    assert sorted(p.name for p in out.iterdir()) == ["held_out.parquet", "training.parquet"]
    (out / "mine.txt").write_text("")
    assert run(["split", str(tmp_path / "log.csv"), "--out", str(out)]) == 2
