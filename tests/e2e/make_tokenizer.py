"""Write a small tokenizer of our own making, for clients that load one: no hub is asked.

Run by the Python of the clients' environment, which has the libraries.
"""

from __future__ import annotations

import sys
from pathlib import Path

from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast


def main(folder: str, *texts: str) -> None:
    """A byte-level BPE of 8000 pieces, trained on `texts`."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    # ASCII alone: half a character would be three tokens where random ids are read back.
    trainer = trainers.BpeTrainer(vocab_size=8000, special_tokens=["<s>", "</s>"])
    read = (Path(text).read_text("utf-8").encode("ascii", "ignore").decode() for text in texts)
    tokenizer.train_from_iterator(read, trainer)
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, bos_token="<s>", eos_token="</s>")
    fast.chat_template = "{% for one in messages %}{{ one['content'] }}{% endfor %}"  # adds no token
    fast.save_pretrained(folder)


if __name__ == "__main__":
    main(*sys.argv[1:])
