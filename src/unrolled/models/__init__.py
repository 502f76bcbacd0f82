"""Models: classifier, tagger, language model, encoder–decoder, made of inputs, recurrent layers and a head.

Everything is batch first. A model takes a `Batch` (the language model: ids and a state), never looks at padding, and
remembers nothing between calls.
"""

from unrolled.models.attention import ATTENTIONS, SourceAttention
from unrolled.models.bridge import BRIDGES, Bridge
from unrolled.models.build import build
from unrolled.models.build_pairs import build_encoder_decoder
from unrolled.models.classifier import BagClassifier, Classifier
from unrolled.models.crf import CRF, Allowed, bio_allowed
from unrolled.models.encoder_decoder import EncoderDecoder, VectorEncoder
from unrolled.models.forecaster import Forecaster, Window
from unrolled.models.inputs import CharacterInput, FeatureInput, TokenInput
from unrolled.models.language_model import LanguageModel
from unrolled.models.pair_transformer import PairTransformer, build_pair_transformer
from unrolled.models.parts import Batch
from unrolled.models.pooling import POOLINGS, Attention, max_pool, mean_pool
from unrolled.models.readout import Readout
from unrolled.models.stepping import DecoderStep
from unrolled.models.tagger import Tagger
from unrolled.models.transformer import AttentionState, Transformer

__all__ = [
    "ATTENTIONS",
    "BRIDGES",
    "CRF",
    "POOLINGS",
    "Allowed",
    "Attention",
    "AttentionState",
    "BagClassifier",
    "Batch",
    "Bridge",
    "CharacterInput",
    "Classifier",
    "DecoderStep",
    "EncoderDecoder",
    "FeatureInput",
    "Forecaster",
    "LanguageModel",
    "PairTransformer",
    "Readout",
    "SourceAttention",
    "Tagger",
    "TokenInput",
    "Transformer",
    "VectorEncoder",
    "Window",
    "bio_allowed",
    "build",
    "build_encoder_decoder",
    "build_pair_transformer",
    "max_pool",
    "mean_pool",
]
