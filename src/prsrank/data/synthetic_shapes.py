"""The shapes of synthetic collections: list lengths, label shares and how features are made.

A feature is a noisy view of hidden variables, the `Latent`s, which also decide relevance. The
figures are those published for the originals: Chapelle and Chang (2011), "Yahoo! Learning to
Rank Challenge Overview"; Qin and Liu (2013), "Introducing LETOR 4.0 Datasets", and the MSLR
pages beside it. Where only mean and extremes of the list lengths are published, the rest of
their distribution is ours.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple

import numpy as np

Latent = IntEnum(
    "Latent",
    "INTENT SPECIFICITY POPULARITY BODY ANCHOR TITLE URL LENGTH AUTHORITY QUALITY BEHAVIOUR DEPTH "
    "NOISE_A NOISE_B NOISE_C",
    start=0,
)
"""Hidden variables, each standard normal; the first three are of the query."""

QUERY_LATENTS = 3
MATCH_LATENTS = (Latent.BODY, Latent.ANCHOR, Latent.TITLE, Latent.URL)


class Column(NamedTuple):
    """How one feature follows from the latents.

    With g = fidelity * (weighted latents, to length 1) + sqrt(1 - fidelity^2) * noise and
    x = scale * (g - its `zeros` quantile), the value is the `kind` of x: "real" x itself,
    "positive" max(x, 0), "heavy" exp(x) - 1, "count" floor(exp(x)), "unit" x / (1 + x),
    "flag" x > 0; all but "real" are 0 where x < 0. Fidelity 1 on latents of the query gives
    a feature that is constant within a list.

    Attributes:
        kind: the last step, see above.
        weights: what the feature measures.
        fidelity: correlation of g with what it measures.
        scale: spread of x; for "heavy" and "count" the weight of the tail.
        zeros: share of docs with the value 0 (for "real", with a value below 0).
        group: the columns that are 0 together where their source is absent; 0 is never absent.
    """

    kind: str
    weights: Mapping[Latent, float]
    fidelity: float
    scale: float = 1.0
    zeros: float = 0.5
    group: int = 0


class Group(NamedTuple):
    """A source of features, such as a text field, that some docs lack.

    Attributes:
        absent: share of docs without it.
        latent: docs with a high value of this latent lack it less often.
    """

    absent: float
    latent: Latent


@dataclass(frozen=True)
class Shape:
    """What a synthetic collection shares with the original.

    Attributes:
        lengths: knots (probability, length) of the quantile function of the list lengths,
            linear in between.
        shares: share of the docs with label 0, 1, 2, ... (about, if `mean_relevant` is given).
        relevant_from: the least label that counts as relevant.
        columns: makes the columns, some drawn at random, and the groups they belong to.
        informative: spread of the utility that the latents explain, in units of its noise.
        list_spread: spread of the lists' own level of utility, in the same units.
        normalised: whether each feature is scaled to [0, 1] within each list.
        mean_relevant: if given, labels are 0/1, every list has a relevant doc, and this many
            on average.
        names: feature names; default "1", "2", ...
    """

    lengths: tuple[tuple[float, int], ...]
    shares: tuple[float, ...]
    relevant_from: int
    columns: Callable[[np.random.Generator], tuple[Sequence[Column | None], Sequence[Group]]]
    informative: float
    list_spread: float
    normalised: bool = False
    mean_relevant: float | None = None
    names: tuple[str, ...] = ()

    @property
    def mean_length(self) -> float:
        """Mean of the list lengths."""
        return sum(
            (q - p) * (a + b) / 2
            for (p, a), (q, b) in zip(self.lengths, self.lengths[1:], strict=False)
        )


_STREAMS: tuple[Mapping[Latent, float], ...] = (
    {Latent.BODY: 1.0},
    {Latent.ANCHOR: 1.0},
    {Latent.TITLE: 1.0},
    {Latent.URL: 1.0},
    {Latent.BODY: 0.9, Latent.TITLE: 0.3, Latent.ANCHOR: 0.2},
)
_STREAM_GROUPS = (
    Group(0.0, Latent.BODY),
    Group(0.60, Latent.ANCHOR),
    Group(0.15, Latent.TITLE),
    Group(0.45, Latent.URL),
    Group(0.0, Latent.BODY),
)
_QUERY = {Latent.SPECIFICITY: 1.0, Latent.POPULARITY: -0.5}
_LENGTH = {Latent.LENGTH: 1.0}
_LINKS = {Latent.AUTHORITY: 1.0}


def _over_streams(
    kind: str, extra: Mapping[Latent, float], fidelity: float, scale: float, zeros: float
) -> list[Column]:
    return [
        Column(kind, {**stream, **extra}, fidelity, scale, zeros, group)
        for group, stream in enumerate(_STREAMS)
    ]


def _constant(intents: Sequence[float]) -> list[Column]:
    """Columns of the query alone, the same for its whole list."""
    return [
        Column("positive", {**_QUERY, Latent.INTENT: intent}, 1.0, 2.0, 0.01) for intent in intents
    ]


_WEB10K_OTHERS = (
    Column("count", {Latent.DEPTH: 1.0}, 0.95, 0.5, 0.02),
    Column("count", {Latent.DEPTH: 1.0, Latent.NOISE_A: 0.6}, 0.95, 0.5, 1e-9),
    Column("count", _LINKS, 0.9, 2.0, 0.4),
    Column("count", {Latent.NOISE_B: 1.0, Latent.LENGTH: 0.4}, 0.9, 1.5, 0.2),
    Column("count", _LINKS, 0.95, 1.2, 1e-6),
    Column("count", {Latent.AUTHORITY: 1.0, Latent.NOISE_C: 0.5}, 0.9, 1.2, 1e-6),
    Column("count", {Latent.QUALITY: 1.0}, 0.95, 0.9, 0.001),
    Column("count", {Latent.QUALITY: 1.0, Latent.NOISE_A: 0.5}, 0.9, 0.9, 0.001),
    Column("count", {Latent.BEHAVIOUR: 1.0}, 0.95, 2.0, 0.5),
    Column("count", {Latent.BEHAVIOUR: 0.5, Latent.POPULARITY: 0.8}, 0.9, 2.0, 0.4),
    Column("heavy", {Latent.BEHAVIOUR: 0.8, Latent.QUALITY: 0.3}, 0.9, 2.0, 0.4),
)


def _web10k(_: np.random.Generator) -> tuple[list[Column], Sequence[Group]]:
    """25 statistics of five text streams each, then 11 of URL, links, quality and clicks."""
    longer, shorter = {Latent.LENGTH: 0.5}, {Latent.LENGTH: -0.5}
    rarer = {Latent.SPECIFICITY: 0.5}
    text = [
        *_over_streams("count", rarer, 0.85, 0.6, 0.15),
        *_over_streams("unit", {}, 0.85, 2.0, 0.15),
        *[Column("count", _LENGTH, 0.9, 1.2, 0.001, group) for group in range(5)],
        *_constant((0.0, 1.0, 0.4, -1.0, 0.0)),
    ]
    for extra, kind, scale in (
        (longer, "count", 1.3),
        (shorter, "unit", 0.7),
        (rarer, "heavy", 1.3),
    ):
        for fidelity, zeros in ((0.9, 0.1), (0.6, 0.6), (0.85, 0.1), (0.9, 0.1)):
            text += _over_streams(kind, extra, fidelity, scale, zeros)
        text += _over_streams("heavy", extra, 0.5, 1.8, 0.3)
    text += _over_streams("flag", {}, 0.9, 1.0, 0.6)
    for fidelity in (0.95, 0.97):
        text += _over_streams("positive", {}, fidelity, 8.0, 0.05)
    for extra in ({}, shorter, rarer):
        text += _over_streams("real", extra, 0.95, 3.0, 0.99)
    return text + list(_WEB10K_OTHERS), _STREAM_GROUPS


def _mq2007(_: np.random.Generator) -> tuple[list[Column], Sequence[Group]]:
    """TF, IDF, TF*IDF and length of five streams, four models of each, then URL and links."""
    columns = [
        *_over_streams("heavy", {Latent.LENGTH: 0.5}, 0.85, 1.0, 0.05),
        *_constant((0.0, 1.0, 0.4, -1.0, 0.0)),
        *_over_streams("heavy", {Latent.LENGTH: 0.4}, 0.9, 1.2, 0.05),
        *[Column("count", _LENGTH, 0.95, 1.0, 0.001, group) for group in range(5)],
    ]
    models = [
        _over_streams("positive", {}, fidelity, 1.0, zeros)
        for fidelity, zeros in ((0.97, 0.05), (0.93, 0.08), (0.95, 0.08), (0.95, 0.08))
    ]
    columns += [model[stream] for stream in range(5) for model in models]
    columns += [
        Column("count", _LINKS, 0.95, 1.2, 0.01),
        Column("count", {Latent.AUTHORITY: 1.0, Latent.NOISE_C: 0.5}, 0.95, 2.0, 0.05),
        *_constant((0.0,)),
        Column("count", {Latent.DEPTH: 1.0}, 0.97, 0.5, 0.02),
        Column("count", {Latent.QUALITY: 1.0}, 0.95, 0.7, 0.001),
        Column("count", {Latent.BEHAVIOUR: 1.0}, 0.95, 1.2, 0.3),
    ]
    return columns, _STREAM_GROUPS


def _yahoo(rng: np.random.Generator) -> tuple[list[Column | None], Sequence[Group]]:
    """519 columns in groups of random size and meaning, at random ids among 700."""
    sizes: list[int] = []
    while sum(sizes) < 519:
        sizes.append(min(int(rng.integers(3, 16)), 519 - sum(sizes)))
    drawn, groups = [], [Group(0.0, Latent.BODY)]
    for number, size in enumerate(sizes):
        main = Latent(number % len(Latent))
        groups.append(Group(0.0 if main < QUERY_LATENTS else rng.uniform(0.0, 0.7), main))
        for _ in range(size):
            drawn.append(_yahoo_column(rng, main, number + 1))
    columns: list[Column | None] = [None] * 700
    for index, column in zip(rng.permutation(700)[:519], drawn, strict=True):
        columns[index] = column
    return columns, groups


def _yahoo_column(rng: np.random.Generator, main: Latent, group: int) -> Column:
    other = Latent(int(rng.integers(len(Latent))))
    scale, zeros = rng.uniform(0.5, 3.0), rng.uniform()
    if main < QUERY_LATENTS:
        return Column("unit", {main: 1.0}, 1.0, scale, 0.3 * zeros, 0)
    kind = "flag" if rng.uniform() < 0.1 else "unit"
    weights = {other: rng.uniform(-0.3, 0.3), main: 1.0}
    return Column(kind, weights, rng.uniform(0.5, 0.98), scale, 0.6 * zeros, group)


_PERSONAL: dict[str, Column] = {
    "query_terms": Column("count", {Latent.SPECIFICITY: 1.0}, 1.0, 0.5, 1e-3),
    "query_characters": Column("count", {Latent.SPECIFICITY: 1.0}, 1.0, 0.5, 1e-6),
    "query_idf": Column("positive", _QUERY, 1.0, 2.0, 1e-3),
    "query_names_a_person": Column("flag", {Latent.INTENT: 1.0}, 1.0),
    "query_person_score": Column("unit", {Latent.INTENT: 1.0}, 1.0, 1.5, 0.1),
    "query_frequency": Column("count", {Latent.POPULARITY: 1.0}, 1.0, 1.5, 0.2),
    "user_docs": Column("count", {Latent.POPULARITY: 0.6, Latent.SPECIFICITY: -0.8}, 1.0, 1.5, 1e-6),
    "user_searches_a_week": Column("count", {Latent.POPULARITY: 1.0, Latent.INTENT: 0.4}, 1.0, 1.2, 0.1),
    "user_is_on_phone": Column("flag", {Latent.INTENT: 0.5, Latent.SPECIFICITY: -1.0}, 1.0),
    "user_contacts": Column("count", {Latent.POPULARITY: -0.5, Latent.INTENT: 1.0}, 1.0, 1.2, 1e-3),
    "doc_body_match": Column("positive", {Latent.BODY: 1.0}, 0.95, 5.0, 0.1),
    "doc_body_terms": Column("count", {Latent.BODY: 1.0, Latent.LENGTH: 0.4}, 0.85, 1.0, 0.2),
    "doc_body_coverage": Column("unit", {Latent.BODY: 1.0}, 0.9, 2.0, 0.1),
    "doc_subject_match": Column("positive", {Latent.TITLE: 1.0}, 0.95, 5.0, 0.1, 1),
    "doc_subject_coverage": Column("unit", {Latent.TITLE: 1.0}, 0.9, 2.0, 0.2, 1),
    "doc_subject_is_query": Column("flag", {Latent.TITLE: 1.0}, 0.8, 1.0, 0.8, 1),
    "doc_sender_match": Column("positive", {Latent.ANCHOR: 1.0}, 0.95, 5.0, 0.2, 2),
    "doc_sender_is_query": Column("flag", {Latent.ANCHOR: 1.0}, 0.85, 1.0, 0.7, 2),
    "doc_recipient_match": Column("positive", {Latent.URL: 1.0}, 0.95, 5.0, 0.2),
    "doc_recipients": Column("count", {Latent.NOISE_A: 1.0, Latent.URL: 0.3}, 0.9, 0.8, 1e-3),
    "doc_attachment_match": Column("positive", {Latent.URL: 0.7, Latent.BODY: 0.5}, 0.8, 3.0, 0.3, 3),
    "doc_attachments": Column("count", {Latent.NOISE_B: 1.0}, 0.8, 0.7, 0.2, 3),
    "doc_age_days": Column("heavy", {Latent.DEPTH: 1.0}, 0.95, 1.0, 1e-3),
    "doc_last_opened_days": Column("heavy", {Latent.DEPTH: 0.8, Latent.BEHAVIOUR: -0.6}, 0.9, 1.1, 0.01),
    "doc_opened": Column("count", {Latent.BEHAVIOUR: 1.0}, 0.95, 1.2, 0.3),
    "doc_starred": Column("flag", {Latent.BEHAVIOUR: 1.0}, 0.6, 1.0, 0.9),
    "doc_answered": Column("flag", {Latent.BEHAVIOUR: 0.7, Latent.AUTHORITY: 0.5}, 0.7, 1.0, 0.7),
    "doc_length": Column("count", _LENGTH, 0.97, 1.2, 1e-6),
    "doc_thread_length": Column("count", {Latent.LENGTH: 0.5, Latent.NOISE_B: 0.8}, 0.9, 0.9, 1e-3),
    "doc_sender_affinity": Column("unit", _LINKS, 0.95, 1.5, 0.2),
    "doc_sender_mails": Column("count", _LINKS, 0.9, 1.8, 0.2),
    "doc_sender_is_contact": Column("flag", {Latent.AUTHORITY: 1.0}, 0.8, 1.0, 0.5),
    "doc_important": Column("unit", {Latent.QUALITY: 1.0}, 0.95, 1.5, 0.1),
    "doc_promotion_score": Column("unit", {Latent.QUALITY: -1.0}, 0.9, 1.5, 0.3),
    "doc_links": Column("count", {Latent.NOISE_C: 1.0, Latent.QUALITY: -0.4}, 0.9, 1.0, 0.3),
    "doc_images": Column("count", {Latent.NOISE_C: 1.0}, 0.8, 0.9, 0.5),
}  # fmt: skip
_PERSONAL_GROUPS = (
    Group(0.0, Latent.BODY),
    Group(0.1, Latent.TITLE),
    Group(0.3, Latent.ANCHOR),
    Group(0.7, Latent.URL),
)


SHAPES: Mapping[str, Shape] = {
    "yahoo": Shape(
        lengths=((0, 1), (0.05, 5), (0.25, 11), (0.5, 19), (0.75, 29), (0.95, 55), (0.995, 95), (1, 139)),
        shares=(0.2192, 0.5022, 0.2230, 0.0388, 0.0168),
        relevant_from=3,
        columns=_yahoo,
        informative=2.5,
        list_spread=1.0,
    ),
    "web10k": Shape(
        lengths=((0, 1), (0.05, 15), (0.25, 70), (0.5, 111), (0.75, 149), (0.95, 232), (0.995, 420), (1, 908)),
        shares=(0.5201, 0.3218, 0.1329, 0.0178, 0.0074),
        relevant_from=3,
        columns=_web10k,
        informative=4.0,
        list_spread=1.5,
    ),
    "mq2007": Shape(
        lengths=((0, 6), (0.005, 40), (0.925, 40), (0.95, 50), (0.975, 50), (0.99, 70), (0.995, 84), (1, 147)),
        shares=(51632 / 69623, 14128 / 69623, 3863 / 69623),
        relevant_from=1,
        columns=_mq2007,
        informative=3.5,
        list_spread=4.0,
        normalised=True,
    ),
    "personal": Shape(
        lengths=((0, 2), (0.05, 3), (0.25, 5), (0.75, 7), (0.97, 9), (1, 10)),
        shares=(1 - 1.7 / 6, 1.7 / 6),
        relevant_from=1,
        columns=lambda _: (list(_PERSONAL.values()), _PERSONAL_GROUPS),
        informative=3.0,
        list_spread=1.0,
        mean_relevant=1.7,
        names=tuple(_PERSONAL),
    ),
}  # fmt: skip
