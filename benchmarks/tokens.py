"""Documents to packed sequences against tiktoken's encoder alone, one thread, best of n."""

import time
from fractions import Fraction

from environment import record

from fedscan import seeds
from fedscan.data.collect import collect, empty
from fedscan.data.packing import split_and_pack
from fedscan.data.records import KEPT, Record
from fedscan.data.synthetic_text import STYLES, document
from fedscan.data.tokenizers import gpt2

REPEATS = 5


def main():
    texts = [(domain, document(domain, 0, i)) for i in range(300) for domain in STYLES]
    megabytes = sum(len(text.encode()) for _, text in texts) / 1e6
    tokenizer = gpt2.load()
    encode = tokenizer.encode.__closure__[0].cell_contents.encode_ordinary
    alone = pipeline = float("inf")
    for _ in range(REPEATS):
        start = time.process_time()
        for _, text in texts:
            encode(text)
        alone = min(alone, time.process_time() - start)
        start = time.process_time()
        records = (Record(domain, text, KEPT) for domain, text in texts)
        found = collect(records, tokenizer, 10**9, 10**12, empty(list(STYLES)))
        for domain, documents in found.documents.items():
            stream = seeds.generator(0, "document order", domain)
            split_and_pack(documents, 512, tokenizer.eos, Fraction(4, 5), 10**9, stream)
        pipeline = min(pipeline, time.process_time() - start)
    rows = [
        ("tiktoken alone", megabytes / alone, "MB/s"),
        ("collect, tokenise, split and pack", megabytes / pipeline, "MB/s"),
        ("share of tiktoken's throughput", alone / pipeline, "x"),
    ]
    record("tokens", rows, 1)


if __name__ == "__main__":
    main()
