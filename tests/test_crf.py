"""The linear-chain CRF against the sum over all tag sequences, one by one."""

from __future__ import annotations

import itertools
import math

import pytest
import torch
from torch import Tensor

from unrolled.models import CRF, Allowed, bio_allowed
from unrolled.models import crf as crf_module
from unrolled.models.crf import viterbi

LENGTHS = [3, 5, 0, 1]


def make(tags: int = 3, *, size: float = 1.0, dtype: torch.dtype = torch.float64) -> tuple[CRF, Tensor, Tensor]:
    """A CRF with unkind weights, scores (4, 5, K), and lengths."""
    crf = CRF(tags).to(dtype)
    with torch.no_grad():
        for parameter in crf.parameters():
            parameter.normal_(std=size)
    return crf, torch.randn(4, 5, tags, dtype=dtype) * 2, torch.tensor(LENGTHS)


def path_score(crf: CRF, scores: Tensor, path: tuple[int, ...]) -> Tensor:
    """The definition, written as a loop."""
    if not path:
        return scores.new_zeros(())
    total = crf.start[path[0]] + crf.end[path[-1]]
    for t, tag in enumerate(path):
        total = total + scores[t, tag]
    for before, after in itertools.pairwise(path):
        total = total + crf.transitions[before, after]
    return total


def all_paths(crf: CRF, scores: Tensor, length: int) -> dict[tuple[int, ...], Tensor]:
    paths = itertools.product(range(len(crf.start)), repeat=length)
    return {path: path_score(crf, scores, path) for path in paths}


def brute_partition(crf: CRF, scores: Tensor) -> Tensor:
    rows = [torch.stack(list(all_paths(crf, s, n).values())).logsumexp(0) for s, n in zip(scores, LENGTHS, strict=True)]
    return torch.stack(rows)


@pytest.fixture(params=["matmul", "logsumexp"])
def _way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both ways to sum over the tag before."""
    monkeypatch.setattr(crf_module, "SPREAD", 50.0 if request.param == "matmul" else -1.0)


@pytest.mark.usefixtures("_way")
@pytest.mark.parametrize("tags", [1, 2, 3])
def test_log_partition_sums_all_sequences(tags):
    crf, scores, lengths = make(tags)
    torch.testing.assert_close(crf.log_partition(scores, lengths), brute_partition(crf, scores))


@pytest.mark.usefixtures("_way")
def test_gradients_are_those_of_the_sum_over_sequences():
    crf, scores, lengths = make()
    scores.requires_grad_()
    given = [scores, *crf.parameters()]
    weights = torch.tensor([1.0, -2.0, 3.0, 0.5], dtype=torch.float64)
    wanted = torch.autograd.grad((brute_partition(crf, scores) * weights).sum(), given)
    found = torch.autograd.grad((crf.log_partition(scores, lengths) * weights).sum(), given)
    torch.testing.assert_close(found, wanted)
    # The gradient by the emissions is the probability of each tag, so it sums to the row's weight at every valid step.
    valid = torch.arange(5) < lengths[:, None]
    torch.testing.assert_close(found[0].sum(-1), valid * weights[:, None])


@pytest.mark.usefixtures("_way")
def test_gradcheck_of_nll():
    crf, scores, lengths = make(2)
    tags = torch.randint(2, (4, 5))
    names = [name for name, _ in crf.named_parameters()]

    def loss(scores: Tensor, *weights: Tensor) -> Tensor:
        class Loss(torch.nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.crf = crf

            def forward(self, scores: Tensor) -> Tensor:
                return self.crf.nll(scores, tags, lengths)

        given = {f"crf.{name}": weight for name, weight in zip(names, weights, strict=True)}
        return torch.func.functional_call(Loss(), given, (scores,))

    weights = [weight.detach().clone().requires_grad_() for weight in crf.parameters()]
    assert torch.autograd.gradcheck(loss, (scores.requires_grad_(), *weights))


def test_score_and_nll_of_given_tags():
    crf, scores, lengths = make()
    tags = torch.randint(3, (4, 5))
    wanted = [path_score(crf, s, tuple(row[:n])) for s, row, n in zip(scores, tags.tolist(), LENGTHS, strict=True)]
    torch.testing.assert_close(crf.score(scores, tags, lengths), torch.stack(wanted))
    probabilities = [
        sum(
            crf.nll(scores[b : b + 1, :n], torch.tensor([path], dtype=torch.long), [n]).neg().exp().item()
            for path in itertools.product(range(3), repeat=n)
        )
        for b, n in enumerate(LENGTHS)
    ]
    assert probabilities == pytest.approx([1, 1, 1, 1])


def test_viterbi_finds_the_best_of_all_sequences():
    for _ in range(10):
        crf, scores, lengths = make()
        paths = [all_paths(crf, s, n) for s, n in zip(scores, LENGTHS, strict=True)]
        wanted = [list(max(row, key=lambda path, row=row: row[path].item())) for row in paths]
        assert crf.viterbi(scores, lengths) == wanted


def test_viterbi_among_the_allowed_sequences():
    for _ in range(10):
        crf, scores, lengths = make()
        allowed = Allowed(torch.tensor([True, True, False]), torch.rand(3, 3) < 0.6)
        allowed.pairs.fill_diagonal_(True)

        def permitted(path, allowed=allowed):
            pairs = itertools.pairwise(path)
            return not path or (allowed.start[path[0]] and all(allowed.pairs[a, b] for a, b in pairs))

        for row, (s, n) in enumerate(zip(scores, LENGTHS, strict=True)):
            paths = {path: score.item() for path, score in all_paths(crf, s, n).items() if permitted(path)}
            assert crf.viterbi(scores, lengths, allowed=allowed)[row] == list(max(paths, key=paths.__getitem__))


def test_viterbi_without_scores_of_pairs_is_the_best_tag_of_each_step():
    scores = torch.randn(4, 5, 6)
    wanted = [row[:n] for row, n in zip(scores.argmax(-1).tolist(), LENGTHS, strict=True)]
    assert viterbi(scores, torch.tensor(LENGTHS)) == wanted


def test_bio_lets_a_span_go_on_only_as_its_own_kind():
    names = ["O", "B-x", "I-x", "B-y", "I-y"]
    start, pairs = bio_allowed(names)
    assert start.tolist() == [True, True, False, True, False]
    for a, b in itertools.product(range(5), repeat=2):
        wanted = not names[b].startswith("I-") or names[a] in ("B-" + names[b][2:], names[b])
        assert pairs[a, b] == wanted, (names[a], names[b])


@pytest.mark.usefixtures("_way")
def test_padding_is_not_read():
    crf, scores, lengths = make()
    padding = torch.arange(5) >= lengths[:, None]
    tags = torch.randint(3, (4, 5))
    clean = scores.masked_fill(padding[..., None], 0).requires_grad_()
    dirty = scores.masked_fill(padding[..., None], math.nan).requires_grad_()
    losses = [crf.nll(clean, tags, lengths), crf.nll(dirty, tags.masked_fill(padding, -100), lengths)]
    torch.testing.assert_close(losses[1], losses[0], rtol=0, atol=0)
    pairs = zip(losses, (clean, dirty), strict=True)
    grads = [torch.autograd.grad(loss.sum(), (given, *crf.parameters())) for loss, given in pairs]
    torch.testing.assert_close(grads[1], grads[0], rtol=0, atol=0)
    assert not grads[1][0][padding].any()
    assert crf.viterbi(dirty, lengths) == crf.viterbi(clean, lengths)


def test_a_row_alone_is_the_row_in_a_batch():
    crf, scores, lengths = make()
    tags = torch.randint(3, (4, 5))
    together, paths = crf.nll(scores, tags, lengths), crf.viterbi(scores, lengths)
    for b, n in enumerate(LENGTHS):
        alone = crf.nll(scores[b : b + 1, :n], tags[b : b + 1, :n], [n])
        torch.testing.assert_close(alone, together[b : b + 1])
        assert crf.viterbi(scores[b : b + 1, :n], [n]) == [paths[b]]


def test_rows_without_steps():
    crf, scores, _ = make()
    tags = torch.zeros(4, 5, dtype=torch.long)
    scores.requires_grad_()
    loss = crf.nll(scores, tags, [0, 0, 0, 0])
    loss.sum().backward()
    assert loss.tolist() == [0, 0, 0, 0]
    assert not scores.grad.any()
    assert crf.viterbi(scores, [0, 0, 0, 0]) == [[], [], [], []]
    assert crf.nll(scores[:, :0], tags[:, :0], [0] * 4).tolist() == [0] * 4
    assert crf.viterbi(scores[:0], []) == []
    assert crf.nll(scores[:0], tags[:0], []).shape == (0,)


@pytest.mark.parametrize("size", [0.1, 3.0, 8.0])
def test_float32_errs_no_more_than_the_plain_logsumexp_does(size, monkeypatch):
    crf, _, _ = make(33, size=size, dtype=torch.float32)
    scores, lengths = torch.randn(7, 40, 33) * 5, torch.tensor([40, 17, 1, 0, 33, 8, 40])
    exact = CRF(33).double()
    exact.load_state_dict(crf.state_dict())

    def value_and_grad(crf: CRF, scores: Tensor) -> list[Tensor]:
        scores = scores.clone().requires_grad_()
        value = crf.log_partition(scores, lengths)
        return [value.detach(), *torch.autograd.grad(value.sum(), (scores, crf.transitions))]

    fast = value_and_grad(crf, scores)
    monkeypatch.setattr(crf_module, "SPREAD", -1.0)
    plain, truth = value_and_grad(crf, scores), value_and_grad(exact, scores.double())
    for f, p, t in zip(fast, plain, truth, strict=True):
        scale = max(t.abs().max().item(), 1.0)
        budget = 2 * (p.double() - t).abs().max().item() + 4 * torch.finfo(torch.float32).eps * scale
        assert (f.double() - t).abs().max().item() <= budget


def test_a_tag_that_is_rare_after_every_other_keeps_its_digits():
    crf, scores, lengths = make(4, dtype=torch.float32)
    with torch.no_grad():
        crf.transitions[:, 1] -= 300  # exp(-300) is no float32, but inside the column the spread is small
        crf.transitions[:, 2] += 300
    scores[..., 1] += 300
    exact = CRF(4).double()
    exact.load_state_dict(crf.state_dict())
    torch.testing.assert_close(
        crf.log_partition(scores, lengths).double(), exact.log_partition(scores.double(), lengths), rtol=1e-6, atol=1e-5
    )
    scores = (scores - 600 * torch.tensor([1.0, 0, 1, 1])).requires_grad_()  # now the rare tag is the only way
    value = crf.log_partition(scores, lengths)
    torch.testing.assert_close(value.double(), exact.log_partition(scores.double(), lengths), rtol=1e-6, atol=1e-4)
    value.sum().backward()
    assert scores.grad.isfinite().all()


def test_transitions_far_apart_stay_finite():
    crf, scores, lengths = make(4, dtype=torch.float32)
    with torch.no_grad():
        crf.transitions[0, 1] = -1e4
        crf.transitions[:, 2] = -1e4
        crf.transitions[3, 2] = 1e3
    scores.requires_grad_()
    value = crf.log_partition(scores, lengths)
    value.sum().backward()
    exact = CRF(4).double()
    exact.load_state_dict(crf.state_dict())
    torch.testing.assert_close(value.double(), exact.log_partition(scores.double(), lengths), rtol=1e-5, atol=1e-5)
    assert scores.grad.isfinite().all()
    assert crf.transitions.grad.isfinite().all()


def test_errors_name_what_is_wrong():
    crf, scores, lengths = make()
    tags = torch.zeros(4, 5, dtype=torch.long)
    tags[1, 4] = 3
    with pytest.raises(ValueError, match=r"tags\[1, 4\]: expected 0 to 2, found 3"):
        crf.nll(scores, tags, lengths)
    with pytest.raises(ValueError, match=r"scores: expected \(batch, time, 3\)"):
        crf.log_partition(scores[..., :2], lengths)
    with pytest.raises(ValueError, match=r"tags: expected \(4, 5\)"):
        crf.score(scores, tags[:, :3], lengths)
    with pytest.raises(ValueError, match=r"lengths\[0\]: expected 0 to 5"):
        crf.log_partition(scores, [6, 0, 0, 0])
    with pytest.raises(ValueError, match="tags: expected 1 or more"):
        CRF(0)


@pytest.mark.parametrize("low", [torch.float16, torch.bfloat16])
def test_half_precision_is_summed_in_float32(low):
    crf, scores, lengths = make(dtype=low, size=15)
    torch.testing.assert_close(
        crf.log_partition(scores, lengths), crf.float().log_partition(scores.float(), lengths), rtol=1e-5, atol=1e-5
    )
