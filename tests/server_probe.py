"""What every process of a launch does in `test_engine_server.py`: train with a generation server.

torchrun --standalone --nproc-per-node 2 tests/server_probe.py ROOT URL
"""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import parallel_probe
import probe_task
import torch

from learners import processes
from learners.engines import VLLMServerConfig
from learners.pair import PairTrainer


def main(root: Path, url: str) -> None:
    """Two adapters on one base, which both play in every step."""
    torch.set_num_threads(1)
    changes = {"steps": parallel_probe.STEPS, "eval_every": 0, "update": parallel_probe.UPDATE}
    config = processes.main_first(lambda: probe_task.lora_config(root, **changes))
    server = VLLMServerConfig(urls=(url,))
    config = replace(config, rotation="both", engine="vllm-server", vllm_server=server)
    PairTrainer(config, root / "run").train()


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
