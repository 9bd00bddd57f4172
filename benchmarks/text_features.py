"""Features of (query, doc) pairs from texts: what rankers learn from where a log has no feature table.

For each field BM25, the share of the query's terms that it holds, whether it holds the query as a phrase, and its
length; of an address also its depth and its host.
"""

import re
from collections import Counter
from collections.abc import Sequence
from urllib.parse import urlsplit

import numpy as np
import numpy.typing as npt

ENDINGS = ("com", "org", "edu", "gov")
K1, B = 1.2, 0.75


def terms(text: str) -> list[str]:
    """Return the words of a text, folded to lower case.

    >>> terms("US tax-code 403(b)")
    ['us', 'tax', 'code', '403', 'b']
    """
    return re.findall(r"[a-z0-9]+", text.lower())


def text_features(queries: Sequence[str], texts: Sequence[str]) -> npt.NDArray[np.float64]:
    """Return BM25, coverage, phrase and length of each pair of a query and a text (pairs x 4)."""
    documents = [terms(text) for text in texts]
    different = {text: set(words) for text, words in zip(texts, documents, strict=True)}
    frequency = Counter(word for words in different.values() for word in words)
    average = np.mean([len(words) for words in documents]) or 1.0
    rows = []
    for query, words in zip(queries, documents, strict=True):
        wanted, counts = set(terms(query)), Counter(words)
        stretch = K1 * (1 - B + B * len(words) / average)
        score = 0.0
        for word in wanted & set(counts):
            rarity = np.log1p((len(different) - frequency[word] + 0.5) / (frequency[word] + 0.5))
            score += rarity * counts[word] * (K1 + 1) / (counts[word] + stretch)
        coverage = len(wanted & set(counts)) / max(len(wanted), 1)
        phrase = f" {' '.join(terms(query))} " in f" {' '.join(words)} "
        rows.append([score, coverage, phrase, len(words)])
    return np.array(rows, dtype=np.float64)


def address_features(addresses: Sequence[str]) -> npt.NDArray[np.float64]:
    """Return depth, length, ending of the host, and how common the host is (docs x 7)."""
    parts = [urlsplit(address) for address in addresses]
    hosts = Counter(part.hostname or "" for part in parts)
    rows = [
        [
            part.path.strip("/").count("/") + bool(part.path.strip("/")),
            len(address),
            *((part.hostname or "").endswith(f".{ending}") for ending in ENDINGS),
            hosts[part.hostname or ""],
        ]
        for part, address in zip(parts, addresses, strict=True)
    ]
    return np.array(rows, dtype=np.float64)
