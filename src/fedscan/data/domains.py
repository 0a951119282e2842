"""The six text domains and their names in SlimPajama's ``meta.redpajama_set_name``."""

DOMAINS: dict[str, str] = {
    "arxiv": "RedPajamaArXiv",
    "github": "RedPajamaGithub",
    "stackexchange": "RedPajamaStackExchange",
    "wikipedia": "RedPajamaWikipedia",
    "c4": "RedPajamaC4",
    "common_crawl": "RedPajamaCommonCrawl",
}
BY_SET_NAME: dict[str, str] = {set_name: domain for domain, set_name in DOMAINS.items()}
# Part of SlimPajama, but no longer distributed; its records are dropped and counted by name.
UNUSED_SET_NAMES = frozenset({"RedPajamaBook"})
