"""Training of a pair of language models on the game of `agon_env`."""
