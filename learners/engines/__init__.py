"""Generation: prompts in, sampled ids with their log-probs out, the same for every engine."""

from learners.engines.hf import HFEngine
from learners.engines.records import Completion, Engine, Sampling
from learners.engines.vllm import VLLMConfig, VLLMEngine
from learners.engines.vllm_server import VLLMServerConfig, VLLMServerEngine

__all__ = [
    "Completion",
    "Engine",
    "HFEngine",
    "Sampling",
    "VLLMConfig",
    "VLLMEngine",
    "VLLMServerConfig",
    "VLLMServerEngine",
]
