"""Stories: made up, from files, from a folder like the hub's; tokenised and cut."""

import itertools
import json

import numpy as np
import pandas as pd
import pytest

from fedscan.data.stories import STORY_SOURCES
from fedscan.data.stories.sequences import END, bpe_tokens, byte_tokens, cut
from fedscan.data.stories.story import Story


def taken(source, split="train", count=None, **own):
    return list(itertools.islice(STORY_SOURCES[source](split, **own), count))


def test_made_up_stories_have_themes_and_come_back_to_their_hero():
    found = taken("synthetic", count=30, seed=0)
    assert {story.origin for story in found} == {"farm", "sea", "town"}
    for story in found:
        hero = story.text.split()[0]
        assert story.text.count(hero) >= 3
        assert "{" not in story.text
    assert len({story.text for story in found}) == 30
    assert taken("synthetic", count=30, seed=0) == found
    assert taken("synthetic", "test", 30, seed=0)[0] != found[0]
    assert taken("synthetic", count=30, seed=1)[0] != found[0]


@pytest.fixture
def files(tmp_path):
    texts = ["Once there was a cat.", "  Zwei Kühe.\n", "The end of it."]
    rows = [{"story": text, "topic": f"t{i % 2}"} for i, text in enumerate(texts)]
    (tmp_path / "a.jsonl").write_text("\n".join(json.dumps(row) for row in rows) + "\n\n")
    pd.DataFrame(rows).rename(columns={"story": "text"}).to_parquet(tmp_path / "a.parquet")
    (tmp_path / "a.txt").write_text("<|endoftext|>".join(texts))
    return tmp_path


@pytest.mark.parametrize("ending", ["jsonl", "parquet", "txt"])
def test_files(files, ending):
    place = str(files / f"a.{ending}")
    origin = None if ending == "txt" else "topic"
    found = taken("local", "test", train="none.jsonl", test=place, origin=origin)
    assert [s.text for s in found] == ["Once there was a cat.", "Zwei Kühe.", "The end of it."]
    assert [s.origin for s in found] == (["", "", ""] if origin is None else ["t0", "t1", "t0"])


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("x.csv", "a", "expected a .jsonl, .parquet, .txt file"),
        ("x.jsonl", '{"title": "a"}\n', "line 1: no column story or text; its columns: title"),
        ("x.jsonl", '{"story": "a"}\n{"story": " "}\n', "line 2: an empty story"),
        ("x.jsonl", '{"story": 3}\n', "line 1: the story is int; expected text"),
        ("x.jsonl", '["a"]\n', "line 1: expected a JSON object, found list"),
        ("x.jsonl", "{\n", "line 1: not valid JSON"),
        ("x.jsonl", "\n", "no stories"),
        ("x.txt", "<|endoftext|> <|endoftext|>", "no stories"),
        ("x.txt", None, "no such file"),
    ],
)
def test_what_is_wrong_is_named(tmp_path, name, content, message):
    path = tmp_path / name
    if content is not None:
        path.write_text(content)
    with pytest.raises(ValueError, match=message) as error:
        taken("local", train=str(path), test="", origin=None)
    assert str(path) in str(error.value)


def test_a_missing_column_of_origin_is_named(files):
    with pytest.raises(ValueError, match="line 1: no column 'author'"):
        taken("local", train=str(files / "a.jsonl"), test="", origin="author")


def test_text_of_another_encoding_is_refused(tmp_path):
    (tmp_path / "x.txt").write_bytes("Kühe".encode("latin-1"))
    with pytest.raises(ValueError, match="not UTF-8"):
        taken("local", train=str(tmp_path / "x.txt"), test="", origin=None)


def test_a_folder_like_the_hubs(tmp_path):
    for split in ("train", "test"):
        rows = [{"story": f"{split} story {i}", "topic": "x"} for i in range(3)]
        pd.DataFrame(rows).to_parquet(tmp_path / f"{split}.parquet")
    own = {"repo": str(tmp_path), "revision": None, "column": "story", "origin": "topic"}
    found = taken("huggingface", "test", **own)
    assert [s.text for s in found] == [f"test story {i}" for i in range(3)]
    assert found[0].origin == "x"
    with pytest.raises(ValueError, match="no column 'text'; its columns: story, topic"):
        taken("huggingface", **{**own, "column": "text"})
    with pytest.raises(ValueError, match="split 'train' cannot be read"):
        taken("huggingface", **{**own, "repo": str(tmp_path / "nothing")})


def test_bytes_are_cut_without_loss():
    stories = [Story("ab", "x"), Story("cdé", "y"), Story("f" * 7, "z")]
    tokens = byte_tokens()
    found = list(cut(stories, tokens, 5))
    joined = [i for s in stories for i in [*s.text.encode(), 256]]
    assert np.concatenate([c.tokens for c in found]).tolist() == joined[: 5 * len(found)]
    assert len(joined) - 5 * len(found) < 5
    assert [c.origin for c in found] == ["x", "y", "z"]


def test_pairs_are_trained_without_randomness_and_lose_nothing():
    texts = [s.text for s in taken("synthetic", count=200, seed=0)]
    first, again = (bpe_tokens(texts, 400) for _ in range(2))
    assert first.description == again.description
    assert first.vocab_size == 400
    for text in [*texts[:20], f"Zwei Kühe, 3 {END[:3]} \n\n 猫"]:
        ids = first.encode(text)
        assert max(ids) < 400
        assert first.end not in ids
        assert first.count_bytes(ids) == len(text.encode())
    assert len(first.encode(texts[0])) < len(texts[0].encode()) / 2
