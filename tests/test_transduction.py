"""Scores of written sequences by hand, the nearest source, and the schedules of scheduled sampling."""

from __future__ import annotations

import math

import numpy as np
import pytest

from unrolled.errors import DataError, MissingExtra
from unrolled.training.transduction import NearestSource, Transduction, bleu_and_chrf, edit_distance, truth_share


@pytest.mark.parametrize(
    ("a", "b", "edits"),
    [("kitten", "sitting", 3), ("", "abc", 3), ("abc", "", 3), ("abc", "abc", 0), ("ab", "ba", 2), ("abcd", "acd", 1)],
)
def test_edit_distance(a: str, b: str, edits: int) -> None:
    assert edit_distance(a, b) == edit_distance(list(b), list(a)) == edits


def test_error_rate_is_edits_over_reference_tokens() -> None:
    scores = Transduction()
    scores.update("abx", ["abc"])  # one edit of three
    scores.update("a", ["bcdefgh", "b"])  # one edit of one: the nearest reference
    assert scores.compute() == {"exact_match": 0.0, "token_error_rate": 2 / 4, "items": 2}
    with pytest.raises(DataError, match="items"):
        Transduction().compute()
    with pytest.raises(DataError, match="references"):
        scores.update("a", [])


def test_nearest_source() -> None:
    near = NearestSource(["cat", "dog", "act"], ["1", "2", "3"])
    assert near.predict(["cats", "do", "acts", "xyz"]) == [("1",), ("2",), ("3",), ("1",)]
    vectors = NearestSource([np.array([[0.0, 0.0]]), np.array([[5.0, 5.0]])], ["a", "b"])
    assert vectors.predict([np.array([[4.0, 3.0]])]) == [("b",)]


def test_schedules_are_those_of_the_paper() -> None:
    assert truth_share("none", None, 0.0, 7, 10) == 1
    assert [truth_share("linear", 0.25, 0.2, i, 10) for i in (0, 2, 4)] == [1, 0.5, 0.2]
    assert truth_share("exponential", 0.5, 0.0, 3, 10) == 0.125
    assert truth_share("inverse_sigmoid", 4.0, 0.0, 8, 10) == pytest.approx(4 / (4 + math.exp(2)))
    for name in ("linear", "exponential", "inverse_sigmoid"):
        shares = [truth_share(name, None, 0.0, i / 4, 10) for i in range(41)]
        assert shares == sorted(shares, reverse=True)
        assert 0 <= shares[-1] < shares[0] <= 1


def test_bleu_is_asked_for_by_name_and_its_absence_by_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    class Score:
        score = 12.5

    class Metric:
        def corpus_score(self, written: list[str], streams: list[list[str | None]]) -> Score:
            assert written == ["a", "b"]
            assert streams == [["a", "b"], ["c", None]]
            return Score()

    class Module:
        BLEU = CHRF = Metric

    from unrolled.training import transduction

    monkeypatch.setattr(transduction, "require", lambda *_: Module)
    assert bleu_and_chrf(["a", "b"], [["a", "c"], ["b"]]) == {"bleu": 12.5, "chrf": 12.5}

    def missing(*_: str) -> None:
        raise MissingExtra("sacrebleu is not installed. Install it with: pip install 'unrolled[translate]'")

    monkeypatch.setattr(transduction, "require", missing)
    with pytest.raises(MissingExtra, match="translate"):
        bleu_and_chrf(["a"], [["a"]])
