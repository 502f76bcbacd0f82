"""Models: a classifier, a tagger and a language model, put together from inputs, one recurrent layer and a head.

Everything is batch first. A model takes a `Batch` (the language model: ids and a state), never looks at padding, and
remembers nothing between calls.
"""

from unrolled.models.build import build
from unrolled.models.classifier import BagClassifier, Classifier
from unrolled.models.crf import CRF, Allowed, bio_allowed
from unrolled.models.inputs import CharacterInput, FeatureInput, TokenInput
from unrolled.models.language_model import LanguageModel
from unrolled.models.parts import Batch
from unrolled.models.pooling import POOLINGS, Attention, max_pool, mean_pool
from unrolled.models.tagger import Tagger

__all__ = [
    "CRF",
    "POOLINGS",
    "Allowed",
    "Attention",
    "BagClassifier",
    "Batch",
    "CharacterInput",
    "Classifier",
    "FeatureInput",
    "LanguageModel",
    "Tagger",
    "TokenInput",
    "bio_allowed",
    "build",
    "max_pool",
    "mean_pool",
]
