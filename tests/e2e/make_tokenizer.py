"""Write a small tokenizer of our own making, for clients that load one: no hub is asked.

Run by the Python of the clients' environment, which has the libraries.
"""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path

from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

WORDS = 8000


def main(folder: str, *texts: str) -> None:
    """A token a word, the most frequent of `texts`: random ids become a text that has as many tokens again.

    Of pieces of words it would have fewer or more, and a client that draws ids would not send what it drew.
    """
    read = (word for text in texts for word in Path(text).read_text("utf-8").split())
    words = Counter(word for word in read if word.isascii())
    pieces = ["<unk>", "<s>", "</s>", *(word for word, _ in words.most_common(WORDS))]
    tokenizer = Tokenizer(models.WordLevel({piece: at for at, piece in enumerate(pieces)}, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    # <unk> is no special token: those are left out where ids are read back.
    special = {"bos_token": "<s>", "eos_token": "</s>"}
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, clean_up_tokenization_spaces=False, **special)
    fast.chat_template = "{% for one in messages %}{{ one['content'] }}{% endfor %}"  # adds no token
    fast.save_pretrained(folder)


if __name__ == "__main__":
    main(*sys.argv[1:])
